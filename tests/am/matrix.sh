#!/usr/bin/env bash
# Run an AM program as jobs of several sizes. Run by two_vipd.sh, over whose daemons the processes are
# spread: even ranks on A, odd ones on B.
# usage: matrix.sh BUILD_DIR "SIZE:MODE..." PROGRAM [ARGUMENT...]    (the mode is the first argument)
set -u
build=$1
jobs=$2
program=$3
shift 3
here=$(dirname "$0")
bad=0
for job in $jobs; do
    timeout 600 "$build/tools/amrun" -n "${job%:*}" "$here/host.sh" "$program" "${job#*:}" "$@" || {
        echo "FAILED: $(basename "$program") $* as a job of ${job%:*}, mode ${job#*:}, link $VIP_LINK"
        bad=1
    }
done
exit $bad
