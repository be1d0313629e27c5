#!/usr/bin/env bash
# MPI jobs on two hosts must have right results, although each vipd ends several times meanwhile.
# usage: restarts.sh BUILD_DIR [TIMES]
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
cd "$MPI_DIR/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-5}
export FI_PROVIDER_PATH=$build/ofi MPI_TIMEOUT=900
. scripts/daemons.sh
. tests/lib/restarts.sh
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
trap daemons_end EXIT
trap 'exit 130' INT TERM

restarts_begin "$build" || exit 1
export MPITEST_STOP=$STOP
for ranks in 2 4; do
    run "$ranks ranks" restarted "$times" ompi $ranks "$build/tests/mpi/mpitest" endless
    MPI_NATIVE=1 run "$ranks ranks, native" restarted "$times" ompi $ranks "$build/tests/mpi/mpitest" endless
done
exit $bad
