#!/usr/bin/env bash
# Hostile programs (mutator.c: evil, storm, drain, bulk, ask) of one user, beside a victim of
# another user at the same vipd. vipd must live and leak nothing, the victim's data must be intact,
# and the victim must get its due time.
#
# The due time is half of vipd's processor time in turns in which several sessions have work, and
# which leave work of the victim waiting (spent.c). The victim must get 80 % of it; beside "bulk",
# which takes all time that it can get, 90 %. vipd's own account gives the times, and the kernel's
# account confirms them. So the machine's speed and other load only change the length of the test.
# "ask" has no session; its requests may take half of the time.
# usage: mutator.sh BUILD_DIR [NEED_MS [SEED [KIND...]]]     long form: mutator.sh build/asan 10000
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
need_ms=${2:-300}
kinds=("${@:4}")
[ ${#kinds[@]} -gt 0 ] || kinds=(evil storm drain bulk ask)
limit_s=1800
. scripts/daemons.sh
seed=${3:-$(own_seed mutator)}
. tests/hostile/lib.sh
trap hostile_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
as_victim=()
as_evil=()
if [ "$(id -u)" -eq 0 ]; then
    as_victim=(setpriv --reuid 20001 --regid 20001 --clear-groups)
    as_evil=(setpriv --reuid 20002 --regid 20002 --clear-groups)
else
    echo "(not root: victim and attacker are of one user, whose sessions share as users do)"
fi
for_others "$build" "$build/tools/vipperf" "$build/tests/hostile/mutator" || exit 1
port_take || exit 1
daemon_start A 127.0.0.1 $port || exit 1
start_in A "$WORK/serve.log" "${as_victim[@]}" "$OTHERS/vipperf" serve
server=$STARTED
sleep 0.5
echo "seed $seed"
bad=0

# Verified data between two programs of the victim, until they are stopped. With the large window
# the victim nearly always has work waiting. The test cannot judge a victim that needs little time.
victim_starts() {
    local tries
    start_in A "$WORK/victim.log" "${as_victim[@]}" "$OTHERS/vipperf" bw "127.0.0.1:$port" --verify --size 16K --window 500 \
        --duration 3600s
    client=$STARTED
    for tries in $(seq 300); do
        [ "$(in_host A "$build/tools/vipctl" show vi --json |
            jq "([.vis[] | select(.pid == $client) | .tx_messages] | add) >= 1000")" = true ] && return 0
        sleep 0.1
    done
    echo "FAILED: the victim does not begin"
    cat "$WORK/victim.log" "$WORK/serve.log"
    return 1
}

# The victim must have run until now: a wrong byte ends it.
victim_ends() {
    if ! kill -0 "$client" 2>/dev/null; then
        echo "FAILED: the victim has ended:"
        tail -n 20 "$WORK/victim.log" "$WORK/A.log"
        return 1
    fi
    kill -TERM "$client"
    wait "$client" 2>/dev/null
    return 0
}

# Judges "ask". After each look at busy sockets vipd does other work, or sleeps, for at least the
# same time. So requests take at most half of the time; on a busy machine much less.
asks_judged() { # asks_judged ATTACK_PID: the attack must run until the function returns
    local a b start spent=0
    a=$(date +%s%N)
    start=$(stat_of A request_time)
    while [ $((spent / 1000000)) -lt "$need_ms" ]; do
        kill -0 "$1" 2>/dev/null || { echo "FAILED: the attack has ended"; return 1; }
        sleep 0.2
        spent=$(($(stat_of A request_time) - start))
    done
    b=$(date +%s%N)
    echo "ask: $((spent / 1000000)) ms of processor time for requests in $(((b - a) / 1000000)) ms"
    [ $((spent * 2)) -le $((b - a)) ] || { echo "FAILED: more than half"; return 1; }
}

# Run each kind once before vipd's state is recorded, because a first use fills allocator caches.
for kind in evil storm drain bulk ask; do
    in_host A "${as_evil[@]}" "$OTHERS/mutator" $kind 0.5 "$seed" >/dev/null
done
victim_starts || exit 1
victim_ends || bad=1
sleep 0.5
inventory A >"$WORK/before"
memory=$(memory_kb A)

for kind in "${kinds[@]}"; do
    many=1
    least=80
    [ $kind != bulk ] || { many=6; least=90; }
    victim_starts || exit 1
    attack=()
    for i in $(seq $many); do
        start_in A "$WORK/$kind.$i.log" "${as_evil[@]}" "$OTHERS/mutator" $kind 3600 $((seed + i))
        attack+=("$STARTED")
    done
    if [ $kind = ask ]; then
        asks_judged "${attack[0]}" || bad=1
    else
        printf '%s: ' $kind
        in_host A "$build/tests/hostile/spent" "${DAEMON_PID[A]}" "$need_ms" $limit_s $least "$client" "$server" || bad=1
    fi
    victim_ends || bad=1
    kill -TERM "${attack[@]}"
    for i in $(seq $many); do
        wait "${attack[i - 1]}" || bad=1
        cat "$WORK/$kind.$i.log"
    done
done
inventory_back A "$WORK/before" || bad=1
grown=$(($(memory_kb A) - memory))
echo "memory of vipd grew by $grown KiB"
case $build in
*asan*) ;; # AddressSanitizer keeps freed memory
*) [ $grown -le 8192 ] || { echo "FAILED: more than 8 MiB"; bad=1; } ;;
esac
kill -TERM "${DAEMON_PID[A]}"
wait "${DAEMON_PID[A]}" || { echo "FAILED: vipd ended with status $?"; tail -n 30 "$WORK/A.log"; bad=1; }
unset "DAEMON_PID[A]"
exit $bad
