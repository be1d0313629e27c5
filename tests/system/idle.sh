#!/usr/bin/env bash
# vipd without work, and a program that waits in VipCQWait, must use no processor time. The kernel's
# account of the threads may grow by 200 us at most in a second. Of 30 seconds one such second is
# enough, because other load may disturb. A thread that polls has no such second.
# usage: idle.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
VIPD=$build/vipd/vipd
trap daemons_end EXIT
trap 'exit 130' INT TERM

daemons_begin
port_take && daemon_start A 127.0.0.1 "$port" || exit 1
VIPD_RUNTIME_DIR=$WORK/A "$build/tests/system/vipstate" block t rd 0 >"$WORK/block.log" 2>&1 &
program=$!
track $program
for _ in $(seq 1200); do
    grep -q blocked "$WORK/block.log" && break
    sleep 0.05
done
grep -q blocked "$WORK/block.log" || { cat "$WORK/block.log"; exit 1; }

used() { cat /proc/"$1"/task/*/schedstat | awk '{ns += $1} END {print ns}'; }
bad=0
for who in "vipd:${DAEMON_PID[A]}" "program:$program"; do
    for _ in $(seq 30); do
        before=$(used "${who#*:}")
        sleep 1
        after=$(used "${who#*:}")
        [ $((after - before)) -ge 200000 ] || break
    done
    echo "${who%%:*}: $((after - before)) ns of processor time in one idle second"
    [ $((after - before)) -lt 200000 ] || bad=1
done
[ $bad -eq 0 ] || echo "FAILED: a process is busy although there is nothing to do"
exit $bad
