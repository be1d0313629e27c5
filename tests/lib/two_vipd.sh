#!/usr/bin/env bash
# Run a program with one or two vipd. LINK is one of
#   udp     two vipd, on 127.0.0.1 and 127.0.0.2
#   udp6    two vipd, on ports of ::1
#   lossy   udp with 5 % of the packets lost and 1 % corrupted, in each direction (then VIP_LOSS is
#           set)
#   loop    one vipd, which serves both ends
#   lo      the same with link = loop
#   ether   two vipd in two namespaces joined by veth, on raw Ethernet frames, MTU 1500; needs root
#   jumbo   the same with MTU 9000
#   segment as ether, but without a table of names: the hosts ask each other
#   xdp     as ether, with link = xdp on both sides
# The program finds VIPD_RUNTIME_DIR_A, VIPD_RUNTIME_DIR_B, VIP_ADDRESS_A, VIP_ADDRESS_B (for
# VipNSGetHostByName), VIP_PID_A, VIP_PID_B, VIP_LINK ("loop": both ends on one vipd, else "udp") and VIP_MEDIUM
# (udp, udp6, lo, ether). Afterwards the script stops everything. If the program fails, it shows the
# vipd logs. Without VIP_LOANS, libvipl asks for no loan. With VIP_LOANS=eager or VIP_LOANS=must,
# libvipl asks for a loan of every connection at its first polls; with `must`, the script fails if no connection was lent. With VIP_LOANS=random,
# libvipl also gives loans back at random, and vipd does not limit the moves; the script fails if
# fewer than VIP_LOANS_LEAST (default: 0) connections were lent. If a vipd has died
# meanwhile, the script fails, except with VIP_MAY_DIE=1 (the program kills vipd). Exit status 77, with a reason: this link is not possible here. usage: two_vipd.sh
# BUILD_DIR LINK PROGRAM [ARGUMENTS]
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:?build directory}")
link=${2:?udp, udp6, lossy, loop, lo, ether, jumbo, segment or xdp}
medium=udp
mtu=1500
names=no
segment=no
raw=ether
lines=()
if [ "$link" = lossy ]; then
    link=udp
    lines+=("faults = loss=5%,corrupt=1%,seed=${VIP_LOSS_SEED:-42}")
    export VIP_LOSS=1
fi
case $link in
udp | loop) ;;
udp6)
    link=udp
    medium=udp6
    [ -e /proc/net/if_inet6 ] || {
        echo "skipped: this kernel has no IPv6"
        exit 77
    }
    ;;
lo)
    link=loop
    medium=lo
    ;;
jumbo | ether | segment | xdp)
    [ "$link" != jumbo ] || mtu=9000
    [ "$link" != xdp ] || raw=xdp
    [ "$link" != segment ] || segment=yes
    link=udp
    medium=ether
    ;;
*)
    echo "two_vipd.sh: no such link: $link" >&2
    exit 2
    ;;
esac
[ "${VIP_LOANS-}" != random ] ||
    lines+=("[engine]" "loan_moves = 100000" "[limits]" "loan_moves_per_uid = 1000000")
[ -z "${VIP_NIC_LINES-}" ] || lines+=("$VIP_NIC_LINES")
shift 2
# shellcheck source=/dev/null
. "$here/scripts/daemons.sh"

# shellcheck source=/dev/null
. "$here/tests/lib/namespaces.sh"

trap 'daemons_end; [ $names = no ] || namespaces_end' EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"

wire() { # wire NAMESPACE DEVICE MAC
    in_namespace "$1" ip link set "$2" address "$3" mtu $mtu
}

# The kernel may take a second to report the carrier.
carrier() { # carrier NAMESPACE DEVICE
    for _ in $(seq 3000); do
        in_namespace "$1" ip -o link show dev "$2" | grep -q 'state UP' && return
        sleep 0.02
    done
    echo "two_vipd.sh: $2 has no carrier" >&2
    return 1
}

if [ $medium = ether ]; then
    namespaces_begin
    case $? in
    0) ;;
    77) exit 77 ;;
    *) exit 1 ;;
    esac
    names=yes
    wire "$NS_A" va$$ 02:00:00:00:0a:01 && wire "$NS_B" vb$$ 02:00:00:00:0b:01 || exit 1
    carrier "$NS_A" va$$ && carrier "$NS_B" vb$$ || exit 1
fi

