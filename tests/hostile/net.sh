#!/usr/bin/env bash
# A hostile network (net.c) against a vipd with a working connection: nothing of it is accepted, what
# arrives is counted by reason, the connection's data is intact and it keeps at least 70 % of its rate. Then
# requests from thousands of addresses: answered by cookies, never by more bytes, no waiter used up, and a
# real client connects meanwhile.
#
# Of which rate? Beside the same load at the same time sent to a program that receives and forgets it: any
# host that gets 100,000 packets a second pays for them, and what vipd makes of them beyond that is
# the harm. Both loads run in short slots by turns while one transfer goes on (share.c), with a pause in
# which lost packets are made good; the median of the ratios of 8 pairs of neighbouring slots is judged, and
# if it is below the mark that of up to 16 more with them.
# usage: net.sh BUILD_DIR [PAIRS [SLOT_MS [PER_SECOND [SEED]]]]     long form: net.sh build/dev 500 1000
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
pairs=${2:-8}
slot_ms=${3:-150}
rate=${4:-100000}
seed=${5:-$RANDOM}
settle_ms=100
busy_percent=1
. scripts/daemons.sh
. tests/hostile/lib.sh
trap hostile_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
take_processors
port=$((20000 + RANDOM % 12000))
net=$build/tests/hostile/net
daemon_start A 127.0.0.1 $port || exit 1
daemon_start B 127.0.0.2 $port || exit 1
start_in A "$WORK/serve.log" "$build/tools/vipperf" serve
start_in A "$WORK/sink.log" $ATTACK_CPU "$net" sink 127.0.0.9 $port
sleep 0.5
echo "seed $seed"
bad=0

# What the load has reached per second: 90 % of what was asked for, or the script says what the share was
# judged at. A fiftieth of it would be no load.
reached() { # reached LOG
    local got
    cat "$1"
    got=$(sed -n 's/.* \([0-9]*\) per second.*/\1/p' "$1")
    [ "${got:-0}" -ge $((rate * 9 / 10)) ] && return
    echo "(the machine is busy: ${got:-0} of $rate packets a second were sent)"
    [ "${got:-0}" -ge $((rate / 50)) ] || { echo "FAILED: that is too few"; bad=1; }
}

compare() { # compare KIND
    local control attack early="" before
    start_in A "$WORK/aside.log" $ATTACK_CPU "$net" "$1" 127.0.0.9 $port 3600 "$rate" "$seed"
    control=$STARTED
    if [ "$1" = forge ]; then # it records packets of a connection before it begins
        before=$(stat_of A conns_opened)
        victim B "127.0.0.1:$port" 2 >/dev/null &
        early=$!
        for _ in $(seq 100); do
            [ "$(stat_of A conns_opened)" -gt "$before" ] && break
            sleep 0.02
        done
    fi
    start_in A "$WORK/net.log" $ATTACK_CPU "$net" "$1" 127.0.0.1 $port 3600 "$rate" $((seed + 1))
    attack=$STARTED
    [ -z "$early" ] || wait "$early"
    sleep 0.5
    keeps_share "$1" 70 B "$control" "$attack" B "127.0.0.1:$port" || bad=1
    attack_ends "$attack" || { echo "FAILED: more bytes came back than were sent"; bad=1; }
    attack_ends "$control"
    reached "$WORK/net.log"
}

victim B "127.0.0.1:$port" 1 >/dev/null
opened=$(stat_of A conns_opened)
compare forge
grep -q ' 0 replayed' "$WORK/net.log" && [ "$(id -u)" -eq 0 ] &&
    { echo "FAILED: nothing was recorded to be replayed"; bad=1; }
before=$(stat_of A conns_opened)
[ "$before" -gt "$opened" ] || { echo "FAILED: the victim did not connect"; bad=1; }
$ATTACK_CPU "$net" forge 127.0.0.1 $port 1 "$rate" "$seed" >"$WORK/net.log" || bad=1
[ "$(stat_of A conns_opened)" -eq "$before" ] || { echo "FAILED: a connection was opened"; bad=1; }
for counter in drop_crc drop_short drop_unknown_conn cm_unexpected cm_cookies_sent; do
    [ "$(stat_of A $counter)" -gt 0 ] || { echo "FAILED: nothing was counted as $counter"; bad=1; }
done

compare connect
waiting=$(stat_of A cm_waiters)
$ATTACK_CPU "$net" connect 127.0.0.1 $port 3 "$rate" "$seed" >"$WORK/net.log" &
pid=$!
sleep 0.5
started=$(date +%s%N)
victim B "127.0.0.1:$port" 1 >"$WORK/rate"
took=$((($(date +%s%N) - started) / 1000000))
[ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null || { echo "FAILED: no connection during the flood"; bad=1; }
wait $pid || { echo "FAILED: more bytes came back than were sent"; bad=1; }
reached "$WORK/net.log"
echo "a client connected, sent for 1 s and left within $took ms of the flood"
[ $took -le 6000 ] || { echo "FAILED: too slow"; bad=1; }
sleep 0.5
[ "$(stat_of A cm_waiters)" -eq "$waiting" ] || { echo "FAILED: waiters were used up"; bad=1; }
[ "$(stat_of A cm_pending)" -eq 0 ] || { echo "FAILED: requests were remembered"; bad=1; }
[ $bad -eq 0 ] || tail -n 20 "$WORK/A.log"
exit $bad
