#!/usr/bin/env bash
# vipctl capture must see messages between two programs of one host, although the programs use a
# direct ring. While the capture runs, all messages must pass vipd, also those of programs that
# connect meanwhile; afterwards the ring. There are no rings with direct = no, or VIPL_DIRECT=0.
# usage: capture_rings.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipctl=$build/tools/vipctl
vipperf=$build/tools/vipperf
bad=0
VIPD=$build/vipd/vipd
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# busy_vi PID: print client:vi of the VI of process PID that has the traffic
busy_vi() {
    local found
    for _ in $(seq 600); do
        found=$("$vipctl" -rn -o client,vi show vi state=connected pid="$1" 'tx_messages>100' | tail -n 1 | tr '\t' ':')
        [ -n "$found" ] && echo "$found" && return
        sleep 0.1
    done
    return 1
}

# sample prints "PACKETS MESSAGES": packets through vipd, and messages sent, in the same time.
packets() { "$vipctl" -rn -o value show stats name=loop_packets | head -n 1; }
messages() { "$vipctl" -rn -o tx_messages show vi "client=${1%:*}" "vi=${1#*:}"; }
sample() { # sample VI
    local before before_messages
    before=$(packets) before_messages=$(messages "$1")
    for _ in $(seq 600); do
        sleep 0.1
        [ $(($(messages "$1") - before_messages)) -ge 500 ] && break
    done
    # Read both counters in the same order as before, so that both numbers are of the same time.
    echo "$(($(packets) - before)) $(($(messages "$1") - before_messages))"
}

# The VI's messages must use the ring. Wait, because vipd notices the end of a capture a bit later.
by_ring() { # by_ring VI WHEN
    local p m
    for _ in $(seq 20); do
        read -r p m < <(sample "$1")
        [ "$m" -ge 500 ] && [ $((p * 10)) -lt "$m" ] && return
    done
    wrong "$2: $p packets for $m messages: the ring is not used"
}

by_vipd() { # by_vipd VI WHEN
    local p m
    read -r p m < <(sample "$1")
    [ "$m" -ge 500 ] && [ "$p" -ge $((m * 9 / 10)) ] || wrong "$2: $p packets for $m messages: some went past vipd"
}

# capture FILE: start a capture in the background; return when it has begun
capture() {
    "$vipctl" capture -w "$1" -c 100000000 2>"$WORK/capture.err" &
    live=$!
    track $live
    for _ in $(seq 600); do
        [ -s "$1" ] && return
        sleep 0.1
    done
    wrong "the capture does not begin: $(cat "$WORK/capture.err")"
}

capture_end() {
    kill -INT $live
    wait $live || wrong "capture ended with $?: $(cat "$WORK/capture.err")"
}

DAEMON_NIC="link = loop" daemon_start A 0 0 || exit 1
export VIPD_RUNTIME_DIR=$WORK/A
start_in A "$WORK/serve.log" "$vipperf" serve
start_in A "$WORK/lat.log" "$vipperf" lat localhost --size 64 --wait poll --iters 1000000000 --verify
vi=$(busy_vi "$STARTED") || { wrong "no traffic: $(cat "$WORK/lat.log")"; exit 1; }
by_ring "$vi" "before"
# A capture of this VI only, which ends after 2,000 frames.
timeout 600 "$vipctl" capture -w "$WORK/some.pcapng" -c 2000 --vi "$vi" 2>"$WORK/err" ||
    wrong "a capture of 2,000 frames ended with $?: $(cat "$WORK/err")"
by_ring "$vi" "after a capture"
capture "$WORK/all.pcapng"
by_vipd "$vi" "during a capture"
start_in A "$WORK/late.log" "$vipperf" lat localhost --size 64 --wait poll --iters 1000000000 --verify
late=$(busy_vi "$STARTED") || wrong "no traffic of a program that came meanwhile: $(cat "$WORK/late.log")"
by_vipd "$late" "a program that came during a capture"
capture_end
by_ring "$vi" "after the second capture"
by_ring "$late" "a program that came during a capture, afterwards"
# After a capture is killed, the ring must be used again.
capture "$WORK/killed.pcapng"
kill -KILL $live
wait $live 2>/dev/null
by_ring "$vi" "after a capture that was killed"

# ---- without rings -----------------------------------------------------------------------------

start_in A "$WORK/out.log" env VIPL_DIRECT=0 "$vipperf" lat localhost --size 64 --wait poll --iters 1000000000
out=$(busy_vi "$STARTED") || wrong "no traffic with VIPL_DIRECT=0: $(cat "$WORK/out.log")"
by_vipd "$out" "VIPL_DIRECT=0"
daemon_stop A
DAEMON_NIC="link = loop" daemon_start B 0 0 "[engine]" "direct = no" || exit 1
export VIPD_RUNTIME_DIR=$WORK/B
start_in B "$WORK/serve-b.log" "$vipperf" serve
start_in B "$WORK/lat-b.log" "$vipperf" lat localhost --size 64 --wait poll --iters 1000000000
vi=$(busy_vi "$STARTED") || wrong "no traffic with direct = no: $(cat "$WORK/lat-b.log")"
by_vipd "$vi" "direct = no"
[ $bad -eq 0 ] && echo "capture_rings: messages pass vipd while it is watched, and only then"
exit $bad
