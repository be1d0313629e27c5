#!/usr/bin/env bash
# Runs a conformance program (of those that mostly wait) over several links at the same time, each
# link with its own vipd. Shows the output of failed runs. Exit status 1 if a run failed. Otherwise
# 77, with the reason, if this machine cannot use one of the links.
# usage: side_by_side.sh BUILD_DIR PROGRAM LINK...
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
program=$2
shift 2
work=$(mktemp -d)
runs=()
failed=0
skipped=0
trap 'rm -rf "$work"' EXIT
# Each run stops its own processes.
trap 'kill "${runs[@]}" 2>/dev/null; wait; exit 130' INT TERM

for link in "$@"; do
    "$root/tests/lib/two_vipd.sh" "$build" "$link" "$program" >"$work/$link" 2>&1 </dev/null &
    runs+=($!)
done
for link in "$@"; do
    wait "${runs[0]}"
    case $? in
    0)
        echo "$link: $(grep -c '^\[       OK' "$work/$link") tests passed," \
            "$(grep -c '^\[  REASON' "$work/$link") say why they make no sense there"
        ;;
    77)
        echo "$link: $(grep -i skip "$work/$link" | head -n 1)"
        skipped=1
        ;;
    *)
        echo "$link: FAILED"
        cat "$work/$link"
        failed=1
        ;;
    esac
    runs=("${runs[@]:1}")
done
[ $failed -eq 0 ] || exit 1
[ $skipped -eq 0 ] || exit 77
