#!/usr/bin/env bash
# The Wireshark dissector must show every test vector of the wire format with its fields and without
# a warning, in UDP and in Ethernet frames. It must mark a truncated packet.
# usage: dissector.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
for tool in tshark text2pcap; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed (package tshark)"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

wrong() {
    echo "FAILED: $*"
    bad=1
}

# bytes FILE: print the vector as pairs of hexadecimal digits
bytes() { sed 's/#.*//' "$1" | tr -s ' \n' '  '; }
# dump BYTES...: print the bytes in the format of text2pcap
dump() { printf '000000 %s\n\n' "$*"; }
show() { # show PCAP TSHARK ARGUMENTS...
    local pcap=$1
    shift
    tshark -X lua_script:tools/wireshark/vipd.lua -r "$pcap" "$@" 2>"$work/err"
    grep -qi 'lua.*error\|error.*lua' "$work/err" && wrong "$(cat "$work/err")"
}

types=$(grep -c '^    VIP_CM_[A-Z_]* = [0-9]*,' proto/wire.h)
count=0
for vector in tests/vectors/*.hex; do
    hex=$(bytes "$vector")
    # shellcheck disable=SC2086
    set -- $hex
    dump "$@" >>"$work/udp.txt"
    dump 56 11 "$(printf '%02x' $(($# % 256)))" "$(printf '%02x' $(($# / 256)))" "$@" >>"$work/ether.txt"
    count=$((count + 1))
done
text2pcap -q -u 4794,4794 "$work/udp.txt" "$work/udp.pcap" 2>"$work/err" || wrong "$(cat "$work/err")"
text2pcap -q -e 0x88b5 "$work/ether.txt" "$work/ether.pcap" 2>"$work/err" || wrong "$(cat "$work/err")"
for pcap in "$work/udp.pcap" "$work/ether.pcap"; do
    name=$(basename "$pcap")
    show "$pcap" -T fields -e vipd.version -e vipd.cm.type -e vipd.frame.type -e vipd.frame.imm -e vipd.frame.payload \
        -e vipd.range -e vipd.frame.message -e _ws.expert.message -e _ws.col.Info >"$work/fields"
    [ "$(cut -f 1 "$work/fields" | grep -c 1)" -eq $count ] || wrong "$name: not every packet is known: $(cat "$work/fields")"
    [ -z "$(cut -f 8 "$work/fields" | tr -d '\n')" ] || wrong "$name: complaints about good packets: $(cut -f 8 "$work/fields")"
    [ "$(cut -f 2 "$work/fields" | grep . | sort -nu | wc -l)" -eq $types ] || wrong "$name: not every type of CM message"
    [ "$(cut -f 3 "$work/fields" | tr ',' '\n' | grep . | sort -nu | wc -l)" -eq 5 ] || wrong "$name: not every type of frame"
    grep -q '0x00000000deadbeef.*68656c6c6f.*7 to 8.*SEND op=9 0+5/5' "$work/fields" ||
        wrong "$name: data_send is not shown as it is: $(cat "$work/fields")"
done
# A packet cut after 80 bytes.
head -n 1 "$work/udp.txt" | cut -d ' ' -f 1-81 >"$work/cut.txt"
text2pcap -q -u 4794,4794 "$work/cut.txt" "$work/cut.pcap" 2>/dev/null
show "$work/cut.pcap" -Y vipd.short | grep -q . || wrong "a packet that is cut is not called so"

[ $bad -eq 0 ] && echo "dissector: $count vectors in UDP and in Ethernet frames"
exit $bad
