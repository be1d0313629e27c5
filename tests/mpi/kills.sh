#!/usr/bin/env bash
# No rank may hang. After a random time, an endless MPI job on two hosts loses a rank, a vipd, or
# the network. Within a minute all ranks and the launcher must have ended.
# usage: kills.sh BUILD_DIR [COUNT [SEED]]; the loss of the network needs root, and is left out otherwise
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
cd "$MPI_DIR/../.." || exit 1
build=$(realpath "${1:?build directory}")
count=${2:-10}
export FI_PROVIDER_PATH=$build/ofi
. scripts/daemons.sh
seed=${3:-$(own_seed kills)}
RANDOM=$seed
echo "seed $seed"
. tests/lib/namespaces.sh
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM
kinds=(rank vipd)
if namespaces_begin; then
    kinds+=(network)
fi

hosts() {
    daemons_begin "$build/vipd"
    port_take || exit 1
    if [ ${#kinds[@]} -eq 3 ]; then
        # shellcheck disable=SC2034
        NETNS_A=$NS_A NETNS_B=$NS_B
        daemon_start A 10.77.0.1 "$port" && daemon_start B 10.77.0.2 "$port" || exit 1
    else
        daemon_start A 127.0.0.1 "$port" && daemon_start B 127.0.0.2 "$port" || exit 1
    fi
    export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B
}

# The ranks of our job: processes of mpitest with our runtime folders.
ranks_of_job() {
    local pid
    for pid in $(pgrep -x mpitest); do
        # The process may end while we read.
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qx "VIPD_RUNTIME_DIR_A=$WORK/A" && echo "$pid"
    done
}

one_kill() { # one_kill KIND
    local launcher victims left
    MPI_TIMEOUT=120 ompi 4 "$build/tests/mpi/mpitest" endless >"$WORK/job.log" 2>&1 </dev/null &
    launcher=$!
    for _ in $(seq 600); do
        grep -q 'endless' "$WORK/job.log" && break
        sleep 0.1
    done
    sleep "0.$((RANDOM % 1000 + 1000))"
    case $1 in
    rank)
        mapfile -t victims < <(ranks_of_job)
        kill -KILL "${victims[RANDOM % ${#victims[@]}]}"
        ;;
    vipd) daemon_stop "$([ $((RANDOM % 2)) -eq 0 ] && echo A || echo B)" KILL ;;
    network) in_namespace "$NS_A" ip link set "va$$" down ;;
    esac
    for _ in $(seq 600); do
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 "$launcher" 2>/dev/null; then
        echo "the launcher still runs a minute later"
        kill "$launcher"
        bad=1
    fi
    wait "$launcher"
    # A job that lost something must not report success.
    [ $? -ne 0 ] || { echo "the job says that it was successful"; bad=1; }
    left=$(ranks_of_job)
    if [ -n "$left" ]; then
        echo "ranks left over: $left"
        # shellcheck disable=SC2086
        kill -KILL $left
        bad=1
    fi
    [ "$1" != network ] || in_namespace "$NS_A" ip link set "va$$" up
}

for ((i = 1; i <= count; i++)); do
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    started=$SECONDS before=$bad
    hosts
    one_kill "$kind"
    if [ "$bad" -eq "$before" ]; then
        echo "   passed: $i of $count, $kind ($((SECONDS - started)) s)"
    else
        echo "   FAILED: $i of $count, $kind"
        tail -n 30 "$WORK/job.log"
    fi
    daemons_end
done
exit $bad
