#!/usr/bin/env bash
# vipd is killed while a program uses it, and the next vipd has lower limits. It refuses the objects
# that are over its limits, with a reason. The other objects still work.
# usage: refused.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
. tests/lib/failed.sh
VIPD=$build/vipd/vipd
trap daemons_end EXIT
trap 'exit 130' INT TERM

# If the next vipd refuses one end of a connection, the connection is lost after `outlive`.
always=("[reliability]" "outlive = 10s" "[engine]" "direct = no")

# one LIMIT RESULT WORDS: the next vipd has the line LIMIT in [limits]; the program must print
# RESULT, with a reason that contains WORDS
one() {
    local limit=$1 result=$2 words=$3
    rm -f "$WORK/go"
    daemon_start A 127.0.0.1 "$port" "${always[@]}" || exit 1
    start_in A "$WORK/program.log" "$build/tests/system/refused" "$WORK/go"
    program=$STARTED
    for _ in $(seq 1200); do
        grep -q ready "$WORK/program.log" && break
        kill -0 "$program" 2>/dev/null || failed "$limit: the program"
        sleep 0.05
    done
    daemon_stop A KILL
    daemon_start A 127.0.0.1 "$port" "${always[@]}" "[limits]" "$limit" || exit 1
    touch "$WORK/go"
    wait "$program" || failed "$limit: the program"
    ! grep FAILED "$WORK/program.log" || failed "$limit"
    grep -qx "$result" "$WORK/program.log" || failed "$limit: not \"$result\""
    grep -q "$words" "$WORK/program.log" || failed "$limit: no reason \"$words\""
    daemon_stop A TERM
    echo "$limit: $result"
}

daemons_begin
port_take || exit 1
one "register_regions = 2" "good 2 lost 2 refused 1" \
    "refuses the region .*\[limits\] register_regions"
one "vis = 5" "good 2 lost 2 refused 0" "refuses this VI.*the limit is \[limits\] vis = 5"
one "cqs = 1" "good 2 lost 2 refused 1" "refuses completion queue 1.*limit of \[limits\] cqs = 1"
one "ptags = 2" "good 2 lost 2 refused 2" "refuses protection tag .*limit.*\[limits\] ptags = 2"
one "ptags = 3" "good 3 lost 0 refused 0" "ready"
echo "refused: the rest went on"
