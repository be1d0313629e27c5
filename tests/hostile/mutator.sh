#!/usr/bin/env bash
# Hostile programs (mutator.c: evil, storm, ask) beside a checked victim in one vipd: vipd lives and leaks
# nothing, the victim's data is intact, and it keeps at least 80 % of its rate.
#
# Of which rate? Beside a control process that burns a processor and does not use vipd at all (spin): an
# attacker takes processor time like any other program, and on a machine with few processors that alone
# costs the victim something; what it costs beyond that is the harm that vipd lets through. Attacker and
# control run in short slots by turns while one transfer of the victim goes on (share.c); each pair of
# neighbouring slots gives a ratio, and the median of the ratios is judged: a machine that is busy
# otherwise moves both slots of a pair. If the median of 8 pairs is below the mark, up to 16 more are
# taken, and the median of all decides.
# usage: mutator.sh BUILD_DIR [PAIRS [SLOT_MS [SEED [KIND...]]]]     long form: mutator.sh build/asan 1000 2000
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
pairs=${2:-8}
slot_ms=${3:-150}
seed=${4:-$RANDOM}
kinds=("${@:5}")
[ ${#kinds[@]} -gt 0 ] || kinds=(evil storm ask)
settle_ms=30
busy_percent=50
. scripts/daemons.sh
. tests/hostile/lib.sh
trap hostile_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
take_processors
port=$((20000 + $$ % 12000))
daemon_start A 127.0.0.1 $port || exit 1
start_in A "$WORK/serve.log" "$build/tools/vipperf" serve
sleep 0.5
echo "seed $seed"
bad=0
transfer=(A "127.0.0.1:$port")

# Once for what a first use leaves (caches of the allocator), then the state to come back to.
in_host A "$build/tests/hostile/mutator" evil 1 "$seed" >/dev/null
in_host A "$build/tests/hostile/mutator" storm 0.2 "$seed" >/dev/null
in_host A "$build/tests/hostile/mutator" ask 0.2 "$seed" >/dev/null
victim "${transfer[@]}" 1 >/dev/null
sleep 0.5
inventory A >"$WORK/before"
memory=$(memory_kb A)

start_in A "$WORK/spin.log" $ATTACK_CPU "$build/tests/hostile/mutator" spin 3600 "$seed"
control=$STARTED
for kind in "${kinds[@]}"; do
    start_in A "$WORK/$kind.log" $ATTACK_CPU "$build/tests/hostile/mutator" $kind 3600 $((seed + 1))
    attack=$STARTED
    keeps_share $kind 80 A "$control" "$attack" "${transfer[@]}" || bad=1
    attack_ends "$attack" || bad=1
    cat "$WORK/$kind.log"
done
attack_ends "$control"
inventory_back A "$WORK/before" || bad=1
grown=$(($(memory_kb A) - memory))
echo "memory of vipd grew by $grown KiB"
case $build in
*asan*) ;; # keeps what is freed
*) [ $grown -le 8192 ] || { echo "FAILED: more than 8 MiB"; bad=1; } ;;
esac
kill -TERM "${DAEMON_PID[A]}"
wait "${DAEMON_PID[A]}" || { echo "FAILED: vipd ended with status $?"; tail -n 30 "$WORK/A.log"; bad=1; }
unset "DAEMON_PID[A]"
exit $bad
