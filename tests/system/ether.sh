#!/usr/bin/env bash
# The Ethernet link over veth between two namespaces: verified transfers with small and jumbo
# frames, with and without loss, in a VLAN; other traffic on the interface; frames that vipd must
# drop; an interface that goes down or is made again; vipd without CAP_NET_RAW, and only with it.
# usage: ether.sh BUILD_DIR
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
mac_a=02:00:00:00:0a:01
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

# Without addrgenmode none, the listener would see IPv6 frames of the kernel.
cables() { # cables MTU on|off: on merges received frames (GRO), which must not change ours
    in_namespace "$NS_A" ip link set "$if_a" down address $mac_a mtu "$1" addrgenmode none
    in_namespace "$NS_B" ip link set "$if_b" down address $mac_b mtu "$1" addrgenmode none
    in_namespace "$NS_A" "$frames" gro "$if_a" "$2" || exit 1
    in_namespace "$NS_B" "$frames" gro "$if_b" "$2" || exit 1
    in_namespace "$NS_A" ip link set "$if_a" up
    in_namespace "$NS_B" ip link set "$if_b" up
}

state_is() { # state_is HOST TEXT: wait for TEXT as vipctl's state of the NIC; fails after 60 s or more
    for _ in $(seq 1200); do
        in_host "$1" "$vipctl" show nic >"$WORK/show.txt"
        grep -q "^vip0 *$2 *ether" "$WORK/show.txt" && return 0
        sleep 0.05
    done
    failed "the NIC of $1 is not '$2':"
    cat "$WORK/show.txt"
}

start() { # start [CONFIG LINES...]: start both vipd, and a server on B
    daemons_begin "$build/vipd"
    VIPD=$build/vipd/vipd
    DAEMON_NIC="link = ether
interface = $if_a"
    daemon_start A - - "announce = node-a" "$@" "[names]" "node-b = $mac_b" || exit 1
    DAEMON_NIC="link = ether
interface = $if_b
announce = found-b.example.org"
    daemon_start B - - "$@" || exit 1
    # The kernel may report the carrier a second late.
    state_is A up
    state_is B up
    VIPD_RUNTIME_DIR=$WORK/B $(host_prefix B) "$vipperf" serve >"$WORK/serve.log" 2>&1 &
    track $!
}

perf() { timeout 600 env VIPD_RUNTIME_DIR="$WORK/A" $(host_prefix A) "$vipperf" "$@" --verify; }

run() { # run WHAT ARGUMENTS...
    local what=$1
    shift
    if perf "$@" --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &&
        grep -q '"verified": true' "$WORK/result.json"; then
        echo "$what: verified"
    else
        failed "$what"
    fi
}

counter() { in_host "$1" "$vipctl" show stats | awk -v name="$2" '$0 ~ name {print $3; exit}'; }

at_least() { # at_least HOST COUNTER N
    local value
    value=$(counter "$1" "$2")
    [ "${value:-0}" -ge "$3" ] || failed "$2 of $1 is '$value', not $3 or more"
}

# ---- transfers ----------------------------------------------------------------------------

for mtu in 1500 9000; do
    for loss in 0 1; do
        cables $mtu $([ $loss = 0 ] && echo on || echo off)
        faults=()
        [ $loss -eq 0 ] || faults=("faults = loss=$loss%,seed=42")
        start ${faults+"${faults[@]}"}
        what="MTU $mtu, loss $loss%"
        run "$what, small messages" lat node-b --iters 2000
        run "$what, 16 MiB by send" bw $mac_b --op send --size 1048576 --bytes 16M
        run "$what, 16 MiB by write" bw $mac_b --op write --wait block --size 1048576 --bytes 16M
        run "$what, random sizes" bw $mac_b --size 65536 --random-sizes --iters 2000
        [ "$mtu$loss" != 15000 ] || state_is A up
        daemons_end
    done
done
cables 1500 on
start "vlan = 7" "ethertype = 0x88b6"
run "VLAN 7, EtherType 0x88b6, a host found by its name" bw found-b --size 65536 --random-sizes --iters 2000
daemons_end

# ---- other traffic on the interface -------------------------------------------------------

start
nsenter --net="/run/netns/$NS_B" "$frames" watch "$if_b" >"$WORK/watch.txt" &
watcher=$!
for _ in $(seq 1200); do
    grep -q watching "$WORK/watch.txt" && break
    sleep 0.05
