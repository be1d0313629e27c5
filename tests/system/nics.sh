#!/usr/bin/env bash
# One vipd has three NICs: raw Ethernet, UDP over IPv4 and UDP over IPv6 (link-local addresses).
# Each has its own interface between two namespaces. The NICs serve three clients at the same time.
# The name of a host gives the right address on each NIC. If an interface goes down, only
# connections of its NIC end; later the NIC works again without a restart of vipd. vipctl shows NICs
# that cannot start as down, with the reason.
# usage: nics.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
. tests/lib/namespaces.sh

vipperf=$build/tools/vipperf
vipctl=$build/tools/vipctl
port_take || exit 1
kinds=(ether udp4 udp6) # vip0, vip1, vip2
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
    bad=1
}

# The device of a NIC on a host; its name may have 15 letters at most.
device() { # device HOST NUMBER
    printf 'v%s%s-%s' "${1,,}" "$2" $$
}

settle() { # settle HOST NUMBER: set up a cable's end; its link-local address is valid at once
    local ns=NS_$1 dev
    dev=$(device "$1" "$2")
    in_namespace "${!ns}" sysctl -qw "net.ipv6.conf.$dev.accept_dad=0"
    in_namespace "${!ns}" ip link set "$dev" address "02:00:00:00:0$2:$(printf %02x "'$1")"
    in_namespace "${!ns}" ip link set "$dev" up
}

cable() { # cable NUMBER
    ip link add "$(device A "$1")" netns "$NS_A" type veth peer name "$(device B "$1")" netns "$NS_B"
    settle A "$1"
    settle B "$1"
}

for i in 0 1 2; do
    cable $i
done
in_namespace "$NS_A" ip addr add 10.78.1.1/24 dev "$(device A 1)"
in_namespace "$NS_B" ip addr add 10.78.1.2/24 dev "$(device B 1)"
[ -e /proc/net/if_inet6 ] || {
    echo "skipped: this kernel has no IPv6"
    exit 77
}

nics() { # nics HOST N: print the configuration of vip1 (address 10.78.1.N) and vip2
    local last
    last=$(printf %x "'$1")
    printf '%s\n' "[nic:vip1]" "address = 10.78.1.$2" "port = $port" \
        "[nic:vip2]" "address = fe80::ff:fe00:2$last%$(device "$1" 2)" "port = $port"
}

# ---- start: three NICs that work, four that cannot start --------------------------------------

daemons_begin "$build/vipd"
VIPD=$build/vipd/vipd
limits="[reliability]
conn_timeout = 800ms
peer_dead = 2s
keepalive = 500ms"
DAEMON_NIC="link = ether
interface = $(device A 0)"
daemon_start A - - "$(nics A 1)" \
    "[nic:bad0]" "link = ether" "interface = nowhere0" \
    "[nic:bad1]" "address = 10.78.9.9" \
    "[nic:bad2]" "address = fe80::9%nowhere0" \
    "[nic:bad3]" "address = fe80::9%$(device A 1)" "$limits" \
    "[names]" "node-b = 02:00:00:00:00:42, 10.78.1.2, fe80::ff:fe00:242%$(device A 2)" \
    "stranger = fe80::ff:fe00:242%$(device A 1)" || exit 1
DAEMON_NIC="link = ether
interface = $(device B 0)"
daemon_start B - - "$(nics B 2)" "$limits" || exit 1
state_is() { # state_is NIC STATE [HOST]: wait for a state of a NIC (of A); fails after 60 s or more
    for _ in $(seq 1200); do
        in_host "${3-A}" "$vipctl" show nic >"$WORK/show.txt"
        grep -q "^$1 *$2 " "$WORK/show.txt" && return 0
        sleep 0.05
    done
    failed "$1 of ${3-A} is not '$2':"
    cat "$WORK/show.txt"
}

state_is bad0 "down (no such interface)"
state_is bad1 "down (no interface has the address of 10.78.9.9:4794)"
state_is bad2 "down (no such interface: nowhere0)"
state_is bad3 "down ($(device A 1) does not have the address of \[fe80::9\]:4794)"
for i in 0 1 2; do
    state_is vip$i up
    state_is vip$i up B
done
for i in 0 1 2; do
    VIPD_RUNTIME_DIR=$WORK/B $(host_prefix B) "$vipperf" serve --nic vip$i >"$WORK/serve$i.log" 2>&1 &
    track $!
done
if in_host A "$vipperf" lat node-b --nic bad1 >"$WORK/run.log" 2>&1 ||
    ! grep -q 'bad1 is down (no interface has the address' "$WORK/run.log"; then
    failed "a program should be told why bad1 is down: $(cat "$WORK/run.log")"
