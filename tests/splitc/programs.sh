#!/usr/bin/env bash
# Compiles each program of tests/splitc/programs, tests/splitc/old and examples/splitc once, and
# runs it as jobs of several sizes. A program checks itself and shows errors by its exit status.
# usage: programs.sh BUILD_DIR loop|udp|lossy "SIZES" [NAME...]
#   loop: one vipd; udp: odd processes use a second vipd; lossy: udp with 2 % of the packets lost
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath "${1:?build directory}")
link=${2:?link}
sizes=${3:?sizes}
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-O1)
sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
[ -z "$sanitize" ] || flags+=("-fsanitize=$sanitize" -fno-sanitize=alignment -fno-sanitize-recover=undefined)

programs=()
for file in "$here"/programs/*.sc "$root"/examples/splitc/*.sc; do
    name=$(basename "$file" .sc)
    [ -e "$file" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    std=gnu89
    [ "$name" = forms ] && std=gnu11
    if ! "$build/splitc/splitcc" -w -std=$std "${flags[@]}" -o "$work/$name" "$file" -lm 2>"$work/err"; then
        echo "$name does not compile:"
        head -n 20 "$work/err"
        exit 1
    fi
    programs+=("$name")
done
# A program of several files in the style of 1995, with the options that such programs need.
if [ $# -eq 0 ] || [[ " $* " == *" old "* ]]; then
    if ! "$build/splitc/splitcc" -w -std=gnu89 -fgnu89-inline -fcommon "${flags[@]}" -O2 -o "$work/old" \
        "$here"/old/*.sc -lm 2>"$work/err"; then
        echo "old does not compile:"
        head -n 20 "$work/err"
        exit 1
    fi
    programs+=(old)
fi
[ ${#programs[@]} -gt 0 ] || { echo "no programs"; exit 1; }

# These scripts run inside two_vipd.sh: even processes use vipd A, odd processes B.
cat >"$work/side" <<'EOF'
#!/bin/sh
[ $((PMI_RANK % 2)) = 0 ] || export VIPD_RUNTIME_DIR="$VIPD_RUNTIME_DIR_B"
exec "$@"
EOF
cat >"$work/all" <<'EOF'
#!/bin/bash
amrun=$1
work=$2
sizes=$3
shift 3
bad=0
for name in "$@"; do
    for n in $sizes; do
        "$amrun" -n "$n" "$work/side" "$work/$name" >"$work/out" 2>&1 </dev/null
        status=$?
        cat "$work/out"
        [ $status -eq 0 ] || { echo "$name: $n processes: exit status $status"; bad=1; }
    done
done
exit $bad
EOF
chmod +x "$work/side" "$work/all"
if [ "$link" = lossy ]; then
    link=udp
    export VIP_NIC_LINES="faults = loss=2%,seed=${VIP_LOSS_SEED:-42}"
fi
"$root/tests/lib/two_vipd.sh" "$build" "$link" "$work/all" "$build/tools/amrun" "$work" "$sizes" "${programs[@]}"
