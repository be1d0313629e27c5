#!/usr/bin/env bash
# A hostile network (net.c) against a vipd with a working connection: nothing of it is accepted, what
# arrives is counted by reason, the connection's data is intact and its rate at least 70 % of that while
# the same load goes to a socket of nobody's. Then requests from thousands of addresses: answered by
# cookies, never by more bytes, no waiter used up, and a real client connects meanwhile.
# usage: net.sh BUILD_DIR [ROUNDS [SECONDS [PER_SECOND [SEED]]]]     long form: net.sh build/dev 20 10
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-3}
seconds=${3:-1}
rate=${4:-100000}
seed=${5:-$RANDOM}
. scripts/daemons.sh
. tests/hostile/lib.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
port=$((20000 + RANDOM % 12000))
share=${VIP_RATE_SHARE:-70} # per cent that the victim must keep
daemon_start A 127.0.0.1 $port || exit 1
daemon_start B 127.0.0.2 $port || exit 1
in_host A "$build/tools/vipperf" serve >"$WORK/serve.log" 2>&1 &
track $!
sleep 0.5
echo "seed $seed"
bad=0

under() { # under KIND ADDRESS SEED: the rate of B -> A while the load goes to ADDRESS
    local pid mbps
    (
        sleep 0.3
        exec "$build/tests/hostile/net" "$1" "$2" $port "$seconds" "$rate" "$3"
    ) >"$WORK/net.log" 2>&1 &
    pid=$!
    mbps=$(victim B "127.0.0.1:$port" "$((seconds + 1))")
    wait "$pid" || { echo "FAILED: net $1: status $?" >&2; touch "$WORK/failed"; }
    cat "$WORK/net.log" >&2
    echo "${mbps:-0}"
}

compare() { # compare KIND
    local i a b try
    for try in 1 2 3; do
        local idle=() hit=()
        for ((i = 0; i < rounds; i++)); do
            idle+=("$(under "$1" 127.0.0.9 $((seed + i)))")
            hit+=("$(under "$1" 127.0.0.1 $((seed + 100 * try + i)))")
            [ "${hit[-1]}" -gt 0 ] && [ "${idle[-1]}" -gt 0 ] && continue
            echo "FAILED: the connection under $1:"
            tail -n 20 "$WORK/victim.log" "$WORK/A.log"
            exit 1
        done
        a=$(median "${idle[@]}") b=$(median "${hit[@]}")
        echo "$1: beside the load $((a / 1000000)) MB/s, under it $((b / 1000000)) MB/s"
        [ $((b * 100)) -ge $((a * share)) ] && return
    done
    echo "FAILED: less than $share %"
    bad=1
}

victim B "127.0.0.1:$port" 1 >/dev/null
compare forge
before=$(stat_of A conns_opened)
"$build/tests/hostile/net" forge 127.0.0.1 $port 1 "$rate" "$seed" >"$WORK/net.log" || bad=1
[ "$(stat_of A conns_opened)" -eq "$before" ] || { echo "FAILED: a connection was opened"; bad=1; }
for counter in drop_crc drop_short drop_unknown_conn cm_unexpected cm_cookies_sent; do
    [ "$(stat_of A $counter)" -gt 0 ] || { echo "FAILED: nothing was counted as $counter"; bad=1; }
done

compare connect
waiting=$(stat_of A cm_waiters)
"$build/tests/hostile/net" connect 127.0.0.1 $port 3 "$rate" "$seed" >"$WORK/net.log" &
pid=$!
sleep 0.5
started=$(date +%s%N)
victim B "127.0.0.1:$port" 1 >"$WORK/rate"
took=$((($(date +%s%N) - started) / 1000000))
[ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null || { echo "FAILED: no connection during the flood"; bad=1; }
wait $pid || { echo "FAILED: more bytes came back than were sent"; bad=1; }
cat "$WORK/net.log"
echo "a client connected, sent for 1 s and left within $took ms of the flood"
[ $took -le 6000 ] || { echo "FAILED: too slow"; bad=1; }
sleep 0.5
[ "$(stat_of A cm_waiters)" -eq "$waiting" ] || { echo "FAILED: waiters were used up"; bad=1; }
[ "$(stat_of A cm_pending)" -eq 0 ] || { echo "FAILED: requests were remembered"; bad=1; }
[ -e "$WORK/failed" ] && bad=1
[ $bad -eq 0 ] || tail -n 20 "$WORK/A.log"
exit $bad
