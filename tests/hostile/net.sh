#!/usr/bin/env bash
# A hostile network (net.c) against a vipd with a working connection. First: vipd must accept no
# hostile packet and must count the packets by reason. The connection's data must stay intact, even
# while its own packets are replayed. Second: a stranger's packet may cost vipd at most four times
# the processor time that a simple program needs to receive and drop the packet (for requests: to
# answer it). Third: a flood of requests from thousands of addresses for the discriminator of a
# server. vipd must answer with cookies, and not with more bytes than it gets. The server must still
# wait, and vipd must keep no request of the flood. A real client must be able to connect.
#
# Other load of the machine does not change the measured cost. The script stops vipd and the simple
# program while net fills their sockets, then measures their processor time until the sockets are
# empty. In the other parts the rate of packets is a rate per second of vipd's processor time (for
# requests a fifth of it).
# usage: net.sh BUILD_DIR [ROUNDS [PER_SECOND [SEED]]]     long form: net.sh build/dev 1000
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-9}
rate=${3:-100000}
COST_MAX=4 # times some 0.8 us for a packet: so 100,000 packets a second take less than a third of a processor
PACKETS=2000 # in a round; packets that find no room in the socket's buffer are not counted
. scripts/daemons.sh
seed=${4:-$(own_seed net)}
. tests/hostile/lib.sh
trap hostile_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
take_processors
port_take || exit 1
net=$build/tests/hostile/net
daemon_start A 127.0.0.1 $port || exit 1
daemon_start B 127.0.0.2 $port || exit 1
start_in A "$WORK/serve.log" "$build/tools/vipperf" serve
server=$STARTED
STOPPED+=("$server" "${DAEMON_PID[A]}")
echo "seed $seed"
bad=0

# Number of packets that came before, or whose packet number or acknowledgement is impossible.
again() { echo $(($(stat_of A rx_duplicate) + $(stat_of A rx_stale))); }

