#!/usr/bin/env bash
# vipd is killed again and again under a program, at either end of its connection. No message may be lost, come twice
# or out of order, and the program must see no error.
# usage: outlive.sh BUILD_DIR [TIMES]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-3}
. scripts/daemons.sh
VIPD=$build/vipd/vipd
outlive=$build/tests/system/outlive
trap daemons_end EXIT
trap 'exit 130' INT TERM

failed() {
    echo "FAILED: $*"
    tail -n 40 "$WORK"/*.log
    exit 1
}

# The client has got that many messages back.
reached() {
    local at
    at=$(sed -n 's/^at //p' "$WORK/client.log" | tail -n 1)
    [ "${at:-0}" -ge "$1" ]
}

await() {
    local at=$1
    for _ in $(seq 1200); do
        reached "$at" && return 0
        kill -0 "$client" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# one NAME SERVER'S WORDS CLIENT'S WORDS: some kills of each vipd under one connection
one() {
    local name=$1 at=0
    rm -f "$WORK/stop"
    # shellcheck disable=SC2086
    start_in B "$WORK/server.log" "$outlive" server $2
    server=$STARTED
    for _ in $(seq 600); do
        grep -q ready "$WORK/server.log" && break
        sleep 0.05
    done
    # shellcheck disable=SC2086
    start_in A "$WORK/client.log" "$outlive" client 127.0.0.2 "$WORK/stop" $3
    client=$STARTED
    await 100 || failed "$name: no messages"
    for i in $(seq "$times"); do
        for host in A B; do
            daemon_stop $host KILL
            daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
            at=$(sed -n 's/^at //p' "$WORK/client.log" | tail -n 1)
            await $((at + 500)) || failed "$name: no messages after kill $i of vipd $host"
        done
    done
    touch "$WORK/stop"
    wait "$client" || failed "$name: the client"
    wait "$server" || failed "$name: the server"
    ! grep -h FAILED "$WORK/client.log" "$WORK/server.log" || failed "$name: an error"
    echo "$name: $(tail -n 1 "$WORK/client.log")"
}

daemons_begin
port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
settings=("[reliability]" "outlive = 20s")
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
one "queues" "" ""
one "queues, Reliable Reception, memory of malloc" "" "rr heap"
one "completion queues" "cq" "cq"
one "RDMA Writes" "write" "write rr"
one "RDMA Reads, completion queues" "cq" "read cq"
echo "outlive: all messages arrived, once and in order"
