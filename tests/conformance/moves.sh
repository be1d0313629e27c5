#!/usr/bin/env bash
# Checked traffic (tests/lib/outlive.c) while the data path of the connection moves at random, every
# few messages, between vipd and the programs at both ends.
# usage: moves.sh BUILD_DIR [MESSAGES [WORDS]]     WORDS: of both ends; default: one way after another
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:?build directory}")
messages=${2:-10000}
outlive=$build/tests/system/outlive

# Number of loans that both vipd have made. On a busy machine the first one comes late.
lent() {
    local dir
    for dir in "$VIPD_RUNTIME_DIR_A" "$VIPD_RUNTIME_DIR_B"; do
        VIPD_RUNTIME_DIR=$dir "$build/tools/vipctl" show stats name~loans_lent
    done | awk '$2 == "loans_lent" { sum += $3 } END { print sum + 0 }'
}

# The script calls itself below two_vipd.sh.
traffic() {
    local server client come
    # shellcheck disable=SC2086
    VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_B "$outlive" server $1 >"$VIP_WORK/server.log" 2>&1 &
    server=$!
    for _ in $(seq 1200); do
        grep -q ready "$VIP_WORK/server.log" && break
        sleep 0.05
    done
    # shellcheck disable=SC2086
    "$outlive" client "$VIP_ADDRESS_B" "$VIP_WORK/stop" $1 >"$VIP_WORK/client.log" 2>&1 &
    client=$!
    while kill -0 $client 2>/dev/null; do
        come=$(sed -n 's/^at \([0-9]*\) .*/\1/p' "$VIP_WORK/client.log" | tail -n 1)
        [ "${come:-0}" -lt "$messages" ] || [ "$(lent)" -eq 0 ] || touch "$VIP_WORK/stop"
        sleep 0.05
    done
    if wait $client && wait $server && ! grep -h FAILED "$VIP_WORK/client.log" "$VIP_WORK/server.log"; then
        tail -n 1 "$VIP_WORK/client.log"
        return 0
    fi
    tail -n 5 "$VIP_WORK/client.log" "$VIP_WORK/server.log"
    kill $server 2>/dev/null
    return 1
}

if [ -n "${VIP_WORK-}" ]; then
    traffic "${3-}"
    exit
fi
if [ $# -gt 2 ]; then
    all=("$3")
else
    all=("" "poll" "poll write" "rr poll read" "cq write" "small" "fork poll")
fi
export VIP_LOANS=random VIP_LOANS_LEAST=1
for words in "${all[@]}"; do
    echo "words: $words"
    "$here/tests/lib/two_vipd.sh" "$build" udp "$0" "$build" "$messages" "$words" || exit 1
done
