#!/usr/bin/env bash
# vipctl capture: with our dissector, tshark must show the captured files. Captures have headers
# only or also payload. They are of all traffic, of one VI, of one peer, or between two programs of
# one host, with limits. Only administrators may capture, and only one capture may run at a time.
# usage: capture.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v tshark >/dev/null || { echo "skipped: tshark is not installed"; exit 77; }
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

# expect CODE TEXT COMMAND...
expect() {
    local code=$1 text=$2 got
    shift 2
    timeout 600 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    got=$?
    [ $got -eq "$code" ] || wrong "$* ended with $got instead of $code: $(cat "$WORK/err")"
    grep -qF -- "$text" "$WORK/err" || wrong "$* does not say \"$text\": $(cat "$WORK/err")"
}

show() { # show FILE TSHARK ARGUMENTS...
    local file=$1
    shift
    tshark -X lua_script:tools/wireshark/vipd.lua -r "$file" "$@" 2>"$WORK/err" ||
        wrong "tshark $file: $(cat "$WORK/err")"
}
# frames FILE FILTER: the number of frames that pass
frames() { show "$1" -Y "$2" -T fields -e frame.number | grep -c .; }

port_take || exit 1
daemon_start A 127.0.0.1 $port && daemon_start B 127.0.0.2 $port || exit 1
export VIPD_RUNTIME_DIR=$WORK/A
start_in B "$WORK/serve.log" "$vipperf" serve
start_in A "$WORK/serve-a.log" "$vipperf" serve
start_in A "$WORK/lat.log" "$vipperf" lat 127.0.0.2:$port --size 777 --iters 100000000 --verify
remote=$STARTED
start_in A "$WORK/local.log" "$vipperf" lat 127.0.0.1:$port --size 888 --iters 100000000
for _ in $(seq 600); do
    [ "$("$vipctl" -rn show vi 'tx_messages>10' | grep -c .)" -ge 3 ] && break
    sleep 0.1
done
# The VI with the traffic. (vipperf uses its other VI only to agree about the measurement.)
vi=$("$vipctl" -rn -o client,vi show vi state=connected pid="$remote" 'tx_messages>10' | tail -n 1 | tr '\t' ':')

# ---- everything, headers only ----------------------------------------------------------------

# A few thousand frames take a few milliseconds. Not all programs send in this time, so try again.
kinds=('vipd.frame.total == 777 and frame.comment contains "sent"'
    'vipd.frame.total == 777 and frame.comment contains "received"'
    'vipd.frame.total == 888 and frame.comment contains "within this host"'
    'vipd_desc.kind == 1 and vipd_desc.queue == 0' 'vipd_desc.kind == 2 and vipd_desc.queue == 1')
all_kinds() {
    for missing in "${kinds[@]}"; do
        [ "$(frames "$WORK/all.pcapng" "$missing")" -gt 0 ] || return
    done
}
for _ in $(seq 20); do
    expect 0 " lost" "$vipctl" capture -w "$WORK/all.pcapng" -c 3000
    all_kinds && break
done
all_kinds || wrong "no frame with $missing"
[ "$(frames "$WORK/all.pcapng" frame)" -eq 3000 ] || wrong "not 3000 frames"
[ "$(frames "$WORK/all.pcapng" 'vipd.short or vipd.strange or _ws.malformed')" -eq 0 ] ||
    wrong "good packets are complained about"
# Each packet has its full length as a number, but the file must not have the payload's bytes.
[ "$(frames "$WORK/all.pcapng" 'vipd.frame.total == 777 and frame.cap_len > 104')" -eq 0 ] || wrong "payload without --payload"
[ "$(frames "$WORK/all.pcapng" 'vipd.frame.total == 777 and frame.len == 881')" -gt 0 ] || wrong "the packets' length is lost"
[ "$(frames "$WORK/all.pcapng" 'vipd.frame.payload')" -eq 0 ] || wrong "payload is shown"

# ---- captures of one VI, of one peer ---------------------------------------------------------

