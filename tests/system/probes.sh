#!/usr/bin/env bash
# The program vipd must have each probe (proto/probe.h) with its arguments. If bpftrace can run
# here, the two scripts of tools/bpftrace must see traffic by the probes.
# usage: probes.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
VIPD=$build/vipd/vipd
bad=0
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

if ! echo '#include <sys/sdt.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
    echo "skipped: <sys/sdt.h> (package systemtap-sdt-dev) is not installed, so vipd has no probes"
    exit 77
fi
readelf -n "$VIPD" >"$WORK/notes" 2>/dev/null
for probe in post:4 doorbell:2 tx:4 rx:4 ack:4 timeout:3 complete:5 drop:3 wake:2; do
    found=$(awk '/Provider:/ { p = $2 } /Name:/ { n = $2 } /Arguments:/ && p == "vipd" { print n ":" NF - 1 }' "$WORK/notes" |
        sort -u | grep -c "^$probe\$")
    [ "$found" -eq 1 ] || wrong "the probe ${probe%:*} with ${probe#*:} arguments is not in $VIPD"
done

# A probe is a nop and calls nothing, so vipd needs no library of a tracer.
nm "$VIPD" | grep -iE ' U .*(stap|sdt|dtrace)' && wrong "vipd calls a tracer"

if ! command -v bpftrace >/dev/null || ! timeout 600 bpftrace -e 'BEGIN { exit(); }' >"$WORK/bpftrace" 2>&1; then
    echo "bpftrace is not installed or the kernel does not let it run: the scripts were not tried"
    [ $bad -eq 0 ] && echo "probes: all nine are in vipd"
    exit $bad
fi
port_take || exit 1
daemon_start A 127.0.0.1 $port "faults = loss=1%,corrupt=1%,seed=1" && daemon_start B 127.0.0.2 $port || exit 1
start_in B "$WORK/serve.log" "$build/tools/vipperf" serve
start_in A "$WORK/bw.log" "$build/tools/vipperf" bw 127.0.0.2:$port --size 4096 --duration 600
for name in latency losses; do
    sed "s#@VIPD_SBIN@/vipd#$VIPD#" tools/bpftrace/vipd-$name.bt.in >"$WORK/$name.bt"
    pid=${DAEMON_PID[A]}
    [ $name = losses ] && pid=${DAEMON_PID[B]} # A corrupts the packets that it sends: B drops them
    timeout -s INT 8 bpftrace -p "$pid" "$WORK/$name.bt" >"$WORK/$name.out" 2>&1
done
for text in @post_to_complete_us @wire_to_ack_us @by_session_and_vi_us; do
    grep -q "^$text" "$WORK/latency.out" || wrong "vipd-latency.bt prints no $text: $(tail -n 20 "$WORK/latency.out")"
done
for text in '@received: [1-9]' '@sent: [1-9]' '@dropped.vip0, drop_crc.: [1-9]'; do
    grep -q "$text" "$WORK/losses.out" || wrong "vipd-losses.bt prints no $text: $(tail -n 20 "$WORK/losses.out")"
done
[ $bad -eq 0 ] && echo "probes: all nine are in vipd, and both scripts see traffic"
exit $bad
