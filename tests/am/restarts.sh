#!/usr/bin/env bash
# Jobs of Active Messages on two hosts must lose nothing, although each vipd ends several times.
# usage: restarts.sh BUILD_DIR PROGRAM [TIMES]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
program=${2:?program}
times=${3:-3}
. scripts/daemons.sh
. tests/lib/restarts.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM

restarts_begin "$build" || exit 1
for job in 2:poll 3:block; do
    restarted "$times" "$build/tools/amrun" -n ${job%:*} tests/am/host.sh "$program" ${job#*:} until "$STOP" || {
        echo "FAILED: a job of ${job%:*}, mode ${job#*:}"
        exit 1
    }
done
echo "restarts: jobs of 2 and 3 processes went on"
