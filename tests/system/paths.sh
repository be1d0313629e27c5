#!/usr/bin/env bash
# NICs with two paths. Checked traffic uses two cables between two hosts, in both directions. The
# script cuts the two cables by turns: an interface goes down, or (UDP) packets vanish without an
# error. No message may be lost, come twice or out of order, and the programs must see no error. The
# traffic must use the other path. After an end of vipd (killed, stopped, taken over from) the next
# vipd must have all paths again. Prints at last how long no message came back after each cut.
# usage: paths.sh BUILD_DIR [CUTS]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
cuts=${2:-6}
. scripts/daemons.sh
. tests/lib/failed.sh
. tests/lib/namespaces.sh
. tests/lib/outlive.sh
VIPD=$build/vipd/vipd
outlive=$build/tests/system/outlive
vipctl=$build/tools/vipctl
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
daemons_begin
port_take || exit 1
declare -A ns=([A]=$NS_A [B]=$NS_B) number=([A]=1 [B]=2)

# The interface of a host on cable 1 or 2, and its address there.
device() { [ "$2" = 1 ] && printf 'v%s%s' "${1,,}" $$ || printf 'w%s%s' "${1,,}" $$; }
address_on() { printf '10.%s.0.%s' "$((76 + $2))" "${number[$1]}"; }

mac() { in_namespace "${ns[$1]}" ip -brief link show dev "$(device "$1" "$2")" | awk '{ print $3 }'; }

other() { [ "$1" = A ] && echo B || echo A; }

# cut HOST CABLE HOW on|off: down: the interface; silent: packets to the host get a wrong MAC
cut() {
    local peer dev
    peer=$(other "$1")
    dev=$(device "$1" "$2")
    case $3$4 in
    downon) in_namespace "${ns[$1]}" ip link set "$dev" down ;;
    downoff) in_namespace "${ns[$1]}" ip link set "$dev" up ;;
    silenton)
        in_namespace "${ns[$peer]}" ip neigh replace "$(address_on "$1" "$2")" lladdr 02:00:00:00:00:99 \
            dev "$(device "$peer" "$2")" nud permanent
        ;;
    silentoff)
        in_namespace "${ns[$peer]}" ip neigh replace "$(address_on "$1" "$2")" lladdr "$(mac "$1" "$2")" \
            dev "$(device "$peer" "$2")" nud reachable
        ;;
    esac
}

# value HOST COLUMN: prints this column of the other host's row in `vipctl show peers`
value() { in_host "$1" "$vipctl" show peers --raw --no-header --output "$2" state!=self; }

nic_state() { in_host "$1" "$vipctl" show nic --raw --no-header --output state,paths | tr '\t' ' '; }

# await TEXT COMMAND...: the command prints this text; fails after 60 s or more
await() {
    local text=$1
    shift
    for _ in $(seq 1200); do
        [ "$("$@")" = "$text" ] && return 0
        sleep 0.05
    done
    failed "$what: '$*' gives '$("$@")' and not '$text'"
}

await_answers() { await "1 2" value A paths_answer && await "1 2" value B paths_answer; }

more_messages() { outlive_await $(($(outlive_come) + 500)) || failed "$what: no messages"; }

# cut_once HOST CABLE HOW: after the cut both hosts must use the other path, and messages must come
cut_once() {
    local lines
    lines=$(wc -l <"$WORK/client.log")
    cut "$1" "$2" "$3" on
    await $((3 - $2)) value A path
    await $((3 - $2)) value B path
    more_messages
    outlive_gap "$lines" >>"$WORK/gaps.$3"
    cut "$1" "$2" "$3" off
    await_answers
}

# traffic LINK WORDS [WAY...]: cut cables; for each WAY also end vipd A by WAY while path 1 is cut
traffic() {
    local host how cable i
    what="$1, ${2:-queues}"
    outlive_begin "" "$2" || failed "$what: $WRONG"
    await_answers
    for i in $(seq "$cuts"); do
        host=$([ $((i / 2 % 2)) = 0 ] && echo A || echo B)
        how=$([ "$1" = ether ] || [ $((i % 3)) = 0 ] && echo down || echo silent)
        cable=$(value A path)
        # Each host itself returns to path 1 after 10 s of answers there. So wait for both hosts.
        await "$cable" value B path
        cut_once $host "$cable" $how
    done
    # The next vipd starts while path 1 is cut, and reads B's other address from A's file `paths`.
    how=$([ "$1" = ether ] && echo down || echo silent)
    for i in "${@:3}"; do
        await 1 value A path
        await 1 value B path
        await 128 stat -c %s "$WORK/A/paths"
        cut B 1 $how on
        await 2 value A path
        await 2 value B path
        outlive_again A "$i" || failed "$what: $WRONG"
        cut B 1 $how off
        await_answers
    done
    outlive_finish || failed "$what: $WRONG"
    echo "$what, $cuts cuts: $(tail -n 1 "$WORK/client.log")"
}

for cable in 1 2; do
    [ $cable = 1 ] || ip link add "$(device A 2)" netns "$NS_A" type veth peer name "$(device B 2)" netns "$NS_B" ||
        failed "no second cable"
    for host in A B; do
        dev=$(device $host $cable)
        [ $cable = 1 ] || in_namespace "${ns[$host]}" ip addr add "$(address_on $host 2)/24" dev "$dev"
        in_namespace "${ns[$host]}" ip link set "$dev" up
    done
done
declare -A address=([A]=10.77.0.1 [B]=10.77.0.2)
what="start"
for link in udp ether; do
    for host in A B; do
        if [ $link = udp ]; then
            DAEMON_NIC="link = udp
port = $port
paths = $(address_on $host 1) $(address_on $host 2)"
        else
            DAEMON_NIC="link = ether
paths = $(device $host 1) $(device $host 2)"
        fi
        daemon_start $host - - "[reliability]" "outlive = 60s" "conn_timeout = 60s" "peer_dead = 60s" || exit 1
        await "up 2" nic_state $host
    done
    [ $link = udp ] || address=([A]=$(mac A 1) [B]=$(mac B 1))
    traffic $link "rr"
    traffic $link "cq write read" SIGKILL SIGTERM takeover
    for host in A B; do
        daemon_stop $host
    done
done
for how in down silent; do
    sort -n "$WORK/gaps.$how" | awk -v how=$how '{ ms[NR] = $1 }
        END { printf "%s: no message for %.0f ms (median of %d), %.0f ms at most\n", how, ms[int((NR + 1) / 2)], NR, ms[NR] }'
done
echo "paths: all messages arrived, once and in order"
