#!/usr/bin/env bash
# Two hosts that are stopped at the same time (as when a host has no processor time, or a virtual
# machine is suspended) must lose no connection, idle or busy. A host is its vipd and its programs,
# because a program on loan has the engine of its connection. If only one vipd is stopped, the other
# must find that its peer is silent.
# usage: paused.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh

VIPD=$build/vipd/vipd
vipstate=$build/tests/system/vipstate
vipperf=$build/tools/vipperf
port_take || exit 1
trap daemons_end EXIT
trap 'exit 130' INT TERM

# The stop (stop_s) is longer than peer_dead and conn_timeout. These are long enough for a busy
# host, on which the second vipd may continue some seconds after the first.
settings=("[reliability]" "peer_dead = 5s" "keepalive = 1s" "conn_timeout = 5s")
stop_s=8

failed() {
    echo "FAILED $1"
    tail -n 20 "$WORK"/*.log
    exit 1
}

await() { # await FILE PATTERN [SECONDS]: wait for a line of the file that matches
    for _ in $(seq $((${3:-60} * 20))); do
        grep -qE "$2" "$1" 2>/dev/null && return 0
        sleep 0.05
    done
    failed "/$2/ did not appear in $1"
}

daemons_begin
daemon_start A 127.0.0.1 $port "${settings[@]}" && daemon_start B 127.0.0.2 $port "${settings[@]}" || exit 1

# One idle connection, and one on which messages go back and forth until the test ends.
start_in B "$WORK/serve.log" "$vipstate" serve t rd 4
programs=("$STARTED")
await "$WORK/serve.log" waiting
start_in A "$WORK/watch.log" "$vipstate" watch t rd 127.0.0.2 0
watch=$STARTED
await "$WORK/watch.log" connected
await "$WORK/serve.log" connected
start_in B "$WORK/perf.serve.log" "$vipperf" serve
programs+=("$STARTED")
start_in A "$WORK/perf.log" "$vipperf" lat "127.0.0.2:$port" --size 64 --duration 600
busy=$STARTED
programs+=("$watch" "$busy")
# vipperf makes two connections. Wait for both, because a stop could prevent the second.
for _ in $(seq 1200); do
    connections=$(VIPD_RUNTIME_DIR=$WORK/A "$build/tools/vipctl" -rn show vi state=connected | grep -c .)
    [ "$connections" -ge 3 ] && break
    sleep 0.05
done
[ "$connections" -ge 3 ] || failed "the busy connection was not made"

for _ in 1 2; do
    kill -STOP "${programs[@]}" "${DAEMON_PID[A]}" "${DAEMON_PID[B]}"
    sleep $stop_s
    kill -CONT "${DAEMON_PID[A]}" "${DAEMON_PID[B]}" "${programs[@]}"
    sleep 3
    grep -E '^(callback|state 3)' "$WORK/serve.log" "$WORK/watch.log" && failed "the idle connection was lost"
    kill -0 "$busy" 2>/dev/null || failed "the busy connection was lost"
done

# If only B is stopped, A must find that its peer is silent.
kill -STOP "${DAEMON_PID[B]}"
await "$WORK/watch.log" '^callback resource 1 error 1 vi 1' 120
kill -CONT "${DAEMON_PID[B]}"
await "$WORK/serve.log" '^callback resource 1 error 1 vi 1' 120
wait "$watch" 2>/dev/null
echo "paused: vipd that stood still together lost nothing; one alone was found silent"
