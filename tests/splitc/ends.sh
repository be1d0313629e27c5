#!/usr/bin/env bash
# Ends of jobs: one process exits with a code, all exit with 0, a process is killed. Tests also the
# errors that SPLITC_DEBUG finds, and that the progress thread serves other processes.
# usage: ends.sh BUILD_DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?build directory}")
if [ -z "${ENDS_INSIDE-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    flags=()
    sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
    [ -z "$sanitize" ] || flags=("-fsanitize=$sanitize")
    "$build/splitc/splitcc" -w -O1 "${flags[@]}" -o "$work/ends" "$here/ends.sc" || exit 1
    ENDS_INSIDE=$work "$here/../lib/two_vipd.sh" "$build" loop "$here/ends.sh" "$build"
    exit
fi
bad=0
# expect STATUS TEXT ARGUMENTS: run a job of three processes; it must end with STATUS and print TEXT.
expect() {
    local want=$1 text=$2
    shift 2
    "$build/tools/amrun" -n 3 "$ENDS_INSIDE/ends" "$@" >"$ENDS_INSIDE/out" 2>&1 </dev/null
    local got=$?
    if [ $got -ne "$want" ] || ! grep -q "$text" "$ENDS_INSIDE/out"; then
        echo "$*: exit status $got instead of $want, or not '$text' in:"
        cat "$ENDS_INSIDE/out"
        bad=1
    fi
}
expect 3 'process 2' exit 3
expect 0 'process 1 is done' zero
expect 137 'process 2 .*killed by signal 9' kill
SPLITC_DEBUG=1 expect 1 'different spread arrays' scope
SPLITC_PROGRESS_THREAD=1 expect 0 'served' thread
SPLITC_HEAP=1 expect 0 'process 0 is done' zero
SPLITC_DEVICE=none expect 1 'cannot open the NIC' zero
SPLITC_DEVICE=vip0 expect 0 'process 2 is done' zero
SPLITC_HEAP=x expect 1 'SPLITC_HEAP is x' zero
# If the address space is smaller than the heap, the message must say what to do. (The address
# sanitizer cannot start with so little address space.)
if ! grep -q '^VIP_SANITIZE:STRING=address' "$build/CMakeCache.txt"; then
    (
        ulimit -v 16000000
        expect 1 'SPLITC_HEAP=4' zero
        exit $bad
    ) || bad=1
fi
[ $bad -eq 0 ] && echo "ends: ten ways"
exit $bad
