#!/usr/bin/env bash
# Runs an AM program as jobs of several sizes. Run by two_vipd.sh; even ranks use its vipd A, odd ranks B.
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