done
run "a transfer that is watched" bw $mac_b --op send --size 1048576 --bytes 32M
kill $watcher
wait $watcher
if [ "$(sed 1d "$WORK/watch.txt" | cut -d' ' -f1)" = 88b5 ]; then
    echo "a listener saw: $(sed 1d "$WORK/watch.txt") (EtherType, frames) and nothing else"
else
    failed "a listener saw other frames than ours: $(cat "$WORK/watch.txt")"
fi

nsenter --net="/run/netns/$NS_B" "$frames" take 10.77.0.2 5001 >"$WORK/take.txt" 2>&1 &
taker=$!
track $taker
for _ in $(seq 1200); do
    grep -q listening "$WORK/take.txt" && break
    sleep 0.05
done
nsenter --net="/run/netns/$NS_A" "$frames" give 10.77.0.2 5001 100000000 >"$WORK/give.txt" 2>&1 &
giver=$!
run "a transfer with TCP beside it" bw $mac_b --op send --size 1048576 --bytes 64M
wait $giver || failed "TCP beside: $(cat "$WORK/give.txt")"
wait $taker || failed "TCP beside: $(cat "$WORK/take.txt")"
# TCP and vipd share one wire, so TCP may send a segment again. But all bytes must arrive intact.
if grep -qx '100000000 bytes' "$WORK/take.txt"; then
    echo "TCP beside it: 100000000 bytes intact, segments $(cat "$WORK/give.txt")"
else
    failed "TCP beside: $(cat "$WORK/take.txt" "$WORK/give.txt")"
fi

# ---- finding peers --------------------------------------------------------------------------

run "a host that no table knows" lat found-b --iters 500
run "the same by its whole name, on its own" lat FOUND-B.example.org --iters 500
explains() { # explains HOST PEER TEXT
    in_host "$1" "$vipctl" explain peer "$2" >"$WORK/explain.txt" 2>&1
    grep -qF "$3" "$WORK/explain.txt" || failed "explain peer $2 does not say \"$3\": $(cat "$WORK/explain.txt")"
}
explains A found-b "reached by NIC vip0 (ether) at $mac_b, packets of at most 1496 bytes (MTU 1500); answered on the segment"
explains B $mac_a "called node-a"
explains B 02:00:00:00:0c:01 "reached by NIC vip0 (ether) at 02:00:00:00:0c:01"
at_least B rx_solicits 1
at_least B tx_announces 1
at_least A rx_announces 1
perf lat nobody-here --iters 1 >"$WORK/run.log" 2>&1 && failed "nobody was found"
grep -q 'nor known to a host on this medium' "$WORK/run.log" || failed "who nobody is: $(cat "$WORK/run.log")"
# A host that asks a thousand times gets a few answers. vipd counts other and malformed questions.
before=$(counter B tx_announces)
in_namespace "$NS_A" "$frames" ask "$if_a" found-b 1000 || failed "asking"
run "after a flood of questions" lat found-b --iters 500
at_least B drop_peer_rate 900
at_least B drop_peer_crc 1
at_least B drop_peer_field 1
[ $(($(counter B tx_announces) - before)) -le 50 ] || failed "B answers a flood"

# ---- bad frames -----------------------------------------------------------------------------

bad_frames "$if_a" $mac_b B
run "after bad frames" lat node-b --iters 500

# ---- removal and return of the interface ------------------------------------------------------

perf bw $mac_b --op send --size 1048576 --duration 2500ms --json "$WORK/result.json" \
    >"$WORK/run.log" 2>&1 &
transfer=$!
sleep 0.7
in_host A "$vipctl" explain peer "${mac_b%:*}" >"$WORK/explain.txt" 2>&1 &&
    failed "explain takes the beginning of a MAC address for a peer: $(cat "$WORK/explain.txt")"
explains A found-b "$mac_b: " # there is a connection, with the address that was found for the name
in_namespace "$NS_A" ip link set "$if_a" down
state_is A "down (the interface is down)"
state_is B "down (no carrier)"
sleep 0.3
in_namespace "$NS_A" ip link set "$if_a" up
state_is A up
state_is B up
if wait $transfer && grep -q '"verified": true' "$WORK/result.json"; then
    echo "down for a while during a transfer: verified"
else
    failed "the transfer during which the interface was down: $(tail -n 2 "$WORK/run.log")"
fi
at_least A tx_down 1

