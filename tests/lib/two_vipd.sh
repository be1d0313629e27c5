#!/usr/bin/env bash
# Run a program against running vipd: "udp": two of them, on 127.0.0.1 and 127.0.0.2; "loop": one, in
# which both ends meet; "lossy": udp with 5 % of the packets lost and 1 % corrupted, each way (then
# VIP_LOSS is set, VIP_LINK is udp). The program finds VIPD_RUNTIME_DIR_A, VIPD_RUNTIME_DIR_B,
# VIP_ADDRESS_A, VIP_ADDRESS_B (host:port for VipNSGetHostByName), VIP_PID_A, VIP_PID_B, VIP_LINK. Everything is
# stopped afterwards, the daemons' logs are shown if the program fails, and a daemon that has died
# meanwhile is a failure too (unless the program was told to kill it: VIP_MAY_DIE=1).
# usage: two_vipd.sh BUILD_DIR udp|loop|lossy PROGRAM [ARGUMENTS]
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:?build directory}")
link=${2:?udp, loop or lossy}
lines=()
if [ "$link" = lossy ]; then
    link=udp
    lines+=("faults = loss=5%,corrupt=1%,seed=${VIP_LOSS_SEED:-42}")
    export VIP_LOSS=1
fi
[ -z "${VIP_NIC_LINES-}" ] || lines+=("$VIP_NIC_LINES")
shift 2
# shellcheck source=/dev/null
. "$here/scripts/daemons.sh"

trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"

start_pair() {
    local names
    port=$((20000 + ($$ + 997 * try) % 12000))
    names=("[names]" "node-a = 127.0.0.1:$port" "node-b.example.org = 127.0.0.2:$port")
    daemon_start A 127.0.0.1 "$port" ${lines+"${lines[@]}"} "${names[@]}" || return
    [ "$link" = loop ] || daemon_start B 127.0.0.2 "$port" ${lines+"${lines[@]}"} "${names[@]}"
}

# Another test may have the port: then another one is tried.
for try in 1 2 3 4 5; do
    start_pair && break
    [ "$try" -lt 5 ] || exit 1
    daemon_stop A
    daemon_stop B
done
export VIPD_RUNTIME_DIR_A=$WORK/A VIP_ADDRESS_A=127.0.0.1:$port VIP_PID_A=${DAEMON_PID[A]}
if [ "$link" = udp ]; then
    export VIPD_RUNTIME_DIR_B=$WORK/B VIP_ADDRESS_B=127.0.0.2:$port VIP_PID_B=${DAEMON_PID[B]}
else
    export VIPD_RUNTIME_DIR_B=$WORK/A VIP_ADDRESS_B=$VIP_ADDRESS_A VIP_PID_B=$VIP_PID_A
fi
export VIP_LINK=$link VIPD_RUNTIME_DIR=$WORK/A VIP_WORK=$WORK

"$@"
result=$?
for name in "${!DAEMON_PID[@]}"; do
    if [ -z "${VIP_MAY_DIE-}" ] && ! kill -0 "${DAEMON_PID[$name]}" 2>/dev/null; then
        echo "vipd $name died meanwhile" >&2
        result=1
    fi
done
if [ "$result" -ne 0 ]; then
    for log in "$WORK"/*.log; do
        echo "--- $log" >&2
        tail -n 40 "$log" >&2
    done
fi
exit "$result"
