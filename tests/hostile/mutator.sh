#!/usr/bin/env bash
# A hostile program (mutator.c) beside a checked victim in one vipd: vipd lives and leaks nothing, the
# victim's data is intact, and its rate is at least 80 % of its rate beside a program that only takes
# as much processor time and does not use vipd at all. That is the strictest fair comparison: beside a
# legal program that posts as fast as its descriptors complete (VIP_TWIN=busy) the victim is slower.
# Rounds of both kinds alternate, medians are compared.
# usage: mutator.sh BUILD_DIR [ROUNDS [SECONDS [SEED]]]     long form: mutator.sh build/asan 300 6
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-3}
seconds=${3:-1}
seed=${4:-$RANDOM}
. scripts/daemons.sh
. tests/hostile/lib.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
port=$((20000 + $$ % 12000))
share=${VIP_RATE_SHARE:-80} # per cent that the victim must keep
daemon_start A 127.0.0.1 $port || exit 1
in_host A "$build/tools/vipperf" serve >"$WORK/serve.log" 2>&1 &
track $!
sleep 0.5
echo "seed $seed"

beside() { # beside KIND SEED: prints the victim's rate
    local pid rate
    in_host A "$build/tests/hostile/mutator" "$1" "$((seconds + 1))" "$2" >"$WORK/mutator.log" 2>&1 &
    pid=$!
    sleep 0.3
    rate=$(victim A "127.0.0.1:$port" "$seconds")
    wait "$pid" || echo "mutator $1: status $?" >&2
    cat "$WORK/mutator.log" >&2
    echo "${rate:-0}"
}

# Once for what a first use leaves (caches of the allocator), then the state to come back to.
beside evil "$seed" >/dev/null
victim A "127.0.0.1:$port" 1 >/dev/null
sleep 0.5
inventory A >"$WORK/before"
memory=$(memory_kb A)

# A busy machine may spoil one comparison; wrong data or a dead vipd never passes.
bad=1
for try in 1 2 3; do
    plain=() evil=()
    for ((i = 0; i < rounds; i++)); do
        plain+=("$(beside "${VIP_TWIN:-spin}" $((seed + i)))")
        evil+=("$(beside evil $((seed + 1000 * try + i)))")
        [ "${evil[-1]}" -gt 0 ] && [ "${plain[-1]}" -gt 0 ] && continue
        echo "FAILED: the victim beside the program:"
        tail -n 20 "$WORK/victim.log" "$WORK/A.log"
        exit 1
    done
    a=$(median "${plain[@]}") b=$(median "${evil[@]}")
    echo "victim beside ${VIP_TWIN:-spin}: $((a / 1000000)) MB/s, beside the hostile program: $((b / 1000000)) MB/s"
    if [ $((b * 100)) -ge $((a * share)) ]; then
        bad=0
        break
    fi
done
[ $bad -eq 0 ] || echo "FAILED: less than $share %"
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
