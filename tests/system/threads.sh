#!/usr/bin/env bash
# Every NIC in its own thread ([engine] threads), on any number of processors. Checked programs
# (tests/lib/churn.c) use three NICs at the same time. Meanwhile vipctl asks for every view, vipd
# reads its configuration again, an administrator ends connections, and programs are killed and
# started again. No program may find a wrong byte or an impossible state, or wait for ever. In a
# build with a sanitizer, the sanitizer must report nothing.
# usage: threads.sh BUILD_DIR [ROUNDS]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-6}
. scripts/daemons.sh
. tests/lib/capabilities.sh

port_take || exit 1
RANDOM=$(own_seed threads)
vipctl=$build/tools/vipctl
LIMIT_S=120
PROGRAM=()
bad=0
trap daemons_end EXIT
trap 'exit 130' INT TERM

failed() {
    echo "FAILED $*"
    bad=1
}

# ---- two hosts, three NICs -----------------------------------------------------------------------

start_host() { # start_host NAME ADDRESS
    daemon_start "$1" "$2" $port "[nic:vip1]" "address = $2" "port = $((port + 1))" \
        "[nic:vip2]" "link = loop" "[engine]" "threads = 16" "spin = 20us" "[names]" \
        "host-a = 127.0.0.1:$port" "host-b = 127.0.0.2:$port" \
        "host-a1 = 127.0.0.1:$((port + 1))" "host-b1 = 127.0.0.2:$((port + 1))" || exit 1
    grep -q '3 NICs are driven by 3 threads' "$WORK/$1.log" || failed "$1 has no threads"
}

unset VIP_THREADS
daemons_begin "$build/vipd"
start_host A 127.0.0.1
start_host B 127.0.0.2
# The threads exist before the first request is answered.
in_host A "$vipctl" show nic >"$WORK/nics.txt" || failed "vipctl: $(cat "$WORK/nics.txt")"
engines=0
for task in "/proc/${DAEMON_PID[A]}/task"/*; do
    [ "$(cat "$task/comm")" = vipd-engine ] || continue
    engines=$((engines + 1))
    capabilities_dropped "$task/status" || failed "an engine has kept privileges"
done
[ $engines -eq 3 ] || failed "vipd has $engines engines instead of 3"

# Programs 0 to 2 are servers, 3 to 5 their clients, on NICs vip0, vip1, vip2.
start_program() { # start_program NUMBER
    local nic=vip$(($1 % 3)) host=A what=(client "pair$(($1 % 3))")
    case $1 in
    0 | 1) host=B ;;&
    [012]) what=(serve "pair$1") ;;
    3) what+=(127.0.0.2:$port) ;;
    4) what+=(127.0.0.2:$((port + 1))) ;;
    5) what+=(localhost) ;;
    esac
    CHURN_NIC=$nic VIPD_RUNTIME_DIR=$WORK/$host "$build/tests/system/churn" "${what[@]}" $((RANDOM + 1)) \
        >>"$WORK/program$1.log" 2>&1 </dev/null &
    PROGRAM[$1]=$!
    track $!
}

made() { grep -ac '^round' "$WORK/program$1.log"; } # made NUMBER: the number of connections that it has completed

goes_on() { # wait until every program has completed two more connections
    local i deadline=$((SECONDS + LIMIT_S)) before=()
    for i in 0 1 2 3 4 5; do
        before[i]=$(made $i)
    done
    for i in 0 1 2 3 4 5; do
        until [ $(($(made $i) - before[i])) -ge 2 ]; do
            if [ $SECONDS -gt $deadline ] || ! kill -0 "${PROGRAM[$i]}" 2>/dev/null; then
                failed "program $i does not go on after: $1"
                grep -av '^round' "$WORK/program$i.log" | tail -n 5
                return
            fi
            sleep 0.03
        done
    done
}

for i in 0 1 2 3 4 5; do
    : >"$WORK/program$i.log"
    start_program $i
done
goes_on "the start"

# ---- disturbances ----------------------------------------------------------------------------------

ask() { # ask HOST WORDS...: vipctl must succeed
    local host=$1
    shift
    in_host "$host" timeout $LIMIT_S "$vipctl" "$@" >"$WORK/ask.txt" 2>&1 ||
        failed "vipctl $* on $host: $(tail -n 2 "$WORK/ask.txt")"
}

for ((round = 0; round < rounds; round++)); do
    for view in nic vi mem clients stats config cq ptag conn listen peers errors limits; do
        ask A show $view
        ask B show $view
    done
    sed -i "s/^spin = .*/spin = $((21 + round))us/" "$WORK/A.conf"
    ask A reload
    ask A explain peer host-b
    ask B ping 127.0.0.1
    ask B drain
    ask B resume
    # This may fail, because at this moment there may be no connection.
    in_host A timeout $LIMIT_S "$vipctl" disconnect host-b >"$WORK/disconnect.txt" 2>&1
    # Kill a client at a random point, each round another client. The client's server must continue.
    victim=$((3 + round % 3))
    kill -KILL "${PROGRAM[$victim]}"
    wait "${PROGRAM[$victim]}" 2>/dev/null
    start_program $victim
    goes_on "round $round"
done
stat() { # stat NAME: of A
    in_host A "$vipctl" show stats | awk -v name="$1" '$1 == "vipd" && $2 == name {print $3}'
}
[ "$(stat engines)" = 3 ] || failed "vipctl shows $(stat engines) threads"
[ "$(stat halts)" -gt $((rounds * 10)) ] || failed "the NICs stood still only $(stat halts) times"
# Some programs are killed between two connections. But at least one must die with a connection.
[ "$(stat ended_died)" -ge 1 ] || failed "no connection has ended by a death"
[ "$(stat reloads)" = $rounds ] || failed "$(stat reloads) reloads instead of $rounds"

# ---- the end ---------------------------------------------------------------------------------------

for i in 0 1 2 3 4 5; do
    kill -TERM "${PROGRAM[$i]}"
done
for i in 0 1 2 3 4 5; do
    wait "${PROGRAM[$i]}" || failed "program $i: $(grep -av '^round' "$WORK/program$i.log" | tail -n 5)"
    ! grep -aq WRONG "$WORK/program$i.log" || failed "program $i: $(grep -a WRONG "$WORK/program$i.log")"
done
for host in A B; do
    pid=${DAEMON_PID[$host]}
    kill -TERM "$pid"
    wait "$pid" || failed "vipd $host ended with status $?"
    unset "DAEMON_PID[$host]"
    if grep -aE 'Sanitizer|broken invariant|runtime error' "$WORK/$host.log"; then
        failed "vipd $host"
        tail -n 60 "$WORK/$host.log"
    fi
done
[ $bad -eq 0 ] && echo "threads: $rounds rounds, three NICs in three threads"
exit $bad
