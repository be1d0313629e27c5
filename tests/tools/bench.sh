#!/usr/bin/env bash
# The suite of bench/run. A short round of the message rates must give results.json, report.md, CSV,
# and a value for each measurement. The report must name goals that were not measured. Wrong usage
# must be refused. Restarts of vipd must give a table. Split-C's round needs an idle machine.
# usage: bench.sh BUILD_DIR [splitc]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
what=${2:-vipl}
work=$(mktemp -d)
bad=0
trap 'rm -rf "$work"' EXIT

wrong() {
    echo "FAILED: $*"
    bad=1
}

# This variable in the environment marks the processes that this suite starts.
export VIP_BENCH_TEST=$work
suite() { python3 -B bench/suite --build "$build" --out "$work/out" "$@" >"$work/log" 2>&1 </dev/null; }

round_of_vipl() {
    suite --list || wrong "--list"
    grep -q '^rate ' "$work/log" || wrong "--list does not name the groups: $(cat "$work/log")"
    suite --only dance && wrong "an unknown group is accepted"
    grep -q 'no group dance' "$work/log" || wrong "an unknown group: $(cat "$work/log")"

    suite --quick --rounds 1 --only rate,cost,both,data || wrong "a round: $(cat "$work/log")"
    [ "$(jq '[.measurements[].values[]] | length > 10 and all(. != null)' "$work/out/results.json")" = true ] ||
        wrong "not every measurement has a value: $(cat "$work/log")"
    [ "$(jq '.failures == [] and .machine.processors > 0 and .rounds == 1' "$work/out/results.json")" = true ] ||
        wrong "the frame of results.json"
    grep -q '| 8 B messages per second | kernel UDP' "$work/out/report.md" || wrong "no goals in the report"
    grep -q '| 64 B half round trip, polling | libfabric.* | ≤ 1.0 | - | not measured |' "$work/out/report.md" ||
        wrong "no goal against a reliable protocol over UDP"
    grep -q 'not measured' "$work/out/report.md" || wrong "goals that were not measured are not told"
    grep -q 'register 4 KiB, fresh' "$work/out/report.md" || wrong "no calls in the report"
    grep -q 'register 1024 KiB, VipxAllocMem' "$work/out/report.md" || wrong "no registrations of shared memory"
    [ "$(jq '[.measurements[].command | select(test("(^| )/.*vipperf"))] | length' "$work/out/results.json")" = 0 ] ||
        wrong "commands with the path of this checkout: $(grep '"command"' "$work/out/results.json" | head -n 3)"
    grep -q '^| loop | send | 1,048,576 | .* | MB/s | ' "$work/out/report.md" || wrong "no bandwidth both ways in the report"
    if ! grep -q '^\* network veth:' "$work/out/report.md"; then
        grep -q '^| veth | half round trip, 16 KiB, segments | 16 | .* | us | .* | 1 segment | ' "$work/out/report.md" ||
            wrong "no segments in the report: $(cat "$work/out/report.md")"
        grep -q '^| veth | half round trip, 16 KiB, buffers registered each | 64 | .* | registered together | ' \
            "$work/out/report.md" || wrong "no buffers in the report: $(cat "$work/out/report.md")"
    fi
    [ "$(grep -c '^rate,' "$work/out/results.csv")" -ge 10 ] || wrong "results.csv: $(cat "$work/out/results.csv")"
}

round_of_splitc() {
    suite --only splitc --quick --rounds 1 || wrong "Split-C: $(cat "$work/log")"
    [ "$(jq '[.measurements[].values[]] | length > 20 and all(. != null)' "$work/out/results.json")" = true ] ||
        wrong "not every measurement of Split-C has a value: $(cat "$work/log")"
    grep -q '^| loop: read of a word | raw VIPL round trip | ≤ 1.15 | [0-9.]* |' "$work/out/splitc.md" ||
        wrong "no goals of Split-C"
    [ "$(grep -cE '^\| (char|short|int|long|float|double)( \| [0-9.,]+){6} \|$' "$work/out/splitc.md")" -ge 6 ] ||
        wrong "no operations of Split-C: $(cat "$work/out/splitc.md")"
}

# Ends of vipd under traffic must give a table. The test does not judge the times in the table.
restarts() {
    python3 -B bench/suite/restarts.py --build "$build" --out "$work/out" --times 2 >"$work/log" 2>&1 ||
        wrong "restarts: $(cat "$work/log")"
    [ "$(grep -cE '^\| (killed|stopped|taken over from) \([a-zA-Z -]*\) \| 2( \| [0-9]+\.[0-9]){4} \|$' "$work/out/restarts.md")" = 3 ] &&
        grep -qE '^\| start-up of a vipd.* \| 6( \| [0-9]+\.[0-9]){3} \| 1\.0 \|$' "$work/out/restarts.md" &&
        grep -q ' processors, Linux ' "$work/out/restarts.md" ||
        wrong "no table of restarts: $(cat "$work/log" "$work/out/restarts.md")"
    [ "$(jq '.ms | [.SIGKILL, .SIGTERM, .takeover, .START] | map(length) == [2, 2, 2, 6]' "$work/out/restarts.json")" = true ] ||
        wrong "no values of restarts"
}

if [ "$what" = splitc ]; then
    round_of_splitc
else
    round_of_vipl
    restarts
fi
for file in $(grep -lzxF "VIP_BENCH_TEST=$work" /proc/[0-9]*/environ 2>/dev/null); do
    [ "$(readlink "${file%/environ}/exe")" = "$build/vipd/vipd" ] && wrong "a vipd is left behind"
done

[ $bad -eq 0 ] && echo "bench: one round, report, JSON and CSV"
exit $bad