transfer() { # transfer WHAT: one second of data from B to the server, with all bytes compared
    victim B "127.0.0.1:$port" 1 >"$WORK/rate"
    [ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null && return
    echo "FAILED: the victim $1:"
    tail -n 20 "$WORK/victim.log" "$WORK/A.log"
    bad=1
    return 1
}

# ---- hostile packets ------------------------------------------------------------------------------------
for _ in $(seq 600); do # until the server waits
    [ "$(stat_of A cm_waiters)" -gt 0 ] && break
    sleep 0.1
done
opened=$(stat_of A conns_opened)
transfer "before the attack"
each=$(($(stat_of A conns_opened) - opened)) # connections of one transfer
opened=$((opened + each))
quiet=$(again)
counters="drop_crc drop_short drop_unknown_conn cm_unexpected cm_cookies_sent"
replays_wanted=0
if [ "$(id -u)" -eq 0 ]; then # net.c listens on the wire
    # The wire duplicates no packet. So each duplicate is a replay that reached the connection.
    replays_wanted=$((50 + 10 * quiet))
    counters="$counters drop_source drop_src_epoch drop_dst_epoch" # these packets have a good checksum
else
    echo "(not root: cannot listen on the wire, so nothing is replayed)"
fi
start_in A "$WORK/net.log" $ATTACK_CPU "$net" forge 127.0.0.1 $port 3600 "$rate" "$seed" 127.0.0.1 "${DAEMON_PID[A]}"
attack=$STARTED
# Repeat the transfer until vipd has counted packets of each kind, and many replays (with a limit).
missing() {
    local counter
    [ $(($(again) - quiet)) -ge $replays_wanted ] || echo "replays($(($(again) - quiet)))"
    for counter in $counters; do
        [ "$(stat_of A "$counter")" -gt 0 ] || echo "$counter"
    done
}
transfers=0
while [ $transfers -lt 60 ] && { [ $transfers -lt 3 ] || [ -n "$(missing)" ]; }; do
    transfer "beside the attack" || break
    transfers=$((transfers + 1))
done
[ -z "$(missing)" ] || { echo "FAILED: of these too few came:" $(missing); bad=1; }
echo "$transfers transfers beside the attack; $(($(again) - quiet)) replayed packets reached a connection and were known"
attack_ends "$attack" || { echo "FAILED: more bytes came back than were sent"; bad=1; }
cat "$WORK/net.log"
before=$(stat_of A conns_opened)
[ "$before" -eq $((opened + transfers * each)) ] ||
    { echo "FAILED: $((before - opened)) connections were opened, not the victim's $((transfers * each))"; bad=1; }

# ---- cost -----------------------------------------------------------------------------------------------
spent() { awk '{sum += $1} END {printf "%.0f\n", sum}' /proc/"$1"/task/*/schedstat; } # nanoseconds of processor time of a process
socket_of() { # socket_of ADDRESS: bytes that wait in the socket at ADDRESS, and packets that found no room
    awk -v at="$(printf '%02X%02X%02X%02X:%04X' $(echo "$1" | awk -F. '{print $4, $3, $2, $1}') $port)" \
        '$2 == at {split($5, queue, ":"); print queue[2], $13}' /proc/net/udp
}
# Stops PID, puts PACKETS into its socket at ADDRESS, and continues PID. Prints the nanoseconds that
# PID then spends until the socket is empty, and the number of packets that were in the socket.
spends() { # spends PID ADDRESS PACKETS KIND ARGUMENT SEED
    local pid=$1 address=$2 packets=$3 began lost before
    kill -STOP "$pid"
    read -r _ before < <(socket_of "$address")
    $ATTACK_CPU "$net" "$4" "$address" $port "$packets" 0 "$6" "$5" 0 >>"$WORK/cost.log"
    read -r _ lost < <(socket_of "$address")
    began=$(spent "$pid")
    kill -CONT "$pid"
    for _ in $(seq 6000); do
        case $(socket_of "$address") in 00000000*) break ;; esac
        sleep 0.01
    done
    sleep 0.01 # until the program has handled the last batch and sleeps
    echo $(($(spent "$pid") - began)) $((packets - lost + before))
}
# A round measures vipd and the simple program, each with many packets and with one packet. The
# difference is the cost of the packets. The median of the rounds' ratios must be at most COST_MAX.
costs() { # costs KIND ARGUMENT sink|answer
    local i n round
    start_in A "$WORK/aside.log" "$net" "$3" 127.0.0.9 $port
    local aside=$STARTED
    STOPPED+=("$aside")
    for _ in $(seq 600); do
        [ -n "$(socket_of 127.0.0.9)" ] && break
        sleep 0.1
    done
    for i in $(seq "$rounds"); do
        round=""
        for n in $PACKETS 1; do
            round+=" $(spends "${DAEMON_PID[A]}" 127.0.0.1 $n "$1" "$2" $((seed + i)))"
            round+=" $(spends "$aside" 127.0.0.9 $n "$1" "$2" $((seed + i)))"
        done
        echo "$round"
    done | awk '$2 > 1 && $4 > 1 && $3 > $7 {
            ours = ($1 - $5) / ($2 - 1); others = ($3 - $7) / ($4 - 1)
            print ours, others, ours / others
        }' >"$WORK/rounds"
    kill -TERM "$aside"
    wait "$aside"
    local ratio
    ratio=$(awk '{print $3}' "$WORK/rounds" | median)
    printf '%s: a packet costs vipd %.0f ns, the other program %.0f ns, %.2f times as much (medians of %s rounds)\n' \
        "$1" "$(awk '{print $1}' "$WORK/rounds" | median)" "$(awk '{print $2}' "$WORK/rounds" | median)" \
        "$ratio" "$(wc -l <"$WORK/rounds")"
    if grep -q '^VIP_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
        return # only vipd pays for the sanitizer
    fi
    awk -v ratio="$ratio" -v max=$COST_MAX 'BEGIN {exit !(ratio > 0 && ratio <= max)}' ||
        { echo "FAILED: more than $COST_MAX times"; bad=1; }
}
costs forge 127.0.0.1 sink
costs connect target answer

# ---- a flood for the name that vipperf serve waits on -------------------------------------------------------
gauges() { # waits, and remembered requests, at one moment
    in_host A "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -oE '"name":"cm_(waiters|pending)","value":[0-9]+' |
        awk -F'[_":]+' '{sum[$4] += $NF} END {print sum["waiters"] + 0, sum["pending"] + 0}'
}
looks_until() { # looks_until WHAT: look until a look sees WHAT; the limit only stops a test that hangs
    for _ in $(seq 1200); do
        [ "$(gauges)" = "$1" ] && return
        sleep 0.05
    done
    return 1
}
looks_until "1 0" || { echo "FAILED: the server does not wait: $(gauges)"; bad=1; }
taken() { echo $(($(stat_of A cm_accepts) + $(stat_of A cm_rejects))); }
took=$(taken)
asked=$(stat_of A cm_requests_received)
start_in A "$WORK/net.log" $ATTACK_CPU "$net" connect 127.0.0.1 $port 3600 $((rate / 5)) "$seed" vipperf "${DAEMON_PID[A]}"
flood=$STARTED
arrived() { echo $(($(stat_of A cm_requests_received) - asked)); }
looks=0
while [ $looks -lt 20 ] || { [ $looks -lt 2000 ] && [ "$(arrived)" -lt 1000 ]; }; do
    now=$(gauges)
    # Between two waits of the server the gauges show no wait.
    [ "$now" = "1 0" ] || { [ "$now" = "0 0" ] && looks_until "1 0"; } ||
        { echo "FAILED: waits and requests in the flood: $now instead of 1 0"; bad=1; }
    looks=$((looks + 1))
done
[ "$(taken)" = "$took" ] || { echo "FAILED: the server got $(($(taken) - took)) requests of the flood"; bad=1; }
transfer "in the flood"
# A check of the test itself: the gauges must show a real request to a server that is stopped.
looks_until "1 0" || { echo "FAILED: after a client in the flood: $(gauges)"; bad=1; }
kill -STOP "$server"
victim B "127.0.0.1:$port" 1 >"$WORK/rate" &
client=$!
looks_until "0 1" || { echo "FAILED: an honest request is not seen: $(gauges)"; bad=1; }
kill -CONT "$server"
wait $client
[ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null || { echo "FAILED: the client that was seen did not connect"; bad=1; }
looks_until "1 0" || { echo "FAILED: after the flood's clients: $(gauges)"; bad=1; }
attack_ends "$flood" || { echo "FAILED: more bytes came back than were sent"; bad=1; }
cat "$WORK/net.log"
echo "$(arrived) requests arrived at $looks looks and more"
[ "$(arrived)" -ge 1000 ] || { echo "FAILED: that is no flood"; bad=1; }
[ $bad -eq 0 ] || tail -n 20 "$WORK/A.log"
exit $bad
