#!/usr/bin/env bash
# Contents and order while the paths of a message change at random: direct rings or none (with rings, each message
# takes one way or the other), segmentation offload on and off, one vipd or two, packets lost or not. The choices of
# each round follow from the seed alone.
# usage: paths.sh BUILD_DIR CONF_DIRECT ROUNDS [SEED]
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:?build directory}")
program=${2:?conf_direct}
rounds=${3:?rounds}
seed=${4:-1}
RANDOM=$seed
bad=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
yes_no=(yes no)
links=(udp udp lossy loop lo)
unset VIP_NIC_LINES
for ((round = 0; round < rounds; round++)); do
    link=${links[RANDOM % 5]}
    gso=${yes_no[RANDOM % 2]}
    gro=${yes_no[RANDOM % 2]}
    direct=${yes_no[RANDOM % 2]}
    lines="[engine]
direct = $direct"
    # Only a link that has packets has these settings.
    [ "$link" = lo ] || lines="gso = $gso
gro = $gro
$lines"
    what="round $round of seed $seed: $link, gso $gso, gro $gro, direct $direct"
    if ! VIP_NIC_LINES=$lines "$here/tests/lib/two_vipd.sh" "$build" "$link" "$program" \
        every_message_either_way >"$out" 2>&1; then
        echo "FAILED: $what"
        cat "$out"
        bad=1
    elif ! grep -q '\[  PASSED  \] 1 test' "$out"; then
        echo "FAILED: $what: no test has run"
        cat "$out"
        bad=1
    else
        echo "$what"
    fi
done
exit $bad