in_namespace "$NS_A" ip link set "$if_a" down
in_namespace "$NS_A" ip link set "$if_a" name other0
state_is A "down (no such interface: $if_a is called other0 now)"
# A message about another interface must not change the state.
in_namespace "$NS_A" ip link set lo mtu 60000
state_is A "down (no such interface: $if_a is called other0 now)"
in_namespace "$NS_A" ip link set other0 name "$if_a"
in_namespace "$NS_A" ip link set "$if_a" up
state_is A up
in_namespace "$NS_A" ip link del "$if_a"
state_is A "down (no such interface)"
state_is B "down (no such interface)"
ip link add "$if_a" netns "$NS_A" type veth peer name "$if_b" netns "$NS_B"
cables 9000 off
state_is A up
state_is B up
run "removed and made again with jumbo frames" bw $mac_b --size 65536 --random-sizes --iters 2000

# B's `mtu` is below the MTU of the wire. B must drop frames that are longer.
daemons_end
cables 9000 off
start "mtu = 1500"
bad_frame "$if_a" $mac_b B rx_truncated oversized
run "with an MTU below that of the wire" lat node-b --iters 500

# ---- capabilities -----------------------------------------------------------------------------

capabilities_dropped "/proc/${DAEMON_PID[A]}/status" ||
    failed "vipd has kept capabilities: $(grep Cap "/proc/${DAEMON_PID[A]}/status")"
daemons_end

# Two NICs of one host on one segment, with one name: the NIC that answers first keeps the name.
daemons_begin "$build/vipd"
VIPD=$build/vipd/vipd
if in_namespace "$NS_B" ip link add link "$if_b" name mb0 address 02:00:00:00:0b:02 type macvlan mode bridge; then
    in_namespace "$NS_B" ip link set mb0 up
    DAEMON_NIC="link = ether
interface = $if_a" daemon_start A - - || exit 1
    DAEMON_NIC="link = ether
interface = mb0
announce = twice" daemon_start B - - "[nic:vip1]" "link = ether" "interface = $if_b" "announce = twice" || exit 1
    state_is A up
    state_is B up
    explains A twice "at 02:00:00:00:0b:0" # either of the two may answer first
    at_least A drop_peer_dispute 1
    grep -q 'two cards are called "twice".*another name' "$WORK/A.log" || failed "nothing is said of two cards"
    explains A twice "at $(sed -n 's/.*called "twice": \([0-9a-f:]*\), which answered first.*/\1/p' "$WORK/A.log"), "
    # Two vipd on one interface with one EtherType disturb each other. The second must report this.
    NETNS_C=$NS_A DAEMON_NIC="link = ether
interface = $if_a" daemon_start C - - || exit 1
    grep -q 'another program takes frames of EtherType 88b5' "$WORK/C.log" || failed "C does not see A's socket"
    grep -q 'another program takes' "$WORK/A.log" && failed "A takes its own socket for another's"
    in_namespace "$NS_B" ip link del mb0
else
    echo "this kernel has no macvlan: two NICs on one segment were not tried"
fi
daemons_end

# Without the capability a NIC over UDP in the same vipd must still work.
daemons_begin "$build/vipd"
VIPD=$build/vipd/vipd
udp="[nic:vip1]
link = udp
address = 10.77.0.1"
in_namespace "$NS_A" ip addr replace 10.77.0.1/24 dev "$if_a"
DAEMON_NIC="link = ether
interface = $if_a"
DAEMON_AS="setpriv --bounding-set=-net_raw --inh-caps=-all" daemon_start A - - "$udp" || exit 1
state_is A "down (CAP_NET_RAW is missing)"
grep -q 'lacks the capability CAP_NET_RAW.*setcap cap_net_raw+ep /.*vipd"' "$WORK/A.log" ||
    failed "vipd does not say what is missing"
grep -q '^vip1 *up *udp' "$WORK/show.txt" || failed "the other NIC is not up"
daemon_stop A

# A user with this capability only. Copy vipd: the user may be unable to read the build folder.
cp "$VIPD" "$WORK/vipd"
chmod 755 "$WORK" "$WORK/vipd"
rm -rf "$WORK/A" # the lock in it belongs to root
mkdir "$WORK/A"
chown 65534:65534 "$WORK/A"
VIPD=$WORK/vipd
DAEMON_AS="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+net_raw
    --ambient-caps=+net_raw" daemon_start A - - "$udp" || exit 1
state_is A up
capabilities_dropped "/proc/${DAEMON_PID[A]}/status" ||
    failed "vipd has kept its capability"
[ $bad -ne 0 ] || echo "without CAP_NET_RAW: said; with it alone: up, and dropped afterwards"
daemons_end

[ $bad -eq 0 ] && echo "ether: everything arrived, nothing else was touched"
exit $bad
