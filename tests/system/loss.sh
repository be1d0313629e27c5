#!/usr/bin/env bash
# Bulk data and many messages over a network that loses packets, every byte compared. Two namespaces
# joined by veth when root, two loopback addresses else; loss by the `fault` link on both sides.
# usage: loss.sh BUILD_DIR [VOLUME [MESSAGES]]    (defaults suit ./check; 1G and 100000 are the long form)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
volume=${2:-256M}
messages=${3:-10000}
. scripts/daemons.sh
. tests/lib/namespaces.sh

VIPD=$build/vipd/vipd
vipperf=$build/tools/vipperf
port=$((20000 + $$ % 12000))
bad=0
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM

namespaces_begin
case $? in
0)
    NETNS_A=$NS_A
    NETNS_B=$NS_B
    host_a=10.77.0.1
    host_b=10.77.0.2
    where="two namespaces"
    ;;
77)
    host_a=127.0.0.1
    host_b=127.0.0.2
    where="two loopback addresses"
    ;;
*) exit 1 ;;
esac

run() { # run WHAT ARGUMENTS...
    local what=$1 started=$SECONDS
    shift
    if timeout 900 env VIPD_RUNTIME_DIR="$WORK/A" $(host_prefix A) "$vipperf" "$@" --verify \
        --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &&
        grep -q '"verified": true' "$WORK/result.json"; then
        echo "$what: verified, $((SECONDS - started)) s: $(tail -n 1 "$WORK/run.log")"
    else
        echo "FAILED $what:"
        tail -n 20 "$WORK/run.log" "$WORK/A.log" "$WORK/B.log" "$WORK/serve.log"
        bad=1
    fi
}

for loss in 0 1 10; do
    rm -rf "$WORK"
    daemons_begin
    faults=()
    [ $loss -eq 0 ] || faults=("faults = loss=$loss%,seed=42")
    daemon_start A $host_a $port ${faults+"${faults[@]}"} || exit 1
    daemon_start B $host_b $port ${faults+"${faults[@]}"} || exit 1
    VIPD_RUNTIME_DIR=$WORK/B $(host_prefix B) "$vipperf" serve >"$WORK/serve.log" 2>&1 &
    track $!
    sleep 0.3
    amount=$volume
    count=$messages
    if [ $loss -eq 10 ]; then # much slower: a small part is enough
        amount=16M
        count=$((messages / 20))
    fi
    for op in send write; do
        for wait in poll block; do
            run "$where, loss $loss%, $amount by $op, $wait" bw $host_b --op $op --wait $wait \
                --size 1048576 --bytes $amount
        done
    done
    run "$where, loss $loss%, $count messages of random sizes" bw $host_b --op send \
        --size 1048576 --random-sizes --iters "$count"
    daemons_end
done

[ $bad -eq 0 ] && echo "loss: everything arrived, in order and intact"
exit $bad
