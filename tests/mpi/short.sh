#!/usr/bin/env bash
# The short form of the tests of Open MPI, on two hosts: all parts of mpitest on 2 and 4 ranks, some
# on 16. Then some of them with the provider's own tag matching.
# usage: two_vipd.sh BUILD LINK short.sh BUILD_DIR MPITEST
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
build=$1
mpitest=$2
export FI_PROVIDER_PATH=$build/ofi
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
command -v mpirun.openmpi >/dev/null || {
    echo "skipped: mpirun.openmpi is not installed (Debian: openmpi-bin)"
    exit 77
}

run "mpitest, 2 ranks" ompi 2 "$mpitest" small
run "mpitest, 2 ranks, threads" ompi 2 "$mpitest" threads
if [ -z "${VIP_LOSS-}" ]; then
    run "mpitest, 4 ranks" ompi 4 "$mpitest" small
    FI_VIA_REFUSE_EVERY=3 run "mpitest, 3 ranks, every third call refused" ompi 3 "$mpitest" small
    run "mpitest, 16 ranks" ompi 16 "$mpitest" wildcard modes collectives onesided splits
fi
is_native() {
    local log
    log=$(FI_LOG_LEVEL=info FI_LOG_PROV=via ompi 2 "$mpitest" cancel 2>&1) || return
    [ "$(grep -c 'an endpoint that matches tags itself' <<<"$log")" -eq 2 ]
}
is_native && { echo "   FAILED: native without being asked"; bad=1; }
export MPI_NATIVE=1
run "mpitest, 2 ranks, native: it is" is_native
run "mpitest, 2 ranks, native" ompi 2 "$mpitest" small
if [ -z "${VIP_LOSS-}" ]; then
    run "mpitest, 2 ranks, threads, native" ompi 2 "$mpitest" threads
    FI_VIA_REFUSE_EVERY=3 run "mpitest, 3 ranks, every third post refused, native" ompi 3 "$mpitest" small
fi
exit $bad
