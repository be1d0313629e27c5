# Two network namespaces joined by a veth pair, for tests that need root. Sourced by bash.
#   namespaces_begin         makes $NS_A (10.77.0.1, device va$$) and $NS_B (10.77.0.2, device vb$$);
#                            prints why and returns 77 if namespaces are not possible here
#   in_namespace NS COMMAND  run a command in a namespace
#   namespaces_end           removes both namespaces (and with them the veth pair)
#
# Commands enter by nsenter. `ip netns exec` would also remount /sys. That fails where / is not a
# mount point, for example in a chroot.

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/own.sh"

# Use no name that an interrupted test with the same process id has left.
for ((NS_TRY = 0; ; NS_TRY++)); do
    NS_A=vip-a-$$-$NS_TRY
    NS_B=vip-b-$$-$NS_TRY
    [ -e "/run/netns/$NS_A" ] || [ -e "/run/netns/$NS_B" ] || break
done

in_namespace() {
    local name=$1
    shift
    nsenter --net="/run/netns/$name" "$@"
}

namespaces_begin() {
    local refused
    if [ "$(id -u)" -ne 0 ]; then
        echo "skipped: network namespaces need root"
        return 77
    fi
    run_note namespaces "$NS_A"
    run_note namespaces "$NS_B"
    if ! refused=$(ip netns add "$NS_A" 2>&1); then
        echo "skipped: this machine refuses network namespaces: $refused"
        return 77
    fi
    ip netns add "$NS_B" &&
        ip link add "va$$" netns "$NS_A" type veth peer name "vb$$" netns "$NS_B" &&
        in_namespace "$NS_A" ip addr add 10.77.0.1/24 dev "va$$" &&
        in_namespace "$NS_B" ip addr add 10.77.0.2/24 dev "vb$$" &&
        in_namespace "$NS_A" ip link set lo up && in_namespace "$NS_B" ip link set lo up &&
        in_namespace "$NS_A" ip link set "va$$" up && in_namespace "$NS_B" ip link set "vb$$" up
}

namespaces_end() {
    ip netns del "$NS_A" 2>/dev/null
    ip netns del "$NS_B" 2>/dev/null
}
