#!/usr/bin/env bash
# Run an example of examples/ and check that it reports no error. Run by two_vipd.sh.
# usage: examples.sh KIND PROGRAM, KIND is credits, gnping, peers or notify
set -u
kind=$1
program=$2
pids=()
bad=0

at() { # at SIDE ARGUMENTS...: start the program with the vipd of SIDE
    local dir=VIPD_RUNTIME_DIR_$1
    shift
    VIPD_RUNTIME_DIR=${!dir} timeout 600 "$program" "$@" &
    pids+=($!)
}

case $kind in
credits)
    at B server
    at A client "$VIP_ADDRESS_B"
    ;;
gnping)
    at B
    at A "$VIP_ADDRESS_B"
    ;;
notify)
    at B server 4
    for _ in 1 2 3; do
        at A client "$VIP_ADDRESS_B"
    done
    at B client "$VIP_ADDRESS_B"
    ;;
peers)
    # The peers are threads of one process, and so use one vipd. For udp start a vipd with two NICs.
    if [ "$VIP_LINK" = udp ]; then
        # shellcheck source=/dev/null
        . "$(dirname "$0")/../../scripts/daemons.sh"
        trap daemons_end EXIT
        VIPD=$(readlink "/proc/$VIP_PID_A/exe")
        export VIPD
        daemons_begin
        port_take && daemon_start C 127.0.0.3 "$port" "[nic:vip1]" "link = udp" "address = 127.0.0.4" \
            "port = $port" || exit 1
        export VIPD_RUNTIME_DIR_C=$WORK/C
        at C /dev/via_eth0 /dev/via_eth1
    else
        at A
    fi
    ;;
esac
for pid in "${pids[@]}"; do
    wait "$pid" || bad=1
done
exit $bad
