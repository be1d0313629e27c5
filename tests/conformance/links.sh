#!/usr/bin/env bash
# The conformance suite on other links than those of doc/conformance.md: every program on each LINK
# (udp6, lo, ether, jumbo; see tests/lib/two_vipd.sh), one after the other, with its time. All of them
# take some minutes; ctest runs a part. Exit status 1 if any failed; links that cannot be had here are
# said to be skipped.
# usage: links.sh BUILD_DIR [LINK...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath "${1:?build directory}")
shift
[ $# -gt 0 ] || set -- udp6 lo ether jumbo
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM
passed=0
failed=0
skipped=0

for link in "$@"; do
    for source in "$here"/conf_*.c; do
        name=$(basename "$source" .c)
        # Nothing but names of hosts; the loop link knows those of one host only.
        [ "$link $name" != "lo conf_names" ] || continue
        export VIP_MAY_DIE="" VIP_NIC_LINES=""
        case $name in
        *death* | *gone*) VIP_MAY_DIE=1 ;;
        *silence*) VIP_NIC_LINES=$'[reliability]\nconn_timeout = 800ms\npeer_dead = 2s\nkeepalive = 500ms' ;;
        esac
        started=$SECONDS
        timeout 300 "$root/tests/lib/two_vipd.sh" "$build" "$link" "$build/tests/conformance/$name" \
            >"$log" 2>&1 </dev/null
        case $? in
        0)
            passed=$((passed + 1))
            echo "$link $name: $(grep -c '^\[       OK' "$log") tests passed, $((SECONDS - started)) s"
            ;;
        77)
            skipped=$((skipped + 1))
            echo "$link: $(grep -i skip "$log" | head -n 1)"
            break
            ;;
        *)
            failed=$((failed + 1))
            echo "$link $name: FAILED"
            grep -aE 'ERROR|FAILED|died|---' "$log" | head -n 20
            ;;
        esac
    done
done
echo "$passed passed, $failed failed, $skipped links skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
