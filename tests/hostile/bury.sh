#!/usr/bin/env bash
# A user's descriptors wait for the undertaker, which waits at a gate (slow_unmap.c). vipd must stop
# reading from this user, must meanwhile sleep and serve other users, and must read again when the
# gate opens. In a second run vipd is stopped while the descriptors wait.
# usage: bury.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: two users are needed (root)"
    exit 77
fi
. scripts/daemons.sh
. tests/hostile/lib.sh
VIPD=$build/vipd/vipd
# Open the gate, because a vipd that waits at the gate cannot end.
trap '[ -z "$WORK" ] || touch "$WORK/gate/go"; daemons_end' EXIT
trap 'exit 130' INT TERM
bad=0

failed() {
    echo "FAILED: $*"
    bad=1
}

bury_starts() { # returns when vipd no longer reads from bury
    rm -f "$WORK"/gate/*
    start_in A "$WORK/bury.log" setpriv --reuid 20002 --regid 20002 --clear-groups "$OTHERS/bury" "$WORK/gate"
    bury=$STARTED
    while [ ! -e "$WORK/gate/held" ] && kill -0 "$bury" 2>/dev/null; do
        sleep 0.05
    done
    [ -e "$WORK/gate/held" ] || { failed "vipd was not held back: $(cat "$WORK/bury.log")"; return 1; }
}

daemons_begin
for_others "$build" "$build/tests/hostile/bury" || exit 1
mkdir "$WORK/gate"
chmod 777 "$WORK/gate"
port_take || exit 1
for threads in 1 2; do
    DAEMON_AS="env LD_PRELOAD=$build/tests/system/libslow_unmap.so SLOW_UNMAP=$WORK/gate" \
        daemon_start A 127.0.0.1 $port "[engine]" "threads = $threads" || exit 1
    inventory A >"$WORK/before"
    bury_starts || exit 1
    cpu=$(cat "/proc/${DAEMON_PID[A]}"/task/*/schedstat | awk '{sum += $1} END {print int(sum / 1e6)}')
    sleep 2
    cpu=$(($(cat "/proc/${DAEMON_PID[A]}"/task/*/schedstat | awk '{sum += $1} END {print int(sum / 1e6)}') - cpu))
    echo "threads = $threads: $cpu ms of processor time in 2 s"
    [ $cpu -le 500 ] || failed "vipd works while it waits"
    in_host A "$build/tools/vipctl" show nic >/dev/null ||
        failed "another user is not served"
    touch "$WORK/gate/go"
    wait "$bury" || failed "bury: $(cat "$WORK/bury.log")"
    cat "$WORK/bury.log"
    inventory_back A "$WORK/before" || bad=1

    bury_starts || exit 1
    kill -TERM "${DAEMON_PID[A]}"
    wait "$bury" # vipd has closed bury's connections
    [ $? -eq 2 ] || failed "bury at the end of vipd: $(cat "$WORK/bury.log")"
    kill -0 "${DAEMON_PID[A]}" 2>/dev/null || failed "vipd ended while descriptors waited"
    touch "$WORK/gate/go"
    wait "${DAEMON_PID[A]}" || failed "vipd ended with status $?: $(tail -n 30 "$WORK/A.log")"
    unset "DAEMON_PID[A]"
done
exit $bad