expect 0 " lost" "$vipctl" capture -w "$WORK/vi.pcapng" -c 300 --vi "$vi" --payload
[ "$(frames "$WORK/vi.pcapng" "not frame.comment contains \"client ${vi%:*} VI ${vi#*:}\"")" -eq 0 ] || wrong "other VIs"
[ "$(frames "$WORK/vi.pcapng" 'vipd.frame.total == 888')" -eq 0 ] || wrong "another connection"
[ "$(frames "$WORK/vi.pcapng" 'vipd.frame.total == 777 and frame.cap_len == 881')" -gt 0 ] || wrong "no payload with --payload"
expect 0 " lost" "$vipctl" capture -w "$WORK/peer.pcapng" -c 100 --peer 127.0.0.2:$port
[ "$(frames "$WORK/peer.pcapng" "not frame.comment contains \"peer 127.0.0.2:$port\"")" -eq 0 ] || wrong "other peers"
# A reader that reads a running capture (like Wireshark) must see a client that connects meanwhile.
# If the reader is too slow, vipd leaves packets out; then the test tries again.
live_capture() {
    "$vipctl" capture -w - -c 100000000 2>"$WORK/live.err" >"$WORK/live.pcapng" &
    live=$!
    track $live
    for _ in $(seq 600); do
        [ -s "$WORK/live.pcapng" ] && break
        sleep 0.1
    done
    expect 1 "one at a time" "$vipctl" capture -w "$WORK/second.pcapng" -c 1
    "$vipperf" lat 127.0.0.2:$port --iters 10 >/dev/null 2>&1 || true
    "$vipctl" ping 127.0.0.2:$port -c 1 >/dev/null || wrong "ping"
    kill -INT $live
    wait $live || wrong "capture ended with $? after SIGINT: $(cat "$WORK/live.err")"
    [ "$(frames "$WORK/live.pcapng" 'vipd.cm.type')" -gt 0 ]
}
seen=0
for _ in $(seq 20); do
    live_capture && seen=1 && break
    grep -Eq '[1-9][0-9]* lost' "$WORK/live.err" || wrong "no connection management, and nothing was lost: $(cat "$WORK/live.err")"
done
[ $seen -eq 1 ] || wrong "no connection management"

# ---- refused captures --------------------------------------------------------------------------

expect 2 "say where to" "$vipctl" capture
expect 2 "want a VI's number" "$vipctl" capture -w "$WORK/x" --vi 4096
expect 5 "neither an address" "$vipctl" capture -w "$WORK/x" --peer nowhere.invalid
expect 1 "No such file" "$vipctl" capture -w "$WORK/no/where" -c 1
if [ "$(id -u)" = 0 ]; then
    for_others "$build" "$vipctl"
    chmod 755 "$WORK/A"
    expect 4 "may not capture" setpriv --reuid=65534 --regid=65534 --clear-groups "$OTHERS/vipctl" capture -w /dev/null -c 1
fi
# After the tool is killed, the next capture must begin.
"$vipctl" capture -w /dev/null -c 100000000 2>/dev/null &
live=$!
sleep 0.3
kill -KILL $live
wait $live 2>/dev/null
for _ in $(seq 600); do
    "$vipctl" capture -w /dev/null -c 10 2>/dev/null && break
    sleep 0.1
done
expect 0 " lost" "$vipctl" capture -w /dev/null -c 10
# The capture must end when vipd ends.
"$vipctl" capture -w "$WORK/last.pcapng" -c 100000000 2>"$WORK/live.err" &
live=$!
track $live
for _ in $(seq 600); do
    [ -s "$WORK/last.pcapng" ] && break
    sleep 0.1
done
daemon_stop A
wait $live || wrong "capture ended with $? when vipd did"
grep -q "vipd has ended" "$WORK/live.err" || wrong "it does not say so: $(cat "$WORK/live.err")"
[ $bad -eq 0 ] && echo "capture: packets and descriptors, with and without payload, bounded"
exit $bad
