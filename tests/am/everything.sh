#!/usr/bin/env bash
# All combinations (ctest runs some): jobs of 1, 2, 3, 4 and 8 processes, polling and blocking, over
# loop, udp and udp with 2 % loss; each call alone; AM_PAR in one process and in jobs.
# usage: everything.sh BUILD_DIR [ROUNDS]     (rounds of the traffic program; 3 by default)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?build directory}")
rounds=${2:-3}
bad=0
runs=0

over() { # over LINK COMMAND...: run it in two_vipd.sh; "lossy" is udp with 2 % loss
    local link=$1 lines=""
    shift
    if [ "$link" = lossy ]; then
        link=udp lines="faults = loss=2%,seed=$((1000 + runs))"
    fi
    runs=$((runs + 1))
    VIP_NIC_LINES=$lines "$here/../lib/two_vipd.sh" "$build" "$link" "$@" || bad=1
}

jobs() { # jobs LINK MODE PROGRAM ARGUMENTS...
    local link=$1 mode=$2
    shift 2
    echo "== $link, $mode: $*"
    over "$link" "$here/matrix.sh" "$build" "1:$mode 2:$mode 3:$mode 4:$mode 8:$mode" "$@"
}

for link in loop udp lossy; do
    echo "== $link: every call"
    over "$link" "$build/tests/am/am_api" >/dev/null
    for mode in poll block; do
        jobs "$link" "$mode" "$build/tests/am/am_traffic" "$rounds"
        jobs "$link" "$mode" "$build/tests/am/am_threads" 2 60
    done
done
[ $bad -eq 0 ] && echo "everything: $runs runs, all good"
exit $bad
