#!/usr/bin/env bash
# Contents and order of messages with random settings: direct rings (then each message passes the
# ring or vipd) or none, segmentation offload on or off, one vipd or two, with or without lost
# packets. The settings of each round follow from the seed.
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
    # The link lo sends no packets and does not have these settings.
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
