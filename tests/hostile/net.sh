#!/usr/bin/env bash
# A hostile network (net.c) against a vipd with a working connection: nothing of it is accepted, what
# arrives is counted by reason, the connection's data is intact and it keeps at least 70 % of its rate, also
# while its own packets come again. Then requests from thousands of addresses for the name that a server waits
# on: answered by cookies, never by more bytes, the server's wait is not used up and nothing is remembered,
# at any look while the flood goes on; and a real client, which the same look sees, connects meanwhile.
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
server=$STARTED
STOPPED+=("$server")
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
    lenient "the machine is busy: ${got:-0} of $rate packets a second were sent"
    [ "${got:-0}" -ge $((rate / 50)) ] || { echo "FAILED: that is too few"; bad=1; }
}

compare() { # compare KIND DISCRIMINATOR|VICTIM
    local control attack
    start_in A "$WORK/aside.log" $ATTACK_CPU "$net" "$1" 127.0.0.9 $port 3600 "$rate" "$seed" "$2"
    control=$STARTED
    start_in A "$WORK/net.log" $ATTACK_CPU "$net" "$1" 127.0.0.1 $port 3600 "$rate" $((seed + 1)) "$2"
    attack=$STARTED
    sleep 0.5
    keeps_share "$1" 70 B "$control" "$attack" B "127.0.0.1:$port" || bad=1
    attack_ends "$attack" || { echo "FAILED: more bytes came back than were sent"; bad=1; }
    attack_ends "$control"
    reached "$WORK/net.log"
}

# Packets that a connection had already, or whose number or acknowledgement cannot be.
again() { echo $(($(stat_of A rx_duplicate) + $(stat_of A rx_stale))); }

victim B "127.0.0.1:$port" 1 >/dev/null
opened=$(stat_of A conns_opened)
quiet=$(again)
compare forge 127.0.0.1
before=$(stat_of A conns_opened)
[ "$before" -gt "$opened" ] || { echo "FAILED: the victim did not connect"; bad=1; }
counters="drop_crc drop_short drop_unknown_conn cm_unexpected cm_cookies_sent"
if [ "$(id -u)" -eq 0 ]; then # it listened on the wire
    # The wire doubles nothing by itself: what comes again is a replay that reached the living connection.
    replays=$(($(again) - quiet))
    echo "$replays replayed packets reached the victim's connection and were known ($quiet before the attack)"
    [ $replays -ge 50 ] && [ $replays -ge $((10 * quiet)) ] ||
        { echo "FAILED: too few replays reached a connection that lives"; bad=1; }
    counters="$counters drop_source drop_src_epoch drop_dst_epoch" # with a good checksum
else
    lenient "without root nobody listens on the wire: nothing was replayed"
fi
$ATTACK_CPU "$net" forge 127.0.0.1 $port 1 "$rate" "$seed" 127.0.0.1 >"$WORK/net.log" || bad=1
[ "$(stat_of A conns_opened)" -eq "$before" ] || { echo "FAILED: a connection was opened"; bad=1; }
for counter in $counters; do
    [ "$(stat_of A "$counter")" -gt 0 ] || { echo "FAILED: nothing was counted as $counter"; bad=1; }
done

compare connect vipperf

# ---- a flood for the name that vipperf serve waits on -------------------------------------------------------
gauges() { # waits, and requests that are remembered, of one moment
    in_host A "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -oE '"name":"cm_(waiters|pending)","value":[0-9]+' |
        awk -F'[_":]+' '{sum[$4] += $NF} END {print sum["waiters"] + 0, sum["pending"] + 0}'
}
looks_until() { # looks_until WHAT N: at most N looks, until one sees WHAT
    for _ in $(seq "$2"); do
        [ "$(gauges)" = "$1" ] && return
        sleep 0.02
    done
    return 1
}
looks_until "1 0" 250 || { echo "FAILED: the server does not wait: $(gauges)"; bad=1; }
asked=$(stat_of A cm_requests_received)
start_in A "$WORK/net.log" $ATTACK_CPU "$net" connect 127.0.0.1 $port 3600 "$rate" "$seed" vipperf
flood=$STARTED
sleep 0.3
for _ in $(seq 20); do
    now=$(gauges)
    [ "$now" = "1 0" ] || { echo "FAILED: waits and requests in the flood: $now instead of 1 0"; bad=1; }
done
started=$(date +%s%N)
victim B "127.0.0.1:$port" 1 >"$WORK/rate"
took=$((($(date +%s%N) - started) / 1000000))
[ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null || { echo "FAILED: no connection during the flood"; bad=1; }
# The same look sees an honest request, while the server does not get to answer it.
looks_until "1 0" 250 || { echo "FAILED: after a client in the flood: $(gauges)"; bad=1; }
kill -STOP "$server"
victim B "127.0.0.1:$port" 1 >"$WORK/rate" &
client=$!
looks_until "0 1" 250 || { echo "FAILED: an honest request is not seen: $(gauges)"; bad=1; }
kill -CONT "$server"
wait $client
[ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null || { echo "FAILED: the client that was seen did not connect"; bad=1; }
looks_until "1 0" 250 || { echo "FAILED: after the flood's clients: $(gauges)"; bad=1; }
attack_ends "$flood" || { echo "FAILED: more bytes came back than were sent"; bad=1; }
asked=$(($(stat_of A cm_requests_received) - asked))
reached "$WORK/net.log"
echo "$asked requests arrived; a client connected, sent for 1 s and left within $took ms of the flood"
[ $asked -ge 1000 ] || { echo "FAILED: that is no flood"; bad=1; }
[ $took -le 6000 ] || { echo "FAILED: too slow"; bad=1; }
[ $bad -eq 0 ] || tail -n 20 "$WORK/A.log"
exit $bad
