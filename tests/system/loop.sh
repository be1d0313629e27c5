#!/usr/bin/env bash
# A NIC without a medium: two programs of one host connect through /dev/via_lo without a configured
# network, with and without faults. One vipd also serves three NICs with different links.
# usage: loop.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipperf=$build/tools/vipperf
bad=0
trap daemons_end EXIT
trap 'exit 130' INT TERM

run() { # run NIC HOST ARGUMENTS...
    local nic=$1 host=$2 command=$3
    shift 3
    if in_host A timeout 600 "$vipperf" "$command" "$host" --nic "$nic" "$@" --verify \
        --json "$WORK/result.json" >"$WORK/run.log" 2>&1 &&
        grep -q '"verified": true' "$WORK/result.json"; then
        echo "$nic, $command $*: verified"
    else
        echo "FAILED $nic, $command $*:"
        tail -n 20 "$WORK"/*.log
        bad=1
    fi
}

# several HOST: messages in several segments and buffers, and in both directions
several() {
    run vip0 "$1" lat --sizes 64:4096 --segments 5 --iters 300
    run vip0 "$1" bw --op write --size 40000 --segments 64 --buffers 16 --register each --iters 300
    run vip0 "$1" bw --both-ways --size 4096 --segments 3 --iters 1000
    run vip0 "$1" bw --both-ways --op write --size 100000 --iters 100
}

serve() { # serve NIC
    in_host A "$vipperf" serve --nic "$1" >"$WORK/serve.log" 2>&1 &
    track $!
}

for faults in none loss=1%,dup=1%,reorder=1%,corrupt=1%,seed=42; do
    daemons_begin "$build/vipd"
    VIPD=$build/vipd/vipd
    DAEMON_NIC="link = loop" daemon_start A - - "faults = $faults" || exit 1
    serve /dev/via_lo
    run /dev/via_lo localhost lat --iters 2000
    run vip0 "$(uname -n)" bw --size 65536 --random-sizes --iters 2000
    several localhost
    daemons_end
done

# Direct rings between the programs. Both programs send and receive at the same time.
daemons_begin "$build/vipd"
VIPD=$build/vipd/vipd
DAEMON_NIC="link = loop" daemon_start A - - "[engine]" "direct = yes" || exit 1
serve /dev/via_lo
several localhost
for wait in poll block; do
    run vip0 localhost bw --both-ways --size 64 --iters 5000 --wait $wait
    run vip0 localhost bw --both-ways --size 64 --iters 5000 --wait $wait --cq
done
daemons_end

daemons_begin "$build/vipd"
VIPD=$build/vipd/vipd
port_take || exit 1
DAEMON_NIC="link = loop" daemon_start A - - "[nic:vip1]" "address = 127.0.0.1" \
    "port = $port" "[nic:vip2]" "link = ether" "interface = vipnone0" || exit 1
serve /dev/via_lo
serve VINIC
run vip0 localhost lat --iters 500
run vip1 127.0.0.1 lat --iters 500
in_host A "$build/tools/vipctl" show nic >"$WORK/show.txt"
grep -qE '^vip2 +down \((no such interface|CAP_NET_RAW is missing)\) +ether' "$WORK/show.txt" || {
    echo "FAILED: vip2 should be down"
    cat "$WORK/show.txt"
    bad=1
}
if in_host A "$vipperf" lat localhost --nic vip2 >"$WORK/run.log" 2>&1 ||
    ! grep -q 'vip2 is down' "$WORK/run.log"; then
    echo "FAILED: a program should be told that vip2 is down: $(cat "$WORK/run.log")"
    bad=1
fi
[ $bad -eq 0 ] && echo "loop: programs of one host need no network"
exit $bad
