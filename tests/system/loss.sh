#!/usr/bin/env bash
# Bulk data and many messages over networks that lose, double and reorder packets, every byte
# compared. If root runs the script, the hosts are two namespaces joined by veth, otherwise two
# loopback addresses. Both vipd plant the faults (`faults =`). LINK is udp, udp6, ether (MTU 1500),
# jumbo (raw Ethernet, MTU 9000), xdp or lo (both ends at one vipd). With `bulk` the script only
# transfers VOLUME twice with 1 % loss: by sends and polling, and by RDMA Writes and blocking.
# usage: loss.sh BUILD_DIR [VOLUME [MESSAGES [LINK [bulk]]]]    (1G and 100000 are the long form)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
volume=${2:-32M}
messages=${3:-5000}
link=${4:-udp}
bulk=${5-}
. scripts/daemons.sh
. tests/lib/namespaces.sh

VIPD=$build/vipd/vipd
vipperf=$build/tools/vipperf
port_take || exit 1
bad=0
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM

namespaces_begin
case $? in
0)
    NETNS_A=$NS_A
    NETNS_B=$NS_B
    host_a=10.77.0.1
    host_b=10.77.0.2
    where="two namespaces"
    ;;
77)
    host_a=127.0.0.1
    host_b=127.0.0.2
    where="two loopback addresses"
    ;;
*) exit 1 ;;
esac

cable() { # cable NAMESPACE DEVICE MAC MTU
    in_namespace "$1" ip link set "$2" down address "$3" mtu "$4"
    in_namespace "$1" ip link set "$2" up
}

ether() { # ether MTU
    [ -n "${NETNS_A-}" ] || exit 77
    cable "$NS_A" va$$ 02:00:00:00:0a:01 "$1"
    cable "$NS_B" vb$$ 02:00:00:00:0b:01 "$1"
    host_b=02:00:00:00:0b:01
    nic_a="link = ether
interface = va$$"
    nic_b="link = ether
interface = vb$$"
    where="raw Ethernet, MTU $1"
}

nic_a=""
nic_b=""
case $link in
udp) ;;
udp6)
    [ -n "${NETNS_A-}" ] || exit 77
    in_namespace "$NS_A" ip addr add fd77::1/64 dev va$$ nodad || { echo "skipped: no IPv6 address can be given here"; exit 77; }
    in_namespace "$NS_B" ip addr add fd77::2/64 dev vb$$ nodad
    host_a=fd77::1
    host_b=fd77::2
    where="IPv6"
    ;;
ether) ether 1500 ;;
jumbo) ether 9000 ;;
xdp)
    ether 1500
    nic_a=${nic_a/= ether/= xdp}
    nic_b=${nic_b/= ether/= xdp}
    where="XDP"
    ;;
lo)
    NETNS_B=${NETNS_A-}
    host_b=localhost
    nic_a="link = loop"
    where="link = loop"
    ;;
*)
    echo "loss.sh: no such link: $link" >&2
    exit 2
    ;;
esac

start() { # start LINES...: the daemons, and a server on the second host
    local server=B
    DAEMON_NIC=$nic_a daemon_start A $host_a $port "$@" || exit 1
    if [ $link = lo ]; then
        server=A
    else
        DAEMON_NIC=$nic_b daemon_start B $host_b $port "$@" || exit 1
    fi
    : >"$WORK/serve.log"
    VIPD_RUNTIME_DIR=$WORK/$server $(host_prefix $server) "$vipperf" serve >"$WORK/serve.log" 2>&1 &
    track $!
    for _ in $(seq 1200); do
        grep -q ready "$WORK/serve.log" && return
        sleep 0.05
    done
    cat "$WORK/serve.log"
    exit 1
}

run() { # run WHAT ARGUMENTS...
    local what=$1 started=$SECONDS
    shift
    if timeout 900 env VIPD_RUNTIME_DIR="$WORK/A" $(host_prefix A) "$vipperf" "$@" --verify \
        --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &&
        grep -q '"verified": true' "$WORK/result.json"; then
        echo "$what: verified, $((SECONDS - started)) s: $(tail -n 1 "$WORK/run.log")"
    else
        echo "FAILED $what:"
        tail -n 20 "$WORK"/*.log
        bad=1
    fi
}

# Check that faults have happened: on host A, which sends most, each COUNTER must be more than 0.
damaged() { # damaged COUNTER...
    local counter value
    for counter in "$@"; do
        value=$(in_host A "$build/tools/vipctl" show stats --json |
            jq "[.counters[] | select(.name == \"$counter\") | .value] | add")
        echo "    $counter: $value"
        if ! [ "$value" -gt 0 ]; then
            echo "FAILED: the link has counted nothing as $counter"
            bad=1
        fi
    done
}

begin() { # begin FAULTS
    rm -rf "$WORK"
    daemons_begin
    start "faults = $1,seed=42"
}

transfer() { # transfer FAULTS VOLUME OP WAIT
    run "$where, $1, $2 by $3, $4" bw $host_b --op "$3" --wait "$4" --size 1048576 --bytes "$2"
}

# network FAULTS VOLUME MESSAGES "OPS" "WAITS" [COUNTER...]: bulk data and messages over one network
network() {
    local faults=$1 amount=$2 count=$3 ops=$4 waits=$5 op wait
    shift 5
    begin $faults
    for op in $ops; do
        for wait in $waits; do
            transfer $faults $amount $op $wait
        done
    done
    run "$where, $faults, $count messages of random sizes" bw $host_b --op send \
        --size 1048576 --random-sizes --iters "$count"
    damaged "$@"
    daemons_end
}

if [ "$bulk" = bulk ]; then
    begin loss=1%
    if grep -q 'without xdp (this vipd was built without libbpf)' "$WORK/A.log"; then
        echo "skipped: this vipd was built without libbpf"
        exit 77
    fi
    transfer loss=1% "$volume" send poll
    transfer loss=1% "$volume" write block
    damaged fault_lost retransmits $([ $link != xdp ] || echo xdp_rx)
    daemons_end
    [ $bad -eq 0 ] && echo "loss: everything arrived, in order and intact"
    exit $bad
fi

network loss=0% "$volume" "$messages" "send write" "poll block"
network loss=1% "$volume" "$messages" "send write" "poll block" fault_lost retransmits
network loss=5% "$volume" $((messages / 5)) "send write" "block" fault_lost retransmits
network dup=10%,reorder=5% "$volume" $((messages / 5)) "send write" "block" \
    fault_duplicated fault_reordered
# With 10 % loss traffic is much slower, so transfer less.
network loss=10% 16M $((messages / 20)) "send write" "poll block" fault_lost retransmits

[ $bad -eq 0 ] && echo "loss: everything arrived, in order and intact"
exit $bad
