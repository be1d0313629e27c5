#!/usr/bin/env bash
# The library of job/ under amrun, MPICH's mpiexec, Open MPI's mpirun, and without a launcher:
# ranks, gathered bytes, barriers, and the end of a job that loses a process.
# usage: job.sh BUILD_DIR
set -u
build=$(realpath "${1:?build directory}")
amrun=$build/tools/amrun
jobs=$build/tests/am/jobs
bad=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The job is on one host, so tell mpirun not to look for ssh, which may be missing.
export OMPI_MCA_plm=isolated
# libpmix does not free all of its memory. The leak sanitizer must ignore this.
export LSAN_OPTIONS=suppressions=$(cd "$(dirname "$0")" && pwd)/pmix.supp:print_suppressions=0

fail() {
    echo "FAILED: $*"
    sed 's/^/   | /' "$log"
    bad=1
}

# expect STATUS TEXT COMMAND...: the command must end with this status within ten minutes, and print TEXT.
expect() {
    local status=$1 text=$2 got
    shift 2
    timeout 600 "$@" >"$log" 2>&1 </dev/null
    got=$?
    [ "$got" = "$status" ] || fail "$* ended with $got instead of $status"
    [ -z "$text" ] || grep -q -- "$text" "$log" || fail "$* did not say: $text"
}

# nonzero COMMAND...: the command must end within ten minutes, and not with 0.
nonzero() {
    timeout 600 "$@" >"$log" 2>&1 </dev/null
    case $? in
    0 | 124) fail "$* ended with 0 or not at all" ;;
    esac
}

good() { # good N LAUNCHER COMMAND...
    local n=$1 by=$2 rank
    shift 2
    expect 0 "" "$@" "$jobs" good
    for ((rank = 0; rank < n; rank++)); do
        grep -q "rank $rank of $n by $by" "$log" || fail "$*: rank $rank of $n by $by is missing"
    done
}

good 1 alone env -u PMI_FD
for n in 1 2 3 8; do
    good $n pmi "$amrun" -n $n
done
good 2 pmi "$amrun" -n 2 --
expect 5 "process 1 (pid [0-9]*) exited with status 5; ending the job" "$amrun" -n 3 "$jobs" exit 1 5
expect 137 "process 2 (pid [0-9]*) was killed by signal 9 (Killed); ending the job" \
    "$amrun" -n 3 "$jobs" kill 2
expect 6 "amrun: process 0: as the test wants it; ending the job" "$amrun" -n 3 "$jobs" abort 0 6
expect 0 "" "$amrun" -n 3 "$jobs" abort 1 0
expect 1 "process 0 has ended while process [12] waits" "$amrun" -n 3 "$jobs" leave 0
expect 127 "no-such-program: No such file" "$amrun" -n 8 no-such-program
[ "$(grep -c 'No such file' "$log")" = 1 ] || fail "amrun says more than once that there is no such program"

# amrun prints a message that all processes send only once. Stop amrun until all have sent theirs.
lines() { # lines N TEXT: wait until N lines of the log have TEXT, at most a minute
    for _ in $(seq 1200); do
        [ "$(grep -c "$2" "$log")" -ge "$1" ] && return
        sleep 0.05
    done
    fail "not $1 lines of $2"
}
mark=$(mktemp -u)
"$amrun" -n 4 "$jobs" complain "$mark" >"$log" 2>&1 </dev/null &
pid=$!
lines 4 ready
kill -STOP $pid
: >"$mark"
lines 4 said
kill -CONT $pid
wait $pid
[ $? = 3 ] || fail "the job does not end with 3"
[ "$(grep -c 'all of us say this' "$log")" = 1 ] || fail "amrun does not say one error once"
grep -qx "amrun: processes 0-3: all of us say this; ending the job" "$log" || fail "amrun does not name the processes"
rm -f "$mark"
expect 2 usage "$amrun" -n 0 "$jobs"
expect 2 usage "$amrun" -n 2
expect 2 "at most 512" "$amrun" -n 513 "$jobs"
expect 0 usage "$amrun" --help
expect 0 amrun "$amrun" --version
expect 0 "" "$amrun" -n 2 sh -c 'test "$PMI_SIZE" = 2'

# If a process of the job has started a program, this program must end with the job.
mark=$(mktemp -u)
expect 3 "" "$amrun" -n 2 sh -c 'if [ $PMI_RANK = 0 ]; then sleep 1000 & echo $! >'"$mark"'; wait; else
    while [ ! -s '"$mark"' ]; do sleep 0.05; done; exit 3; fi'
for _ in $(seq 1200); do
    kill -0 "$(cat "$mark")" 2>/dev/null || break
    sleep 0.05
done
kill -0 "$(cat "$mark")" 2>/dev/null && { kill "$(cat "$mark")"; fail "a grandchild lives on"; }
rm -f "$mark"

if command -v mpiexec.hydra >/dev/null; then
    mpiexec=(mpiexec.hydra -launcher fork)
    good 4 pmi "${mpiexec[@]}" -n 4
    nonzero "${mpiexec[@]}" -n 3 "$jobs" exit 1 5
    nonzero "${mpiexec[@]}" -n 3 "$jobs" kill 1
    expect 6 "" "${mpiexec[@]}" -n 3 "$jobs" abort 1 6
else
    echo "MPICH's mpiexec.hydra is missing (package mpich)"
    bad=1
fi
if command -v mpirun.openmpi >/dev/null; then
    mpirun=(mpirun.openmpi --oversubscribe)
    good 4 pmix "${mpirun[@]}" -n 4
    nonzero "${mpirun[@]}" -n 3 "$jobs" exit 1 5
    nonzero "${mpirun[@]}" -n 3 "$jobs" kill 1
    expect 6 "" "${mpirun[@]}" -n 3 "$jobs" abort 1 6
else
    echo "Open MPI's mpirun.openmpi is missing (package openmpi-bin)"
    bad=1
fi
[ $bad -eq 0 ] && echo "job: amrun, mpiexec and mpirun start and end jobs as they should"
exit $bad
