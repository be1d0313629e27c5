#!/usr/bin/env bash
# What vipctl and the log say about connections that outlive a vipd: while they wait for the peer's
# next vipd or for the peer's answer, after they are bound anew, and when `outlive` is over.
# usage: rebound.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
VIPD=$build/vipd/vipd
vipctl=$build/tools/vipctl
outlive=$build/tests/system/outlive
bad=0
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM
mkdir "$WORK/json"

wrong() {
    echo "FAILED: $*"
    bad=1
}

ask() { # ask HOST ARGUMENTS...: vipctl of this host
    local host=$1
    shift
    VIPD_RUNTIME_DIR=$WORK/$host "$vipctl" "$@" </dev/null
}

until_true() { # wait until it is true; fails after 60 s or more
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    wrong "in vain: $*; $(ask A show vi) $(ask A show peers) $(tail -n 3 "$WORK/A.log")"
    exit 1
}

some() { [ "$(ask "$1" -rn show "${@:2}" | grep -c .)" -ge 1 ]; }

says() { # says TEXT HOST ARGUMENTS...
    local text=$1
    shift
    ask "$@" >"$WORK/out" 2>&1
    grep -qF -- "$text" "$WORK/out" || wrong "$* does not say \"$text\": $(cat "$WORK/out")"
}

documents() { # documents PART: all views of A, for the schemas
    for view in vi peers nic conn events; do
        ask A -j show $view >"$WORK/json/show-$view@$1.json" || wrong "show $view"
    done
    ask A -j explain vi 0 >"$WORK/json/explain@$1.json" || wrong "explain"
}

start() { daemon_start "$1" "${address[$1]}" "$port" "[reliability]" "outlive = 20s" "keepalive = 200ms" "peer_dead = 60s" || exit 1; }

# When `outlive` is over, vipd's log and `show events` must have TEXT.
line() { # line HOST TEXT
    until_true grep -qF "$2" "$WORK/$1.log" &&
        says "$2" "$1" -o text show events kind=returned
}

port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
start A
start B
start_in B "$WORK/server.log" "$outlive" server
server=$STARTED
until_true grep -q ready "$WORK/server.log"
start_in A "$WORK/client.log" "$outlive" client 127.0.0.2 "$WORK/stop"
client=$STARTED
until_true some A vi state=connected rebound=0 'since_ns>0' 'rx_messages>100'
some A vi left_ns= waits_for= || wrong "a connected VI waits: $(ask A show vi)"

# The peer's vipd is stopped, and has announced that the next vipd will come (AWAY).
daemon_stop B TERM
until_true some A vi state=rebinding waits_for=peer 'left_ns>0' 'left_ns<20000000001' told_ns=20000000000
some A peers state=away connections=1 'left_ns>0' told_ns=20000000000 'since_ns>0' || wrong "$(ask A show peers)"
some A conn state=rebinding || wrong "$(ask A show conn)"
says "it waits for the next vipd of 127.0.0.2:$port, which said " A explain vi 0
says " ago that it is back within 20.0 s" A explain vi 0
says "its connections wait for the next one" A explain peer 127.0.0.2
some A stats scope=nic:vip0 name=cm_peers_lost value=0 || wrong "a peer that is away counts as lost"
documents told

# Meanwhile this host's vipd is killed, too. Its next vipd asks the peer.
daemon_stop A KILL
start A
until_true some A vi state=rebinding waits_for=answer 'left_ns>0' told_ns= rebound=0
says "vipd here has begun anew, and asks 127.0.0.2:$port to go on with it" A explain vi 0
documents answer

start B
for host in A B; do
    until_true some $host vi state=connected rebound=1 'since_ns>0' left_ns= 'rx_messages>100'
    some $host peers state=up rebound=1 left_ns= || wrong "$(ask $host show peers)"
    some $host nic rebound=1 'since_ns>0' || wrong "$(ask $host show nic)"
done
says "bound anew 1 time by this vipd, last " A explain vi 0
says "1 of the connections were bound anew" A explain peer 127.0.0.2
documents bound
line A "1 connections of an earlier vipd came back, 0 did not"
line B "1 connections of an earlier vipd came back, 0 did not"

# The peer's vipd is killed. The peer's program is stopped (SIGSTOP), so it makes no claim at the
# next vipd yet. By a PONG vipd A learns that the peer has a new vipd.
kill -STOP "$server"
daemon_stop B KILL
start B
until_true some A vi state=rebinding waits_for=peer told_ns= 'left_ns>0' rebound=1
some A peers state=away told_ns= || wrong "$(ask A show peers)"
says "ago the former one was found to be gone" A explain vi 0
documents found
kill -CONT "$server"
until_true some A vi state=connected rebound=2 left_ns=

# Both vipd are killed, with two connections. The peer's program of one connection ends meanwhile.
# The peer's next vipd cannot read the ticket of the other one, because the key was deleted.
start_in A "$WORK/server2.log" "$outlive" server
until_true grep -q ready "$WORK/server2.log"
start_in B "$WORK/client2.log" "$outlive" client 127.0.0.1 "$WORK/stop"
until_true some B vi state=connected rebound=0 'rx_messages>100'
kill -STOP "$client" # it must not meet a vipd before both are new
daemon_stop B KILL
daemon_stop A KILL
kill -KILL "$server"
wait "$server" 2>/dev/null
rm "$WORK/B/ticket.key"
start B
start A
kill -CONT "$client"
line A "0 connections of an earlier vipd came back, 2 did not: "
line B "0 connections of an earlier vipd came back, 1 did not: 1 because the program has no ticket of it that this vipd can read"
grep -q "2 did not: .* because the other end " "$WORK/A.log" || wrong "$(tail -n 3 "$WORK/A.log")"

mkdir "$WORK/schema"
cp schema/show-{vi,peers,nic,conn,events}.json schema/explain.json "$WORK/schema"
python3 tests/tools/schema.py "$WORK/schema" "$WORK/json" || wrong "documents and schemas"
[ $bad -eq 0 ] && echo "rebound: views, explanations, events and lines of connections that outlive a vipd"
exit $bad
