#!/usr/bin/env bash
# The long form of the MPI tests (./check --mpi): all parts of mpitest and Debian's packaged
# programs. They run on one vipd, then on two vipd in namespaces joined by a veth pair, without and
# with 1 % loss. Then jobs lose a rank, a vipd or the network. Tests after the line "-- native"
# (with MPI_NATIVE=1 all tests) use the provider's own tag matching instead of ofi_rxm. Needs root.
# usage: long.sh BUILD_DIR
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
cd "$MPI_DIR/../.." || exit 1
build=$(realpath "${1:?build directory}")
mpitest=$build/tests/mpi/mpitest
export FI_PROVIDER_PATH=$build/ofi MPI_TIMEOUT=${MPI_TIMEOUT:-1200}
. scripts/daemons.sh
. tests/lib/namespaces.sh
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
for needed in hpcc lmp NPopenmpi mpirun.openmpi; do
    command -v $needed >/dev/null || {
        echo "$needed is not installed; ./check --mpi installs what is needed"
        exit 1
    }
done
trap 'daemons_end; namespaces_end' EXIT
trap 'exit 130' INT TERM

all_programs() {
    run "mpitest, 2 ranks, long messages and floods" ompi 2 "$mpitest" big
    run "mpitest, 4 ranks, long messages and floods" ompi 4 "$mpitest" big
    run "mpitest, 4 ranks, threads" ompi 4 "$mpitest" threads
    "$MPI_DIR/packaged.sh" "$build" 2 || bad=1
    "$MPI_DIR/packaged.sh" "$build" 4 || bad=1
}

native_programs() {
    local before=${MPI_NATIVE-}
    echo "-- native"
    export MPI_NATIVE=1
    run "mpitest, 4 ranks, long messages and floods" ompi 4 "$mpitest" big
    run "mpitest, 4 ranks, threads" ompi 4 "$mpitest" threads
    run "mpitest, 16 ranks" ompi 16 "$mpitest" wildcard modes flood collectives onesided splits
    "$MPI_DIR/packaged.sh" "$build" 4 || bad=1
    export MPI_NATIVE=$before
}

echo "== one vipd"
daemons_begin "$build/vipd"
port_take && daemon_start A 127.0.0.1 "$port" || exit 1
export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/A
all_programs
run "mpitest, 16 ranks" ompi 16 "$mpitest" wildcard modes flood collectives onesided splits
native_programs
daemons_end

namespaces_begin || exit 1
for faults in none loss=1%,seed=7; do
    echo "== two vipd in two namespaces, faults = $faults"
    daemons_begin "$build/vipd"
    # shellcheck disable=SC2034
    NETNS_A=$NS_A NETNS_B=$NS_B
    daemon_start A 10.77.0.1 24801 "faults = $faults" &&
        daemon_start B 10.77.0.2 24801 "faults = $faults" || exit 1
    export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B
    all_programs
    native_programs
    daemons_end
done
namespaces_end

echo "== vipd that end and come back"
"$MPI_DIR/restarts.sh" "$build" 5 || bad=1

echo "== ranks, vipd and networks that go away"
"$MPI_DIR/kills.sh" "$build" "${MPI_KILLS:-30}" || bad=1
echo "-- native"
MPI_NATIVE=1 "$MPI_DIR/kills.sh" "$build" "$((${MPI_KILLS:-30} / 2))" || bad=1
[ $bad -eq 0 ] && echo "tests/mpi/long.sh: everything passed" || echo "tests/mpi/long.sh: FAILED"
exit $bad
