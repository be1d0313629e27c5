# Frames that vipd must drop: for one frame of each kind, exactly one of all counters of drops must rise. Sourced
# by bash, after namespaces.sh and daemons.sh; needs $frames and $vipctl, and calls `failed WHAT`.
#   bad_frames DEVICE MAC HOST [SEEN]  DEVICE of $NS_A sends to MAC, the address of HOST's vip0.
#                                      SEEN vlan: HOST is in a VLAN, DEVICE is not; then vipd drops
#                                      most kinds because they have no tag
#   bad_frame DEVICE MAC HOST COUNTER KIND...  send these kinds; only COUNTER may rise, and by 1 in
#                                              all
# The kind `oversized` is for a network with jumbo frames.

drops() { # drops HOST: print "COUNTER VALUE" lines
    in_host "$1" "$vipctl" --json show stats | jq -r '.counters[] | select(.scope == "nic:vip0" and
        (.name | test("^drop_|^rx_truncated$|^rx_errors$|^cm_malformed$"))) | "\(.name) \(.value)"' | sort
}

bad_frame() {
    local device=$1 mac=$2 host=$3 counter=$4 before after rose
    shift 4
    before=$(drops "$host")
    in_namespace "$NS_A" "$frames" bad "$device" "$mac" "$@" || failed "sending bad frames: $*"
    for _ in $(seq 1200); do
        after=$(drops "$host")
        [ "$after" = "$before" ] || break
        sleep 0.05
    done
    rose=$(join <(echo "$before") <(echo "$after") | awk '$3 != $2 {print $1, $3 - $2}')
    [ "$rose" = "$counter 1" ] || failed "a bad frame ($*) should count as $counter, and counts as: $rose"
}

bad_frames() {
    local device=$1 mac=$2 host=$3 seen=${4-} kind
    while read -r kind counter; do
        [ -z "$seen" ] || [ "$kind" = group ] || counter=drop_frame_$seen
        bad_frame "$device" "$mac" "$host" "$counter" "$kind"
    done <<END
short drop_frame_short
magic drop_frame_header
version drop_frame_header
empty drop_frame_length
longer drop_frame_length
runt drop_short
crc drop_crc
stranger drop_unknown_conn
group drop_frame_mac
vlan drop_frame_vlan
END
    # The kernel hides frames of a foreign EtherType from vipd, so only the frame `group` counts.
    bad_frame "$device" "$mac" "$host" drop_frame_mac ethertype group
}
