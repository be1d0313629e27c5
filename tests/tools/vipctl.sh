#!/usr/bin/env bash
# vipctl: exit codes and messages without a vipd and with a vipd that sends wrong answers
# (fake_vipd.c); tables and JSON of every view with a real vipd and clients.
# usage: vipctl.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipctl=$build/tools/vipctl
vipperf=$build/tools/vipperf
fake=$build/tests/tools/fake_vipd
port_take || exit 1
bad=0
VIPD=$build/vipd/vipd
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# expect CODE TEXT COMMAND...: the command must end with CODE and print TEXT
expect() {
    local code=$1 text=$2 got
    shift 2
    "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    got=$?
    [ $got -eq "$code" ] || wrong "$* ended with $got instead of $code: $(cat "$WORK/out" "$WORK/err")"
    cat "$WORK/out" "$WORK/err" | grep -qF -- "$text" ||
        wrong "$* does not say \"$text\": $(cat "$WORK/out" "$WORK/err")"
}

# json FILTER COMMAND...: the command must print one valid document that passes the filter
json() {
    local filter=$1
    shift
    "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || wrong "$*: $(cat "$WORK/err")"
    command -v jq >/dev/null || return 0
    [ "$(jq -s "length == 1 and (.[0] | $filter)" "$WORK/out" 2>&1)" = true ] ||
        wrong "$*: $filter does not hold: $(cat "$WORK/out")"
}

# Usage errors; no vipd is necessary.
export VIPD_RUNTIME_DIR=$WORK/nobody
expect 0 "show        [VIEW" "$vipctl" --help
expect 0 "vipctl " "$vipctl" --version
expect 2 "is no filter" "$vipctl" show vi nic
expect 2 'no view "walls"' "$vipctl" show walls
expect 2 'no command "dance"' "$vipctl" dance
expect 2 "--help" "$vipctl" --colour

# Without vipd: vipctl names the socket and says what to do.
expect 3 "$WORK/nobody/vipd.sock" "$vipctl"
expect 3 "vipd --runtime-dir" "$vipctl" show vi --json
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    mkdir -m 700 "$WORK/secret"
    chmod 755 "$WORK"
    cp "$vipctl" "$WORK/vipctl" && chmod 755 "$WORK/vipctl"
    expect 4 "no permission" env VIPD_RUNTIME_DIR="$WORK/secret" \
        setpriv --reuid=65534 --regid=65534 --clear-groups "$WORK/vipctl"
fi

fake_start() { # fake_start MODE
    mkdir -p "$WORK/fake-$1"
    "$fake" "$WORK/fake-$1/vipd.sock" "$1" </dev/null &
    track $!
    for _ in $(seq 1200); do
        [ -S "$WORK/fake-$1/vipd.sock" ] && break
        sleep 0.05
    done
    export VIPD_RUNTIME_DIR=$WORK/fake-$1
}
fake_start refuse
expect 1 "the moon is full" "$vipctl"
fake_start garbage
expect 1 "makes no sense" "$vipctl" show nic
fake_start gone
expect 1 "closed the connection" "$vipctl" show nic
fake_start hang
expect 6 "did not answer" "$vipctl" show stats
fake_start pages
expect 0 "the peer did not answer" "$vipctl" show vi
expect 0 "127.0.0.2:4000" "$vipctl" show vi
expect 0 'evil\x1b[31m' "$vipctl" show vi
grep -q "$(printf '\033')" "$WORK/out" && wrong "colours or foreign escapes in a pipe"
json '.schema == "vipd.vi/1" and [.vis[].vi] == [0, 17] and .vis[0].tx_bytes == 1536' \
    "$vipctl" show vi --json
json '.schema == "vipd.summary/1" and .pid == 4711 and .epoch == "0xffffffffffffffff"' "$vipctl" --json
expect 0 "No memory is registered." "$vipctl" show mem
if [ -w /dev/full ]; then
    "$vipctl" show vi >/dev/full 2>"$WORK/err" && wrong "a full disk looks like success"
fi

