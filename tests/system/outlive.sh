#!/usr/bin/env bash
# While two programs exchange messages, the vipd at either end is killed, stopped or taken over from
# (vipd --takeover) many times. This script or a supervisor (tests/lib/supervisor.py) starts the
# next vipd. No message may be lost, come twice or out of order, and the programs must see no error.
# The hosts use UDP, or raw Ethernet if the machine allows namespaces. At the end the script prints
# how long no message came back after each end of a vipd.
# usage: outlive.sh BUILD_DIR [TIMES [traffic | waits | supervised | ethernet | loans]]     TIMES as many ends of vipd
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-1} part=${3:-all}
. scripts/daemons.sh
. tests/lib/failed.sh
. tests/lib/namespaces.sh
. tests/lib/outlive.sh
outlive=$build/tests/system/outlive
vipctl=$build/tools/vipctl
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM

# Value of a counter of vipd A's NIC.
stat_of() { in_host A "$vipctl" show stats | awk -v name="$1" '$2 == name { print $3 }'; }

# Wait until vipd A goes on with the ring. Messages come through the ring before. Fails after 60 s or
# more.
await_ring() {
    for _ in $(seq 1200); do
        [ "$(stat_of rings_again)" = 1 ] && return 0
        sleep 0.05
    done
    return 1
}

staged() { for host in A B; do in_host $host "$vipctl" show mem kind=staged; done | grep -c ' staged '; }

# one NAME WAY SERVER'S WORDS CLIENT'S WORDS: traffic on a connection, while each vipd ends by WAY
one() {
    local name="$1, $2" way=$2
    outlive_begin "$3" "$4" || failed "$name: $WRONG"
    [ "$(staged)" -ge "$(grep -o staged <<<"$3 $4" | wc -l)" ] || failed "$name: $(staged) regions are staged"
    for i in $(seq "$ends"); do
        for host in $hosts; do
            outlive_again "$host" "$way" $pause || failed "$name, $i: $WRONG"
            echo "$GAP" >>"$WORK/gaps.$way"
        done
    done
    if [ "$server_host" = A ] && [ "$direct" != 0 ]; then
        await_ring || failed "$name: vipd did not go on with the ring"
    fi
    outlive_finish || failed "$name: $WRONG"
    echo "$name: $(tail -n 1 "$WORK/client.log")"
}

# ways NAME WAY: programs with staged memory that use handlers or the file descriptor of a CQ
ways() {
    one "$1, handlers and descriptor, staged sends" "$2" "cqfd" "notify staged"
    one "$1, descriptor and handlers, staged RDMA Writes and Reads" "$2" "notify staged write" "cqfd staged write read"
}

both_hosts() { hosts="A B" server_host=B direct=1; }
one_host() { hosts=A server_host=A direct=1; }

# begin [CONFIG LINES...]: start both vipd; $below = yes: by a supervisor; $cable: over Ethernet
begin() {
    local host
    for host in A B; do
        daemon_stop $host || failed "vipd $host has ended badly"
        DAEMON_AS="" DAEMON_NIC=""
        [ $cable = no ] || DAEMON_NIC="link = ether
interface = ${interface[$host]}"
        [ $below = no ] || DAEMON_AS="tests/lib/supervisor.py $([ $cable = yes ] || echo "${address[$host]}:$port") --"
        daemon_start $host "${address[$host]}" "$port" "$@" || exit 1
    done
}

