#!/usr/bin/env bash
# An AM program under amrun, MPICH's mpiexec and Open MPI's mpirun. The shell must get the exit code
# of AMX_SPMDExit, and a killed process must end the job. Run by two_vipd.sh.
# usage: launch.sh BUILD_DIR PROGRAM
set -u
build=$1
program=$2
here=$(cd "$(dirname "$0")" && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
export LSAN_OPTIONS=suppressions=$here/pmix.supp:print_suppressions=0
bad=0

fail() {
    echo "FAILED: $*"
    bad=1
}

launcher=()
for by in "$build/tools/amrun" "mpiexec.hydra -launcher fork" "mpirun.openmpi --oversubscribe"; do
    read -ra launcher <<<"$by"
    timeout 600 "${launcher[@]}" -n 4 "$here/host.sh" "$program" poll </dev/null || fail "$by -n 4: $program"
done
# job.sh tests the ends of jobs under the other launchers.
said=$(timeout 600 "$build/tools/amrun" -n 3 "$here/host.sh" "$program" exit 7 </dev/null 2>&1)
got=$?
[ $got -eq 7 ] || fail "AMX_SPMDExit(7) of one process gave $got"
grep -q "exit callback: 7" <<<"$said" || fail "AMX_SPMDExit did not call the callback: $said"
said=$(timeout 600 "$build/tools/amrun" -n 3 "$here/host.sh" "$program" late </dev/null 2>&1)
got=$?
[ $got -eq 0 ] || fail "a process that comes late to AMX_SPMDExit(0) gave $got: $said"
grep -q "the last one comes to its end" <<<"$said" || fail "the job has ended before its last process: $said"
timeout 600 "$build/tools/amrun" -n 3 "$here/host.sh" "$program" die </dev/null >/dev/null 2>&1
got=$?
[ $got -eq 137 ] || fail "a killed process gave $got instead of 137"
exit $bad