# The addresses of the two hosts, for vipd and for the table of names.
describe() {
    case $medium in
    udp) at=(127.0.0.1 127.0.0.2) ports=("$port" "$port") called=("127.0.0.1:$port" "127.0.0.2:$port") ;;
    udp6) at=(::1 ::1) ports=("$port" "$((port + 1))") called=("[::1]:$port" "[::1]:$((port + 1))") ;;
    lo) at=(- -) ports=(- -) called=(localhost localhost) ;;
    ether) at=(- -) ports=(- -) called=(02:00:00:00:0a:01 02:00:00:00:0b:01) ;;
    esac
}

announced=(node-a node-b.example.org)

start_one() { # start_one HOST NUMBER
    local DAEMON_NIC="" NETNS_A="" NETNS_B="" table=()
    case $medium in
    lo) DAEMON_NIC="link = loop" ;;
    ether)
        NETNS_A=$NS_A
        NETNS_B=$NS_B
        DAEMON_NIC="link = $raw
interface = v${1,,}$$"
        [ $segment = no ] || DAEMON_NIC+=$'\n'"announce = ${announced[$2]}"
        ;;
    esac
    [ $medium = lo ] || [ $segment = yes ] ||
        table=("[names]" "node-a = ${called[0]}" "node-b.example.org = ${called[1]}")
    daemon_start "$1" "${at[$2]}" "${ports[$2]}" ${lines+"${lines[@]}"} ${table+"${table[@]}"}
}

start_pair() {
    port_take || return
    describe
    start_one A 0 || return
    [ "$link" = loop ] || start_one B 1
}

start_pair || exit 1
# If XDP is not possible here, vipd uses ether instead, which is another test.
if [ $raw = xdp ]; then
    if grep -q 'without xdp (this vipd was built without libbpf)' "$WORK/A.log"; then
        echo "skipped: this vipd was built without libbpf"
        exit 77
    fi
    for host in A B; do
        grep -q ': with xdp' "$WORK/$host.log" || {
            echo "two_vipd.sh: vipd $host has no XDP: $(grep 'without xdp' "$WORK/$host.log")" >&2
            exit 1
        }
    done
fi
export VIPD_RUNTIME_DIR_A=$WORK/A VIP_ADDRESS_A=${called[0]} VIP_PID_A=${DAEMON_PID[A]}
if [ "$link" = udp ]; then
    export VIPD_RUNTIME_DIR_B=$WORK/B VIP_ADDRESS_B=${called[1]} VIP_PID_B=${DAEMON_PID[B]}
else
    export VIPD_RUNTIME_DIR_B=$WORK/A VIP_ADDRESS_B=$VIP_ADDRESS_A VIP_PID_B=$VIP_PID_A
fi
case ${VIP_LOANS-} in
"") export VIPL_LOAN=0 ;;
random) export VIPL_LOAN=random ;;
*) export VIPL_LOAN=eager ;;
esac
export VIP_LINK=$link VIP_MEDIUM=$medium VIPD_RUNTIME_DIR=$WORK/A VIP_WORK=$WORK

"$@"
result=$?
for name in "${!DAEMON_PID[@]}"; do
    if [ -z "${VIP_MAY_DIE-}" ] && ! kill -0 "${DAEMON_PID[$name]}" 2>/dev/null; then
        echo "vipd $name died meanwhile" >&2
        result=1
    fi
done
[ "${VIP_LOANS-}" != must ] || VIP_LOANS_LEAST=1
if [ -n "${VIP_LOANS_LEAST-}" ]; then
    lent=0
    for host in A B; do
        lent=$((lent + $(VIPD_RUNTIME_DIR="$WORK/$host" "$build/tools/vipctl" show stats |
            awk '$2 == "loans_lent" { print $3 }')))
    done
    echo "loans: $lent"
    if [ $lent -lt "$VIP_LOANS_LEAST" ]; then
        echo "two_vipd.sh: fewer than $VIP_LOANS_LEAST loans" >&2
        result=1
    fi
fi
# The exit status of each vipd counts, too, because a sanitizer reports errors by it.
for name in "${!DAEMON_PID[@]}"; do
    pid=${DAEMON_PID[$name]}
    unset "DAEMON_PID[$name]"
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    status=$?
    if [ -z "${VIP_MAY_DIE-}" ] && [ $status -ne 0 ]; then
        echo "vipd $name ended with status $status" >&2
        result=1
    fi
done
if [ "$result" -ne 0 ]; then
    for log in "$WORK"/*.log; do
        echo "--- $log" >&2
        tail -n 40 "$log" >&2
    done
fi
exit "$result"
