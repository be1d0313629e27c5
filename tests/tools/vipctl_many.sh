#!/usr/bin/env bash
# vipctl lists 10,000 VIs of a busy vipd: the list must be complete, with no VI twice. Also measures
# the cost of a row, in instructions, because times depend more on the machine. vipd makes a page of
# rows between two turns of its NICs, and the whole list should take at most 200 ms.
# usage: vipctl_many.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipctl=$build/tools/vipctl
vipperf=$build/tools/vipperf
manyvis=$build/tests/tools/manyvis
bad=0

# Instructions for a row: about 3,500 in vipd, about 20,000 in vipctl.
VIPD_ROW_MAX=6000
VIPCTL_ROW_MAX=35000
# Instructions of vipd for a page: some 0.3 ms. After a longer page vipd reads requests late.
VIPD_PAGE_MAX=2500000

VIPD=$build/vipd/vipd
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM
export VIPD_RUNTIME_DIR=$WORK/A

wrong() {
    echo "FAILED: $*"
    bad=1
}

start_vipd() {
    port_take && daemon_start A 127.0.0.1 "$port" || exit 1
}

# many PAIRS: make this number of pairs of VIs; $MANY is the process id of their program
many() {
    mkfifo "$WORK/stdin.$1"
    "$manyvis" "$1" <"$WORK/stdin.$1" >"$WORK/many.log" 2>&1 &
    MANY=$!
    track $MANY
    exec 7>"$WORK/stdin.$1" # the VIs stay until this descriptor is closed
    for _ in $(seq 1200); do
        grep -q . "$WORK/many.log" && break
        sleep 0.1
    done
    grep -qx ready "$WORK/many.log" && return
    echo "FAILED: manyvis: $(cat "$WORK/many.log")"
    exit 1
}

# instructions FILE: print the sum that callgrind wrote
instructions() { awk '/^(summary|totals):/ { n = $2 } END { print n + 0 }' "$1"; }

# ---- cost of a row ---------------------------------------------------------------------------

rows=600
DAEMON_AS="valgrind -q --tool=callgrind --callgrind-out-file=$WORK/vipd.out --toggle-collect=show_page_new
    --toggle-collect=show_page_free"
start_vipd
unset DAEMON_AS
many $((rows / 2))
valgrind -q --tool=callgrind --callgrind-out-file="$WORK/vipctl.out" "$vipctl" --json show vi \
    >"$WORK/rows.json" 2>"$WORK/err" || wrong "show vi: $(cat "$WORK/err")"
exec 7>&-
wait "$MANY"
daemon_stop A
[ "$(jq '.vis | length' "$WORK/rows.json")" -eq $rows ] || wrong "not $rows rows: $(head -c 300 "$WORK/rows.json")"
vipd_row=$(($(instructions "$WORK/vipd.out") / rows))
vipctl_row=$(($(instructions "$WORK/vipctl.out") / rows))
page=$(($(sed -n 's/^#define ROWS_MAX \([0-9]*\)$/\1/p' vipd/ctl/page.c) * vipd_row))
echo "A row costs vipd $vipd_row instructions, vipctl $vipctl_row; a page costs vipd $page."
[ $vipd_row -gt 500 ] && [ $vipd_row -le $VIPD_ROW_MAX ] || wrong "vipd: not 500 to $VIPD_ROW_MAX instructions a row"
[ $vipctl_row -le $VIPCTL_ROW_MAX ] || wrong "vipctl: more than $VIPCTL_ROW_MAX instructions a row"
[ $page -le $VIPD_PAGE_MAX ] || wrong "vipd: more than $VIPD_PAGE_MAX instructions a page"

# ---- 10,000 VIs and traffic ------------------------------------------------------------------

start_vipd
many 5000
"$vipperf" serve >"$WORK/serve.log" 2>&1 </dev/null &
track $!
"$vipperf" bw "$("$vipctl" -rn -o address show nic)" --size 64 --duration 600 >"$WORK/client.log" 2>&1 </dev/null &
client=$!
track $client
for _ in $(seq 600); do
    [ "$("$vipctl" -rn show vi "pid=$client" 'tx_messages>100' | grep -c .)" -ge 1 ] && break
    sleep 0.1
done
times=()
for _ in $(seq 11); do
    start=$(date +%s%N)
    "$vipctl" --json show vi >"$WORK/rows.json" 2>"$WORK/err" || wrong "show vi: $(cat "$WORK/err")"
    times+=($((($(date +%s%N) - start) / 1000000)))
done
jq -e "[.vis[] | select(.program == \"manyvis\" and .state == \"VIP_STATE_CONNECTED\") | [.client, .vi]] |
    length == 10000 and (unique | length) == 10000" "$WORK/rows.json" >/dev/null ||
    wrong "not every VI once: $(head -c 300 "$WORK/rows.json")"
kill -0 $client 2>/dev/null || wrong "the traffic ended: $(cat "$WORK/client.log")"
mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
echo "The list of 10,000 VIs of a busy vipd took ${times[0]} to ${times[10]} ms, in the middle ${times[5]} ms."
[ $bad -eq 0 ] && echo "vipctl_many: everything as expected"
exit $bad
