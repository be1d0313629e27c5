#!/usr/bin/env bash
# vipd is killed or stopped again and again under a program, at either end of its connection, and started anew. No
# message may be lost, come twice or out of order, and the program must see no error.
# At the end it says for how long no message came back around each end of a vipd; that judges nothing.
# usage: outlive.sh BUILD_DIR [TIMES]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-3}
. scripts/daemons.sh
. tests/lib/outlive.sh
VIPD=$build/vipd/vipd
outlive=$build/tests/system/outlive
trap daemons_end EXIT
trap 'exit 130' INT TERM

failed() {
    echo "FAILED: $*"
    tail -n 40 "$WORK"/*.log
    exit 1
}

# one NAME SIGNAL SERVER'S WORDS CLIENT'S WORDS: some ends of each vipd by the signal under one connection
one() {
    local name=$1 signal=$2
    outlive_begin "$3" "$4" || failed "$name: $WRONG"
    for i in $(seq "$times"); do
        for host in $hosts; do
            outlive_again "$host" "$signal" $pause || failed "$name, $i: $WRONG"
            echo "$GAP" >>"$WORK/gaps.$signal"
        done
    done
    outlive_finish || failed "$name: $WRONG"
    echo "$name: $(tail -n 1 "$WORK/client.log")"
}

daemons_begin
port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
settings=("[reliability]" "outlive = 20s")
hosts="A B" pause=0
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
one "queues" KILL "" ""
one "queues, Reliable Reception, memory of malloc" KILL "" "rr heap"
one "completion queues" KILL "cq" "cq"
one "RDMA Writes" KILL "write" "write rr"
one "RDMA Reads, completion queues" KILL "cq" "read cq"
one "queues, stopped" TERM "" "rr"
one "RDMA Writes and Reads, completion queues, stopped" TERM "cq write" "cq write read"
# For longer than peer_dead: the peer knows that the next vipd will come.
settings=("[reliability]" "outlive = 60s" "peer_dead = 3s" "conn_timeout = 3s")
for host in A B; do
    daemon_stop $host TERM
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
kept=$(cat "$WORK/gaps.TERM")
pause=7 times=1 hosts=B
one "stopped for longer than peer_dead" TERM "" ""
echo "$kept" >"$WORK/gaps.TERM"
for signal in KILL TERM; do
    sort -n "$WORK/gaps.$signal" | awk -v signal=$signal '{ ms[NR] = $1 }
        END { printf "SIG%s: no message for %.0f ms (median of %d), %.0f ms at most\n", signal, ms[int((NR + 1) / 2)], NR, ms[NR] }'
done
echo "outlive: all messages arrived, once and in order"
