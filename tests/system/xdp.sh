#!/usr/bin/env bash
# link = xdp over veth between two namespaces. Verified transfers must pass through XDP, with a peer
# that has link = xdp or link = ether, in a VLAN, and on a card with several receive queues. XDP
# must not touch TCP. If frames are too large or a privilege is missing, vipd must use ether.
# usage: xdp.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
. tests/lib/namespaces.sh
. tests/lib/bad_frames.sh
. tests/lib/capabilities.sh

vipperf=$build/tools/vipperf
vipctl=$build/tools/vipctl
frames=$build/tests/system/frames
if_a=va$$
if_b=vb$$
mac_b=02:00:00:00:0b:01
bad=0
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM

namespaces_begin
case $? in
0) ;;
77) exit 77 ;;
*) exit 1 ;;
esac
NETNS_A=$NS_A
NETNS_B=$NS_B

failed() {
    echo "FAILED $*"
    for log in "$WORK"/*.log; do
        echo "--- $log"
        tail -n 15 "$log"
    done
    bad=1
}

cables() { # cables MTU
    in_namespace "$NS_A" ip link set "$if_a" down address 02:00:00:00:0a:01 mtu "$1"
    in_namespace "$NS_B" ip link set "$if_b" down address $mac_b mtu "$1"
    in_namespace "$NS_A" ip link set "$if_a" up
    in_namespace "$NS_B" ip link set "$if_b" up
}

up_as() { # up_as HOST LINK: wait until it is true; fails after 60 s or more
    for _ in $(seq 1200); do
        in_host "$1" "$vipctl" show nic >"$WORK/show.txt"
        grep -q "^vip0 *up *$2" "$WORK/show.txt" && return 0
        sleep 0.05
    done
    failed "the NIC of $1 is not up as $2: $(cat "$WORK/show.txt")"
    return 1
}

state_is() { # state_is HOST STATE: wait until it is true; fails after 60 s or more
    for _ in $(seq 1200); do
        in_host "$1" "$vipctl" show nic >"$WORK/show.txt"
        grep -q "^vip0 *$2 *[a-z]" "$WORK/show.txt" && return
        sleep 0.05
    done
    failed "the NIC of $1 is not '$2': $(cat "$WORK/show.txt")"
}

start() { # start LINK_B [LINES...]: vipd A with xdp, B with this link
    local link=$1
    shift
    daemons_begin "$build/vipd"
    VIPD=$build/vipd/vipd
    DAEMON_NIC="link = xdp
interface = $if_a" daemon_start A - - "$@" || exit 1
    DAEMON_NIC="link = $link
interface = $if_b" daemon_start B - - "$@" || exit 1
}

serve() {
    : >"$WORK/serve.log"
    VIPD_RUNTIME_DIR=$WORK/B $(host_prefix B) "$vipperf" serve >"$WORK/serve.log" 2>&1 &
    track $!
    for _ in $(seq 1200); do
        grep -q ready "$WORK/serve.log" && return
        sleep 0.05
    done
    failed "no server"
}

run() { # run WHAT ARGUMENTS...
    local what=$1
    shift
    if timeout 600 env VIPD_RUNTIME_DIR="$WORK/A" $(host_prefix A) "$vipperf" "$@" --verify \
        --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &&
        grep -q '"verified": true' "$WORK/result.json"; then
        echo "$what: verified"
    else
        failed "$what"
    fi
}

counter() { in_host "$1" "$vipctl" show stats | awk -v name="$2" '$2 == name {print $3; exit}'; }

at_least() { # at_least HOST COUNTER N
    local value
    value=$(counter "$1" "$2")
    [ "${value:-0}" -ge "$3" ] || failed "$2 of $1 is '$value', not $3 or more"
}

transfers() { # transfers WHAT
    run "$1, small messages" lat $mac_b --iters 2000
    run "$1, 64 MiB by send" bw $mac_b --op send --size 1048576 --bytes 64M
    run "$1, random sizes by write" bw $mac_b --op write --size 65536 --random-sizes --iters 2000
}

cables 1500
start xdp
if grep -q 'without xdp (this vipd was built without libbpf)' "$WORK/A.log"; then
    echo "skipped: this vipd was built without libbpf"
    exit 77
fi
up_as A xdp && up_as B xdp || {
    echo "this kernel refuses XDP on veth: $(grep 'without xdp' "$WORK/A.log")"
    exit 1
}
serve
transfers "xdp and xdp"
for host in A B; do
    at_least $host xdp_rx 2000
    at_least $host xdp_tx 1000
    capabilities_dropped "/proc/${DAEMON_PID[$host]}/status" ||
        failed "vipd $host has kept capabilities"
done

# XDP must pass all other traffic to the kernel.
nsenter --net="/run/netns/$NS_B" "$frames" take 10.77.0.2 5001 >"$WORK/take.txt" 2>&1 &
taker=$!
track $taker
for _ in $(seq 1200); do
    grep -q listening "$WORK/take.txt" && break
    sleep 0.05
done
nsenter --net="/run/netns/$NS_A" "$frames" give 10.77.0.2 5001 50000000 >"$WORK/give.txt" 2>&1 &
giver=$!
run "xdp with TCP beside it" bw $mac_b --op send --size 1048576 --bytes 64M
wait $giver && wait $taker && grep -qx '50000000 bytes' "$WORK/take.txt" ||
    failed "TCP beside: $(cat "$WORK/take.txt" "$WORK/give.txt")"

# Bad frames pass through XDP if they look like packets; they are dropped and counted as without XDP.
bad_frames "$if_a" $mac_b B
run "after bad frames" lat $mac_b --iters 500

# The interface goes down during a transfer and comes back. Frames that cannot be sent wait, and
# vipd must not poll for them meanwhile.
timeout 600 env VIPD_RUNTIME_DIR="$WORK/A" $(host_prefix A) "$vipperf" lat $mac_b --duration 3s --verify \
    --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &
transfer=$!
sleep 0.5
in_namespace "$NS_A" ip link set "$if_a" down
state_is A "down (the interface is down)"
state_is B "down (no carrier)"
before=$(counter A tx_again)
sleep 1
[ $(($(counter A tx_again) - before)) -lt 100 ] || failed "vipd A tries to send all the time"
in_namespace "$NS_A" ip link set "$if_a" up
up_as A xdp
up_as B xdp
if ! wait $transfer || ! grep -q '"verified": true' "$WORK/result.json"; then
    failed "the transfer during which the interface was down"
fi
before=$(counter B xdp_rx)
run "after the interface was down" lat $mac_b --iters 500
[ $(($(counter B xdp_rx) - before)) -ge 500 ] || failed "B has no packets by XDP any more"

# A smaller MTU must change nothing, nor a larger MTU whose frames still fit into a buffer.
for mtu in 1400 2000; do
    in_namespace "$NS_A" ip link set "$if_a" mtu $mtu
    in_namespace "$NS_B" ip link set "$if_b" mtu $mtu
    for _ in $(seq 1200); do
        in_host B "$vipctl" -rn -o mtu_bytes show nic | grep -qx $((mtu - 4)) && break
        sleep 0.05
    done
    up_as A xdp
    up_as B xdp
    before=$(counter B xdp_rx)
    run "after the MTU became $mtu" bw $mac_b --size 65536 --random-sizes --iters 200
    [ $(($(counter B xdp_rx) - before)) -ge 200 ] || failed "B has no packets by XDP with MTU $mtu"
done

# Rename the interface and rename it back; then remove it and make it again. vipd has no privileges
# any more, so it continues without XDP.
in_namespace "$NS_A" ip link set "$if_a" down
in_namespace "$NS_A" ip link set "$if_a" name other0
state_is A "down (no such interface: $if_a is called other0 now)"
in_namespace "$NS_A" ip link set other0 name "$if_a"
in_namespace "$NS_A" ip link set "$if_a" up
up_as A ether
run "after the interface was renamed" lat $mac_b --iters 500
in_namespace "$NS_A" ip link del "$if_a"
state_is A "down (no such interface)"
state_is B "down (no such interface)"
ip link add "$if_a" netns "$NS_A" type veth peer name "$if_b" netns "$NS_B"
cables 1500
up_as A ether
up_as B ether
run "after the interface was removed and made again" lat $mac_b --iters 500
in_host B "$vipctl" explain nic vip0 >"$WORK/explain.txt"
grep -q 'it is ether without xdp (.*CAP_NET_ADMIN and CAP_BPF' "$WORK/explain.txt" &&
    grep -q 'enable the drop-in xdp.conf' "$WORK/explain.txt" ||
    failed "explain does not say why B is without XDP: $(cat "$WORK/explain.txt")"
in_host B "$vipctl" check >"$WORK/check.txt"
grep -q 'WARN  nic .*vip0 is ether without xdp (' "$WORK/check.txt" || failed "check: $(cat "$WORK/check.txt")"
grep -q rmem_max "$WORK/check.txt" && failed "a NIC on Ethernet has no socket buffer for receiving"
daemons_end

start ether
up_as A xdp
up_as B ether
serve
transfers "xdp and ether"
at_least A xdp_rx 1000
daemons_end

# ---- a VLAN ---------------------------------------------------------------------------------

start xdp "vlan = 7"
up_as A xdp && up_as B xdp
serve
transfers "in a VLAN"
at_least A xdp_rx 2000
at_least B xdp_rx 2000
# Frames without a tag and of another VLAN look like packets except for the tag.
bad_frames "$if_a" $mac_b B vlan
run "after frames of other VLANs" lat $mac_b --iters 500
daemons_end
start ether "vlan = 7"
up_as A xdp && up_as B ether
serve
run "in a VLAN, xdp and ether" bw $mac_b --op send --size 1048576 --bytes 16M
run "the same, small messages" lat $mac_b --iters 500
at_least A xdp_rx 200
daemons_end

# ---- several receive queues -----------------------------------------------------------------

in_namespace "$NS_A" ip link del "$if_a"
ip link add "$if_a" numtxqueues 4 numrxqueues 4 netns "$NS_A" type veth \
    peer name "$if_b" numtxqueues 4 numrxqueues 4 netns "$NS_B"
cables 1500
# The kernel chooses a receive queue by the EtherType. Four EtherTypes hardly all use queue 0.
for type in 0x88b5 0x88b6 0x88b7 0x88b8; do
    start xdp "ethertype = $type"
    up_as A xdp && up_as B xdp
    grep -q 'with xdp, [a-z ]*, receive queues: 4' "$WORK/B.log" ||
        failed "queues: $(grep 'with xdp' "$WORK/B.log")"
    serve
    run "four queues, EtherType $type" bw $mac_b --op send --size 1048576 --bytes 8M
    all=$(counter B rx_packets)
    fast=$(counter B xdp_rx)
    [ "$all" -gt 2000 ] && [ "$fast" -eq "$all" ] || failed "of $all packets only $fast came by XDP"
    daemons_end
done
in_namespace "$NS_A" ip link del "$if_a"
ip link add "$if_a" netns "$NS_A" type veth peer name "$if_b" netns "$NS_B"

# ---- fall-back ------------------------------------------------------------------------------

cables 9000
start xdp
up_as A ether
up_as B ether
grep -q 'without xdp (an MTU of 9000 is too large' "$WORK/A.log" || failed "no reason for ether"
serve
run "MTU 9000, as ether" bw $mac_b --op send --size 1048576 --bytes 64M
daemons_end

cables 1500
daemons_begin "$build/vipd"
DAEMON_NIC="link = xdp
interface = $if_a" DAEMON_AS="setpriv --bounding-set=-all,+net_raw --inh-caps=-all" \
    daemon_start A - - || exit 1
up_as A ether
grep -q 'without xdp (.*CAP_NET_ADMIN and CAP_BPF' "$WORK/A.log" || failed "no reason for ether"
daemons_end

# An ordinary user with the three capabilities, first without memory to lock.
daemons_begin "$build/vipd"
cp "$VIPD" "$WORK/vipd"
chmod 755 "$WORK" "$WORK/vipd"
mkdir "$WORK/A"
chown 65534:65534 "$WORK/A"
VIPD=$WORK/vipd
caps=+net_raw,+net_admin,+bpf
DAEMON_NIC="link = xdp
interface = $if_a" DAEMON_AS="prlimit --memlock=1048576 setpriv --reuid=65534 --regid=65534 --clear-groups
    --inh-caps=-all,$caps --ambient-caps=$caps" daemon_start A - - || exit 1
up_as A ether
grep -q 'without xdp (its buffers, 8 MiB of locked memory, are refused' "$WORK/A.log" || failed "no reason for ether"
daemon_stop A
DAEMON_NIC="link = xdp
interface = $if_a" DAEMON_AS="setpriv --reuid=65534 --regid=65534 --clear-groups
    --inh-caps=-all,$caps --ambient-caps=$caps" daemon_start A - - || exit 1
up_as A xdp
capabilities_dropped "/proc/${DAEMON_PID[A]}/status" || failed "vipd has kept capabilities"
[ $bad -eq 0 ] && echo "xdp: the same frames past the network stack, and nothing else"
exit $bad
