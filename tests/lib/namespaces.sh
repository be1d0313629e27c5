# Two network namespaces joined by a veth pair, for tests that need root. Sourced by bash.
#   namespaces_begin    makes $NS_A (10.77.0.1) and $NS_B (10.77.0.2); 77 = skip, says why
#   namespaces_end      removes both (and with them the veth pair)

NS_A=vip-a-$$
NS_B=vip-b-$$

namespaces_begin() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "skipped: network namespaces need root"
        return 77
    fi
    if ! ip netns add "$NS_A" 2>/tmp/vip-ns.$$; then
        echo "skipped: this machine refuses network namespaces: $(cat /tmp/vip-ns.$$)"
        rm -f /tmp/vip-ns.$$
        return 77
    fi
    rm -f /tmp/vip-ns.$$
    ip netns add "$NS_B" &&
        ip link add "va$$" netns "$NS_A" type veth peer name "vb$$" netns "$NS_B" &&
        ip -n "$NS_A" addr add 10.77.0.1/24 dev "va$$" &&
        ip -n "$NS_B" addr add 10.77.0.2/24 dev "vb$$" &&
        ip -n "$NS_A" link set lo up && ip -n "$NS_B" link set lo up &&
        ip -n "$NS_A" link set "va$$" up && ip -n "$NS_B" link set "vb$$" up
}

namespaces_end() {
    ip netns del "$NS_A" 2>/dev/null
    ip netns del "$NS_B" 2>/dev/null
}