fi
if in_host A "$vipperf" lat stranger --nic vip2 >"$WORK/run.log" 2>&1; then
    failed "an address of another interface's link must not be reachable"
fi

in_host A "$vipctl" explain peer node-b >"$WORK/explain.txt"
for line in "reached by NIC vip0 (ether) at 02:00:00:00:00:42, packets of at most 1496 bytes" \
    "also by NIC vip1 (udp) at 10.78.1.2:$port" "also by NIC vip2 (udp) at \[fe80::ff:fe00:242\]:$port" \
    "by vip0: the first NIC of the configuration that is up and has an address of the host" \
    "packets of at most 1472 bytes (MTU 1500), for programs that open that one: it comes later in the configuration" \
    "not by bad0 (ether): it is down (no such interface)"; do
    grep -q "$line" "$WORK/explain.txt" || failed "explain does not say: $line: $(cat "$WORK/explain.txt")"
done

# ---- three clients at once ------------------------------------------------------------------

start_clients() { # start_clients ARGUMENTS: one client on each NIC, all with the same name
    local i
    for i in 0 1 2; do
        rm -f "$WORK/result$i.json"
        BEFORE[i]=$(sent $i)
        VIPD_RUNTIME_DIR=$WORK/A timeout 600 $(host_prefix A) "$vipperf" bw node-b --nic vip$i --op send \
            --size 65536 "$@" --verify --json "$WORK/result$i.json" >"$WORK/run$i.log" 2>&1 &
        CLIENT[i]=$!
        track $!
    done
}

good_client() { # good_client NUMBER: it has ended without an error
    wait "${CLIENT[$1]}" && grep -q '"verified": true' "$WORK/result$1.json"
}

sent() { # sent NUMBER: packets sent, as vipctl shows
    in_host A "$vipctl" show stats | awk -v scope="nic:vip$1" '$1 == scope && $2 == "tx_packets" {print $3}'
}

under_way() { # all three clients have begun to send bulk data
    local i
    for i in 0 1 2; do
        for _ in $(seq 3000); do
            [ "$(sent $i)" -ge $((BEFORE[i] + 500)) ] && continue 2
            sleep 0.02
        done
        failed "no client at work on ${kinds[i]}"
    done
}

all_good() { # all_good WHAT
    local i good=0
    for i in 0 1 2; do
        good_client $i && good=$((good + 1)) || failed "$1, ${kinds[i]}: $(tail -n 3 "$WORK/run$i.log")"
    done
    [ $good -ne 3 ] || echo "$1: verified on ether, udp4 and udp6"
}

start_clients --bytes 16M
all_good "three clients at once"

# ---- one interface goes down ----------------------------------------------------------------

for victim in 0 1 2; do
    start_clients --duration 3s
    under_way
    in_namespace "$NS_A" ip link set "$(device A $victim)" down
    for i in 0 1 2; do
        if [ $i -eq $victim ]; then
            good_client $i && failed "${kinds[i]} went on without its interface"
            grep -q 'connection was lost' "$WORK/run$i.log" ||
                failed "${kinds[i]}: the program was not told: $(cat "$WORK/run$i.log")"
        else
            good_client $i || failed "${kinds[i]} suffered: $(tail -n 3 "$WORK/run$i.log")"
        fi
    done
    case $victim in
    # IPv6 removes the addresses of an interface that is set down.
    2) state_is vip2 "down ($(device A 2) does not have the address of .*)" ;;
    1) state_is vip1 "down (the interface $(device A 1) is down)" ;;
    0) state_is vip0 "down (the interface is down)" ;;
    esac
    in_namespace "$NS_A" ip link set "$(device A $victim)" up
    state_is vip$victim up
    state_is vip$victim up B
    [ $bad -ne 0 ] || echo "${kinds[victim]} without its interface: its connection ended, the others did not"
done

# A new interface has the same name, but the NIC's socket is bound to the old interface.
in_namespace "$NS_A" ip link del "$(device A 2)"
state_is vip2 "down (no such interface: $(device A 2))"
cable 2
state_is vip2 up
state_is vip2 up B
start_clients --bytes 4M
all_good "after all interfaces went and came"
grep -q '^vip2 *up *udp *\[fe80::' "$WORK/show.txt" || failed "no IPv6 address is shown: $(cat "$WORK/show.txt")"

if [ $bad -ne 0 ]; then
    tail -n 20 "$WORK"/*.log
fi
[ $bad -eq 0 ] && echo "nics: each NIC on its own"
exit $bad