# A real vipd, a server and a client that exchange messages.
daemon_start A 127.0.0.1 $port "[names]" "node-a = 127.0.0.1:$port" || exit 1
daemon_start B 127.0.0.2 $port || exit 1
VIPD_RUNTIME_DIR=$WORK/B "$vipperf" serve >"$WORK/serve.log" 2>&1 </dev/null &
track $!
VIPD_RUNTIME_DIR=$WORK/A "$vipperf" bw 127.0.0.2 --size 4096 --duration 20 >"$WORK/client.log" 2>&1 \
    </dev/null &
client=$!
track $client
export VIPD_RUNTIME_DIR=$WORK/A
for _ in $(seq 600); do
    [ "$("$vipctl" show vi | grep -ci connected)" -ge 2 ] && break
    sleep 0.1
done
expect 0 "vip0" "$vipctl"
expect 0 "127.0.0.1" "$vipctl" show nic
expect 0 "CONNECTED" sh -c "'$vipctl' show vi | tr a-z A-Z"
expect 0 "127.0.0.2" "$vipctl" show vi
expect 0 "vipperf" "$vipctl" show clients
expect 0 "vip0" "$vipctl" show mem
expect 0 "vip0" "$vipctl" show stats
json '(.pid | type) == "number" and .nics[0].name == "vip0"' "$vipctl" --json
json '.nics | length == 1 and .[0].clients == 1 and .[0].tx_bytes > 0 and .[0].rx_packets > 0' \
    "$vipctl" show nic --json
json "[.vis[] | select(.pid == $client and .program == \"vipperf\")] | length == 2" \
    "$vipctl" show vi --json
json "[.regions[] | select(.pid == $client) | .size_bytes > 0 and (.kind | length) > 0] |
    length >= 2 and all" "$vipctl" show mem --json
json "[.clients[] | select(.pid == $client and .uid == $(id -u))] | length == 1" \
    "$vipctl" show clients --json
json '(.counters | length) > 10 and ([.counters[].value | type] | all(. == "number"))' \
    "$vipctl" show stats --json
# The gauges of this vipd and of the sessions of its NIC. With a sanitizer memory_heap is 0: the C
# library does not count the sanitizer's allocator.
heap_least=100000
grep -q '^VIP_SANITIZE:STRING=.' "$build/CMakeCache.txt" && heap_least=0
json '[.counters[] | select(.kind == "gauge") | {(.scope + " " + .name): .value}] | add |
    .["vipd sessions"] == 1 and .["vipd fds_open"] > 5 and .["vipd memory_resident"] > 100000 and
    .["vipd memory_mapped"] > .["vipd memory_resident"] and .["vipd memory_heap"] >= '$heap_least' and
    .["nic:vip0 vis"] == 2 and .["nic:vip0 conns"] == 2 and .["nic:vip0 connects"] == 0 and
    .["nic:vip0 regions"] >= 2 and .["nic:vip0 region_bytes"] > 4096 and .["nic:vip0 cqs"] == 0 and
    .["nic:vip0 discriminators"] == 0 and .["nic:vip0 cm_bytes"] > 0' "$vipctl" show stats --json
json '[.clients[].program] == ["vipperf"]' env VIPD_RUNTIME_DIR="$WORK/B" "$vipctl" show clients -j
# The NIC that reaches a host, or the reason why no NIC does.
expect 0 "reached by NIC vip0 (udp) at 127.0.0.2:$port" "$vipctl" explain peer 127.0.0.2
expect 0 "it is this host; from [names]" "$vipctl" explain peer node-a
expect 0 "no connection with it now" "$vipctl" explain peer 192.0.2.1
expect 5 "no NIC reaches" "$vipctl" explain peer no-such-host.invalid
expect 5 "not by vip0 (udp): no address of this medium in [names]; the system's resolver: " \
    "$vipctl" explain peer no-such-host.invalid
expect 1 "1 to 255 bytes" "$vipctl" explain peer ""
kill $client 2>/dev/null
wait $client 2>/dev/null
for _ in $(seq 600); do
    "$vipctl" show clients | grep -q "No program" && break
    sleep 0.1
done
expect 0 "No program has a NIC open." "$vipctl" show clients
expect 0 "No VI exists." "$vipctl" show vi

[ $bad -eq 0 ] && echo "vipctl: every view, every exit code"
exit $bad
