#!/usr/bin/env bash
# The end of a program with much memory or many VIs must not delay other programs: vipd frees memory
# in another thread and ends VIs in portions. The test does not depend on the machine's speed.
# usage: silence.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
VIPD=$build/vipd/vipd
silence=$build/tests/system/silence
# Open the gate (tests/lib/slow_unmap.c), because a vipd that waits at the gate cannot end.
trap '[ -z "$WORK" ] || touch "$WORK/gate/go"; daemons_end' EXIT
trap 'exit 130' INT TERM
bad=0

failed() {
    echo "FAILED: $*"
    bad=1
}

daemons_begin
mkdir "$WORK/gate"
port_take || exit 1
settings=("[reliability]" "peer_dead = 1s" "keepalive = 250ms" "conn_timeout = 1s")
export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B

DAEMON_AS="env LD_PRELOAD=$build/tests/system/libslow_unmap.so SLOW_UNMAP=$WORK/gate" \
    daemon_start A 127.0.0.1 $port "${settings[@]}" || exit 1
daemon_start B 127.0.0.2 $port "${settings[@]}" || exit 1
"$silence" gate "$WORK/gate" || failed "messages stood still while vipd freed the memory of a dead program"

# vipd must not end before all memory is freed.
rm -f "$WORK/gate/begun" "$WORK/gate/go"
start_in A "$WORK/block.log" "$build/tests/system/vipstate" block t rd 0
for _ in $(seq 1000); do
    grep -q blocked "$WORK/block.log" && break
    sleep 0.05
done
kill -TERM "${DAEMON_PID[A]}"
for _ in $(seq 1000); do
    [ -e "$WORK/gate/begun" ] && break
    sleep 0.05
done
[ -e "$WORK/gate/begun" ] || failed "vipd unmapped nothing"
kill -0 "${DAEMON_PID[A]}" 2>/dev/null || failed "vipd ended while memory waited to be freed"
touch "$WORK/gate/go"
kill "$STARTED" # it would go on with the next vipd
daemon_stop A
daemon_stop B

daemon_start A 127.0.0.1 $port || exit 1
# A core dump of a program must leave out memory that is shared with vipd. Otherwise gcore and the
# kernel would allocate pages for 1.7 GiB of holes, and vipd would have to free them.
"$silence" dump || failed "a core dump has segments that are shared with vipd"

# A core dump of vipd must leave out this memory, too, because writing it would take too long.
start_in A "$WORK/serve.log" "$build/tools/vipperf" serve --once
server=$STARTED
for _ in $(seq 600); do
    grep -q ready "$WORK/serve.log" && break
    sleep 0.1
done
# Either vipd's filter leaves out shared memory without a name in a file system (core(5), bit 1), or each mapping has
# the mark "dd".
filter=$((0x$(cat "/proc/${DAEMON_PID[A]}/coredump_filter") & 2))
awk -v filter=$filter '/^[0-9a-f]+-[0-9a-f]+ / { name = $6; out = !filter && $2 ~ /s$/ && /\(deleted\)$/ }
    /^VmFlags:/ && name ~ /^\/memfd:/ && name !~ /stand-in/ { seen++; if (!out && !/ dd/) bad = bad " " name }
    END { if (seen < 3 || bad) print "of " seen " memory files vipd would dump:" bad; exit seen < 3 || bad != "" }' \
    "/proc/${DAEMON_PID[A]}/smaps" || failed "a core of vipd has memory of programs"
kill "$server"
wait "$server"

# Freeing 512 MiB takes at least 75 ms of processor time; ending 1000 VIs one by one takes 250 ms.
# If other threads do this, the first thread needs 1 ms and 15 ms. The limits allow slow machines.
"$silence" cpu "${DAEMON_PID[A]}" 512 1 20 || failed "the thread that moves messages frees memory"
"$silence" cpu "${DAEMON_PID[A]}" 1 1000 60 || failed "the end of 1000 VIs costs too much"

# A vipd that was stopped must report the length of the gap.
daemon_start B 127.0.0.2 $port "[reliability]" "keepalive = 250ms" || exit 1
daemon_stop A
daemon_start A 127.0.0.1 $port "[reliability]" "keepalive = 250ms" || exit 1
"$silence" stop "${DAEMON_PID[A]}" || failed "a second without vipd broke a connection"
most=$(in_host A "$build/tools/vipctl" -rn -o value show stats scope=nic:vip0 name=turn_gap_max)
[ "${most:-0}" -ge 700000000 ] || failed "turn_gap_max is ${most:-not shown} after a second without a turn"
# The log line must show the gap and the thread's processor time around the gap. The reason must be
# visible: the stopped thread had no processor time in that second.
sed -nE 's/.*no messages were moved for ([0-9]+) ms.*; in the last ([0-9]+) ms the thread had ([0-9]+) ms.*/\1 \2 \3/p' \
    "$WORK/A.log" | awk '$1 >= 700 && $2 >= $1 - 1 && $3 + 700 <= $2 {found = 1} END {exit !found}' ||
    failed "the log does not tell of a second without a turn: $(cat "$WORK/A.log")"
exit $bad