traffic() {
    local kept
    ends=$((2 * times))
    both_hosts
    begin "[reliability]" "outlive = 20s"
    one "queues" SIGKILL "" ""
    one "queues, Reliable Reception, memory of malloc" SIGKILL "" "rr heap"
    one "completion queues" SIGKILL "cq" "cq"
    one "RDMA Writes" SIGKILL "write" "write rr"
    one "RDMA Reads, completion queues" SIGKILL "cq" "read cq"
    for how in SIGTERM takeover; do
        one "queues" $how "" "rr"
        one "RDMA Writes and Reads, completion queues" $how "cq write" "cq write read"
    done
    # Both programs on one host, with a ring between them and without one.
    for how in SIGKILL SIGTERM takeover; do
        one_host
        direct=0
        one "one host, no ring" $how "" ""
        direct=1
        one "one host, a ring" $how "" ""
        one "one host, a ring, completion queues" $how "cq" "cq"
        one "one host, a ring, small messages" $how "small" "small cq"
        # With this pause between two messages both programs sleep, on queues or on the CQ.
        pause=0.5
        one "one host, a ring, programs that sleep" $how "small" "small cq"
        pause=0 direct=random
        one "one host, a ring and vipd in turn" $how "" "cq"
        one "one host, a ring, RDMA Writes and Reads" $how "cq write" "write read"
    done
    both_hosts
    # The peer must wait for the next vipd, even if the next vipd starts later than peer_dead.
    begin "[reliability]" "outlive = 60s" "peer_dead = 3s" "conn_timeout = 3s"
    kept=$(cat "$WORK/gaps.SIGTERM")
    pause=7 hosts=B
    one "stopped for longer than peer_dead" SIGTERM "" ""
    echo "$kept" >"$WORK/gaps.SIGTERM"
    pause=0
}

waits() {
    ends=$times
    both_hosts
    begin "[reliability]" "outlive = 20s"
    for how in SIGKILL SIGTERM takeover; do
        both_hosts
        ways "two hosts" $how
        one_host
        ways "one host, a ring" $how
        pause=0.5
        one "one host, a ring, handlers and descriptor, programs that sleep" $how "small notify" "small cqfd"
        pause=0
    done
}

# The supervisor starts the next vipd when a program connects, and gives it the old sockets.
supervised() {
    ends=$times
    below=yes
    begin "[reliability]" "outlive = 20s"
    for how in supervised crashed; do
        both_hosts
        one "queues, Reliable Reception, memory of malloc" $how "" "rr heap"
        one "RDMA Writes and Reads, completion queues" $how "cq write" "cq write read"
        ways "two hosts" $how
        one_host
        one "one host, no ring" $how "" ""
        ways "one host, a ring" $how
    done
    below=no
}

# The programs run the data path themselves, as often as they can.
loans() {
    local how
    ends=$((2 * times))
    both_hosts
    export VIPL_LOAN=eager
    begin "[reliability]" "outlive = 20s" "[engine]" "loan = auto"
    for how in SIGKILL takeover SIGTERM; do
        one "loans, queues" $how "" ""
        [ "$(stat_of loans_lent)" -gt 0 ] || failed "vipd has lent nothing"
        one "loans, RDMA Writes and Reads, completion queues" $how "cq write" "cq write read"
        one "loans, small messages, Reliable Reception" $how "small" "small rr"
    done
    unset VIPL_LOAN
}

ethernet() {
    local hows
    ends=$times
    namespaces_begin
    case $? in
    0)
        # shellcheck disable=SC2034
        NETNS_A=$NS_A NETNS_B=$NS_B cable=yes
        for host in A B; do
            address[$host]=$(in_host $host ip -brief link show "${interface[$host]}" | awk '{ print $3 }')
        done
        both_hosts
        for below in no yes; do
            begin "[reliability]" "outlive = 20s"
            [ $below = no ] && hows="SIGKILL SIGTERM takeover" || hows="supervised crashed"
            for how in $hows; do
                one "Ethernet, RDMA Writes and Reads, completion queues" "$how" "cq write" "cq write read rr"
                one "Ethernet, handlers and descriptor, memory of malloc" "$how" "cqfd heap" "notify heap"
            done
        done
        ;;
    77) [ "$part" = all ] || exit 77 ;;
    *) failed "namespaces" ;;
    esac
}

daemons_begin "$build/vipd"
port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2) interface=([A]=va$$ [B]=vb$$)
cable=no below=no pause=0
case $part in
traffic | waits | supervised | ethernet | loans) "$part" ;;
all)
    traffic
    waits
    supervised
    loans
    ethernet
    ;;
*) failed "no part $part" ;;
esac
for host in A B; do
    daemon_stop $host || failed "vipd $host has ended badly"
done
for way in SIGKILL SIGTERM takeover supervised crashed; do
    [ -e "$WORK/gaps.$way" ] || continue
    sort -n "$WORK/gaps.$way" | awk -v way=$way '{ ms[NR] = $1 }
        END { printf "%s: no message for %.0f ms (median of %d), %.0f ms at most\n", way, ms[int((NR + 1) / 2)], NR, ms[NR] }'
done
echo "outlive: all messages arrived, once and in order"
