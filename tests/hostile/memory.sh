#!/usr/bin/env bash
# Runs memory.c against a vipd. The memory that vipd allocates for one user must have a limit, and a
# missing page must end only one session.
# usage: memory.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
chmod 711 "$WORK" # so that programs of other users can enter
bad=0

counter() { in_host A "$build/tools/vipctl" -rn -o value show stats "name=$1"; }

run() { # run MODE [COUNTER EXPECTED]: EXPECTED sessions must have ended for the reason COUNTER
    local ended
    in_host A "$build/tests/hostile/memory" "$1" || { echo "FAILED: $1"; bad=1; }
    [ $# -gt 1 ] || return 0
    ended=$(counter "$2")
    [ "${ended:-none}" = "$3" ] || { echo "FAILED: $1: $2 is ${ended:-none}, not $3"; bad=1; }
}

stop() {
    kill -TERM "${DAEMON_PID[A]}"
    wait "${DAEMON_PID[A]}" || { echo "FAILED: vipd ended with status $?"; bad=1; }
    unset "DAEMON_PID[A]"
    [ $bad -eq 0 ] || tail -n 20 "$WORK/A.log"
}

port_take || exit 1
daemon_start A 127.0.0.1 $port "[limits]" "register_bytes_per_uid = 64M" || exit 1
run holes
run unread
run left ended_memory_limit 0
run grow ended_memory_limit 1
grep -q 'register_bytes_per_uid is 67108864' "$WORK/A.log" ||
    { echo "FAILED: the log does not say which limit"; bad=1; }
run segments # vipd ends the session that takes too much, or refuses the next one
run tables
stop

# A sanitizer must be loaded first; vipd's SIGBUS handler replaces the sanitizer's.
DAEMON_AS="env LD_PRELOAD=$build/tests/hostile/libunsealed.so ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}"
daemon_start A 127.0.0.1 $port || exit 1
run missing ended_missing_page 4
stop
[ $bad -eq 0 ] && echo "memory: what one user has vipd allocate is bounded, and a missing page ends one session"
exit $bad
