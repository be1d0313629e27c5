#!/usr/bin/env bash
# vipd is killed, stopped or taken over from again and again under a program, at either end of its connection, and
# started anew. No message may be lost, come twice or out of order, and the program must see no error.
# At the end it says for how long no message came back around each end of a vipd; that judges nothing.
# usage: outlive.sh BUILD_DIR [TIMES]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-3}
. scripts/daemons.sh
. tests/lib/failed.sh
. tests/lib/outlive.sh
VIPD=$build/vipd/vipd
outlive=$build/tests/system/outlive
vipctl=$build/tools/vipctl
trap daemons_end EXIT
trap 'exit 130' INT TERM

# Value of a counter of vipd A's NIC.
stat_of() { in_host A "$vipctl" show stats | awk -v name="$1" '$2 == name { print $3 }'; }

# one NAME WAY SERVER'S WORDS CLIENT'S WORDS: some ends of each vipd in this way under one connection
one() {
    local name=$1 way=$2
    outlive_begin "$3" "$4" || failed "$name: $WRONG"
    for i in $(seq "$times"); do
        for host in $hosts; do
            outlive_again "$host" "$way" $pause || failed "$name, $i: $WRONG"
            echo "$GAP" >>"$WORK/gaps.$way"
        done
    done
    if [ "$server_host" = A ] && [ "$direct" != 0 ] && [ "$(stat_of rings_again)" != 1 ]; then
        failed "$name: vipd did not go on with the ring"
    fi
    outlive_finish || failed "$name: $WRONG"
    echo "$name: $(tail -n 1 "$WORK/client.log")"
}

daemons_begin
port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
settings=("[reliability]" "outlive = 20s")
hosts="A B" pause=0 server_host=B direct=1
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
one "queues" SIGKILL "" ""
one "queues, Reliable Reception, memory of malloc" SIGKILL "" "rr heap"
one "completion queues" SIGKILL "cq" "cq"
one "RDMA Writes" SIGKILL "write" "write rr"
one "RDMA Reads, completion queues" SIGKILL "cq" "read cq"
one "queues, stopped" SIGTERM "" "rr"
one "RDMA Writes and Reads, completion queues, stopped" SIGTERM "cq write" "cq write read"
one "queues, taken over" takeover "" "rr"
one "RDMA Writes and Reads, completion queues, taken over" takeover "cq write" "cq write read"
# Both programs on one host, with a ring between them and without one.
hosts=A server_host=A
for how in SIGKILL SIGTERM takeover; do
    direct=0
    one "one host, no ring, $how" $how "" ""
    direct=1
    one "one host, a ring, $how" $how "" ""
    one "one host, a ring, completion queues, $how" $how "cq" "cq"
    one "one host, a ring, small messages, $how" $how "small" "small cq"
    # Long enough that both programs sleep, on queues or on the CQ.
    pause=0.5
    one "one host, a ring, programs that sleep, $how" $how "small" "small cq"
    pause=0 direct=random
    one "one host, a ring and vipd in turn, $how" $how "" "cq"
    one "one host, a ring, RDMA Writes and Reads, $how" $how "cq write" "write read"
done
hosts="A B" server_host=B direct=1
# For longer than peer_dead: the peer knows that the next vipd will come.
settings=("[reliability]" "outlive = 60s" "peer_dead = 3s" "conn_timeout = 3s")
for host in A B; do
    daemon_stop $host
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
kept=$(cat "$WORK/gaps.SIGTERM")
pause=7 times=1 hosts=B
one "stopped for longer than peer_dead" SIGTERM "" ""
echo "$kept" >"$WORK/gaps.SIGTERM"
for way in SIGKILL SIGTERM takeover; do
    sort -n "$WORK/gaps.$way" | awk -v way=$way '{ ms[NR] = $1 }
        END { printf "%s: no message for %.0f ms (median of %d), %.0f ms at most\n", way, ms[int((NR + 1) / 2)], NR, ms[NR] }'
done
echo "outlive: all messages arrived, once and in order"
