#!/usr/bin/env bash
# Programs whose connection is on loan are stopped (SIGSTOP, SIGCONT), killed (SIGKILL), and fork,
# while checked traffic goes on (tests/lib/outlive.c). No message may be lost, come twice or out of
# order; a killed program may harm its own connection only; vipd keeps nothing of it.
# usage: interrupted.sh BUILD_DIR [TIMES [stops | kills | forks]]     TIMES: of each
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-3} part=${3:-all}
. scripts/daemons.sh
. tests/lib/failed.sh
. tests/lib/outlive.sh
. tests/hostile/lib.sh # inventory
outlive=$build/tests/system/outlive
vipctl=$build/tools/vipctl
seed=$(own_seed interrupted)
RANDOM=$seed
echo "seed $seed"
trap daemons_end EXIT
trap 'exit 130' INT TERM
export VIPL_LOAN=eager
# shellcheck disable=SC2034
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)

# Wait for a random time of at most MS milliseconds.
linger() { sleep "$(printf '0.%03d' $((RANDOM % $1)))"; }

# Is the connection of the process PID on HOST on loan?
is_lent() { # is_lent HOST PID
    [ "$(in_host "$1" "$vipctl" show conn --json | jq "[.connections[] | select(.pid == $2 and .data_path == \"loan\")] | length")" != 0 ]
}

# Wait until the program on HOST has had its first loan; this loan may be over.
await_loan() { # await_loan HOST PID
    for _ in $(seq 1200); do
        [ "$(in_host "$1" "$vipctl" show conn --json | jq "[.connections[] | select(.pid == $2) | .lent // 0] | add")" -gt 0 ] &&
            return 0
        sleep 0.05
    done
    return 1
}

# Stop the program PID on HOST for 0.3 to 0.4 s. During this time messages wait for the program, so
# vipd takes a loan back, if it can. It cannot if the program was stopped inside.
stop_once() { # stop_once HOST PID
    linger 50
    ! is_lent "$1" "$2" || on_loan=$((on_loan + 1))
    kill -STOP "$2"
    sleep 0.3
    linger 100
    ! is_lent "$1" "$2" || inside=$((inside + 1))
    kill -CONT "$2"
}

# traffic_goes_on COUNT: the pair that outlive_begin has started exchanges COUNT more messages
traffic_goes_on() { outlive_await $(($(outlive_come) + $1)) || failed "messages have stopped"; }

stops() {
    local words come counted
    for words in "" "poll" "poll write" "cq"; do
        on_loan=0 inside=0
        outlive_begin "$words" "$words" || failed "$WRONG"
        # A program that waits at a CQ gives its loans back, so it may have none.
        [ "$words" = cq ] || await_loan A "$OUTLIVE_CLIENT" || failed "vipd has lent nothing"
        for _ in $(seq "$times"); do
            stop_once A "$OUTLIVE_CLIENT"
            traffic_goes_on 100
            stop_once B "$OUTLIVE_SERVER"
            traffic_goes_on 100
        done
        come=$(outlive_come)
        counted=$(in_host A "$vipctl" show vi --json | jq "[.vis[] | select(.pid == $OUTLIVE_CLIENT) | .rx_messages] | add")
        # libvipl tells its counts after at most 64 stays.
        [ $((counted + 200)) -ge "$come" ] || failed "show vi has $counted messages, $come have come"
        outlive_finish || failed "stops: $WRONG"
        echo "$((2 * times)) stops ($words): $on_loan on loan, $inside of all inside; $(tail -n 1 "$WORK/client.log")"
    done
}

# Start two programs; kill one of them when messages go back and forth, and wait for the other one.
kill_once() { # kill_once client|server WORDS
    local server client dead peer
    # shellcheck disable=SC2086
    start_in B "$WORK/killed_server.log" "$outlive" server $2
    server=$STARTED
    for _ in $(seq 1200); do
        grep -q ready "$WORK/killed_server.log" && break
        sleep 0.05
    done
    # shellcheck disable=SC2086
    start_in A "$WORK/killed_client.log" "$outlive" client 127.0.0.2 "$WORK/never" $2
    client=$STARTED
    for _ in $(seq 1200); do
        grep -q '^at' "$WORK/killed_client.log" && break
        sleep 0.05
    done
    linger 100
    dead=$client peer=$server
    [ "$1" = client ] || dead=$server peer=$client
    kill -KILL "$dead" || failed "the $1 was not there"
    wait "$dead" 2>/dev/null
    for _ in $(seq 1200); do
        kill -0 "$peer" 2>/dev/null || { wait "$peer"; return; }
        sleep 0.05
    done
    failed "the peer of a killed $1 did not end"
}

kills() {
    local i lent status
    kill_once client "" && sleep 1 # the first use fills caches
    inventory A >"$WORK/before.A"
    inventory B >"$WORK/before.B"
    outlive_begin "" "cq" || failed "$WRONG"
    lent=$(stat_of A loans_lent)
    for i in $(seq "$times"); do
        # A server ends in order if its client is gone. A client fails if its server is gone.
        kill_once client "fork poll"
        status=$?
        [ $status -eq 0 ] || failed "the server of a killed client: status $status"
        kill_once server "$([ $((i % 2)) = 0 ] || echo poll write)" && failed "the client of a killed server ended in order"
        traffic_goes_on 100
    done
    lent=$(($(stat_of A loans_lent) - lent))
    [ $lent -gt 0 ] || failed "vipd has lent nothing"
    outlive_finish || failed "beside killed programs: $WRONG"
    inventory_back A "$WORK/before.A" && inventory_back B "$WORK/before.B" || failed "vipd has kept something"
    echo "$((2 * times)) kills, $lent loans: vipd has kept nothing; beside them, $(tail -n 1 "$WORK/client.log")"
}

forks() {
    outlive_begin "fork" "fork heap" || failed "$WRONG"
    await_loan A "$OUTLIVE_CLIENT" || failed "vipd has lent nothing"
    traffic_goes_on $((100 * times))
    outlive_finish || failed "forks: $WRONG"
    echo "more than $((2 * times)) forks, $(tail -n 1 "$WORK/client.log")"
}

daemons_begin "$build/vipd"
port_take || exit 1
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "[engine]" "loan = auto" || exit 1
done
case $part in
stops | kills | forks) "$part" ;;
all)
    stops
    kills
    forks
    ;;
*) failed "no part $part" ;;
esac
for host in A B; do
    daemon_stop $host || failed "vipd $host has ended badly"
done
echo "interrupted: nothing was lost or came twice"
