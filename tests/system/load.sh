#!/usr/bin/env bash
# A busy machine: 20 busy processes (half of them write to memory all the time), and two vipd with
# 16 connections of mixed traffic, every byte compared. No connection may be lost for SECONDS.
# Meanwhile new programs connect: with VipConnectRequest and a limit of 5 s, as a job of Active
# Messages, and with connected endpoints of libfabric (FI_EP_MSG). All of them must succeed. At the
# end the script prints vipd's longest gaps between two turns. Only ./check --long runs this test,
# because it uses all processors for SECONDS.
# usage: load.sh BUILD_DIR [SECONDS]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
seconds=${2:-600}
. scripts/daemons.sh

BUSY=20
DIRTY_MIB=16 # of each process that dirties memory
VIPD=$build/vipd/vipd
vipperf=$build/tools/vipperf
bad=0
trap daemons_end EXIT
trap 'exit 130' INT TERM

failed() {
    echo "FAILED: $*"
    bad=1
}

stat_of() { # stat_of HOST NAME
    in_host "$1" "$build/tools/vipctl" show stats --json |
        jq "[.counters[] | select(.name == \"$2\") | .value] | add"
}

# ---- two vipd, the traffic -------------------------------------------------------------------------

port_take || exit 1
daemons_begin
daemon_start A 127.0.0.1 $port && daemon_start B 127.0.0.2 $port || exit 1
start_in A "$WORK/serve-a.log" "$vipperf" serve
start_in B "$WORK/serve-b.log" "$vipperf" serve
for host in a b; do
    for _ in $(seq 1200); do
        grep -q ready "$WORK/serve-$host.log" && break
        sleep 0.05
    done
done

# Eight connections from each host to the other host. One of the eight clients does not block.
clients=()
client() { # client FROM TO ARGUMENTS...
    local from=$1 to=$2
    shift 2
    start_in "$from" "$WORK/client.${#clients[@]}.log" "$vipperf" "$@" "$to:$port" --verify --duration "${seconds}s"
    clients+=("$STARTED")
}
for pair in "A 127.0.0.2" "B 127.0.0.1"; do
    # shellcheck disable=SC2086
    set -- $pair
    client "$1" "$2" lat --size 64 --wait block
    client "$1" "$2" lat --size 16K --op write-imm --wait block
    client "$1" "$2" lat --size 1K --op read --wait block
    client "$1" "$2" lat --size 64
    client "$1" "$2" bw --size 64K --wait block
    client "$1" "$2" bw --size 1M --op write --wait block
    client "$1" "$2" bw --size 4K --both-ways --wait block
    client "$1" "$2" bw --random-sizes --size 100000 --cq --wait block
done
connections() { in_host A "$build/tools/vipctl" -rn show vi state=connected 'tx_messages>0' | grep -c .; }
for _ in $(seq 1200); do
    [ "$(connections)" -ge 16 ] && break
    sleep 0.1
done

# ---- the load --------------------------------------------------------------------------------------

for ((i = 0; i < BUSY / 2; i++)); do
    bash -c 'while :; do :; done' &
    track $!
    perl -e '$m = "\0" x ('$DIRTY_MIB' << 20); while (1) { for ($i = 0; $i < length $m; $i += 4096) { substr($m, $i, 1) = chr(rand 256) } }' &
    track $!
done

# ---- new programs ----------------------------------------------------------------------------------

export VIPD_RUNTIME_DIR=$WORK/A VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B
export FI_PROVIDER_PATH=$build/ofi
nic_port=$port
port_take || exit 1 # the two fi_pingpong meet on a TCP port
by_vipl() { timeout 600 "$vipperf" lat "127.0.0.2:$nic_port" --iters 10 --verify --wait block; }
by_am() { timeout 600 "$build/tools/amrun" -n 2 tests/am/host.sh "$build/tests/am/am_traffic" block; }
by_msg() {
    local server rc
    timeout 600 fi_pingpong -e msg -p via -I 100 -c -B "$port" &
    server=$!
    for _ in $(seq 600); do
        ss -ltn "sport = :$port" | grep -q LISTEN && break
        sleep 0.1
    done
    VIPD_RUNTIME_DIR=$WORK/B timeout 600 fi_pingpong -e msg -p via -I 100 -c -P "$port" 127.0.0.1
    rc=$?
    wait $server && [ $rc -eq 0 ]
}
ways=(by_vipl by_am)
if command -v fi_pingpong >/dev/null; then
    ways+=(by_msg)
else
    echo "(left out: FI_EP_MSG; fi_pingpong is not installed)"
fi
came=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ] && [ $bad -eq 0 ]; do
    for way in "${ways[@]}"; do
        if $way >"$WORK/$way.log" 2>&1; then
            came=$((came + 1))
        else
            failed "$way: $(tail -n 10 "$WORK/$way.log")"
        fi
    done
done

# ---- the end: a client that lost its connection has failed ------------------------------------------------

for i in "${!clients[@]}"; do
    if [ $bad -eq 0 ]; then
        wait "${clients[i]}" || failed "client $i: $(tail -n 3 "$WORK/client.$i.log")"
    else
        kill "${clients[i]}" 2>/dev/null
    fi
done
lost=$(($(stat_of A cm_peers_lost) + $(stat_of B cm_peers_lost)))
[ $lost -eq 0 ] || failed "a peer was given up $lost times"
[ $bad -ne 0 ] || echo "load: ${#clients[@]} connections for $seconds s beside $BUSY busy processes, none lost;" \
    "$came programs came and connected"
for host in A B; do
    echo "vipd $host, gaps between two turns: half below $(($(stat_of $host turn_gap_p50) / 1000)) us," \
        "99.9 % below $(($(stat_of $host turn_gap_p999) / 1000)) us, longest $(($(stat_of $host turn_gap_max) / 1000)) us"
done
exit $bad
