#!/usr/bin/env bash
# MPI jobs on two hosts go on, and their results are right, although each vipd ends five times meanwhile: by SIGKILL,
# by SIGTERM and by vipd --takeover ([reliability] outlive).
# usage: restarts.sh BUILD_DIR [TIMES]
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
cd "$MPI_DIR/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-5}
export FI_PROVIDER_PATH=$build/ofi MPI_TIMEOUT=900
. scripts/daemons.sh
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
trap daemons_end EXIT
trap 'exit 130' INT TERM
ways=(KILL TERM takeover)

another() {
    if [ "$2" = takeover ]; then
        daemon_takeover "$1"
        return
    fi
    daemon_stop "$1" "$2"
    daemon_run "$1"
}

# The round that the job has reached.
at() { sed -n 's/^at \([0-9]*\)$/\1/p' "$WORK/job.log" | tail -n 1; }

# await ROUND: the job reaches it
await() {
    local come
    for _ in $(seq 6000); do
        come=$(at)
        [ "${come:-0}" -lt "$1" ] || return 0
        kill -0 "$launcher" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# restarted RANKS: the job, with the ends of vipd
restarted() {
    local n host
    rm -f "$MPITEST_STOP"
    ompi "$1" "$build/tests/mpi/mpitest" endless >"$WORK/job.log" 2>&1 </dev/null &
    launcher=$!
    track $launcher
    await 20 || { cat "$WORK/job.log"; return 1; }
    for ((n = 0; n < times; n++)); do
        for host in A B; do
            another $host "${ways[n % 3]}" || return 1
            await $(($(at) + 30)) || { echo "no more rounds after ${ways[n % 3]} of $host"; cat "$WORK/job.log"; return 1; }
        done
    done
    touch "$MPITEST_STOP"
    wait $launcher || { cat "$WORK/job.log"; return 1; }
    grep -q '^mpitest: 1 parts passed on' "$WORK/job.log"
}

daemons_begin "$build/vipd"
port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "[reliability]" "outlive = 30s" || exit 1
done
export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B MPITEST_STOP=$WORK/stop
run "2 ranks" restarted 2
MPI_NATIVE=1 run "2 ranks, native" restarted 2
VIPL_DIRECT=0 run "4 ranks, without rings" restarted 4
VIPL_DIRECT=0 MPI_NATIVE=1 run "4 ranks, native, without rings" restarted 4
exit $bad
