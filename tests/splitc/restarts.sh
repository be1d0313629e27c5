#!/usr/bin/env bash
# Jobs of Split-C on two hosts must lose nothing, although each vipd ends several times meanwhile.
# usage: restarts.sh BUILD_DIR [TIMES]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
times=${2:-3}
. scripts/daemons.sh
. tests/lib/restarts.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM

restarts_begin "$build" || exit 1
flags=()
sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
[ -z "$sanitize" ] || flags=("-fsanitize=$sanitize")
"$build/splitc/splitcc" -w -O1 "${flags[@]}" -o "$WORK/restarts" tests/splitc/restarts.sc || exit 1
for processes in 2 3; do
    restarted "$times" "$build/tools/amrun" -n $processes tests/am/host.sh "$WORK/restarts" || {
        echo "FAILED: a job of $processes"
        exit 1
    }
done
echo "restarts: jobs of 2 and 3 processes went on"
