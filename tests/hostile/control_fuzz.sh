#!/usr/bin/env bash
# Runs control_fuzz.c against a vipd. Afterwards vipd must live, must have the same descriptors,
# sessions, regions and gauges as before, and at most 8 MiB more memory.
# usage: control_fuzz.sh BUILD_DIR [ROUNDS [SEED]]     long form: control_fuzz.sh build/asan 200000
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-1000}
. scripts/daemons.sh
seed=${3:-$(own_seed control_fuzz)}
. tests/hostile/lib.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
port_take && daemon_start A 127.0.0.1 "$port" || exit 1
echo "seed $seed"
bad=0
in_host A timeout 600 "$build/tests/hostile/control_fuzz" 50 10000 "$seed" || bad=1
sleep 0.3
inventory A >"$WORK/before"
memory=$(memory_kb A)
in_host A timeout 600 "$build/tests/hostile/control_fuzz" "$rounds" 1000000 $((seed + 1)) || bad=1
inventory_back A "$WORK/before" || bad=1
grown=$(($(memory_kb A) - memory))
echo "memory of vipd grew by $grown KiB"
case $build in
*asan*) ;; # AddressSanitizer keeps freed memory
*) [ $grown -le 8192 ] || { echo "FAILED: more than 8 MiB"; bad=1; } ;;
esac
kill -TERM "${DAEMON_PID[A]}"
wait "${DAEMON_PID[A]}" || { echo "FAILED: vipd ended with status $?"; bad=1; }
unset "DAEMON_PID[A]"
[ $bad -eq 0 ] || tail -n 30 "$WORK/A.log"
exit $bad
