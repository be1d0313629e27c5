#!/usr/bin/env bash
# Tests each diagnostic of the translator once. Comments in the files of diag/ have the expected
# messages, in order, each as "want: LINE:COLUMN: KIND: TEXT". Other files must cause no message.
# usage: diag.sh BUILD_DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?build directory}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here/diag" || exit 1
bad=0
count=0

for file in *.sc; do
    sed -n 's|^/\* want: \(.*\) \*/$|\1|p' "$file" >"$work/want"
    "$build/splitc/splitcc" -c -o "$work/out.o" "$file" 2>"$work/err"
    status=$?
    sed -n "s/^$file:\([0-9]*:[0-9]*: [a-z]*: .*\)/\1/p" "$work/err" >"$work/got"
    count=$((count + $(wc -l <"$work/want")))
    if ! diff "$work/want" "$work/got" >"$work/diff"; then
        echo "$file: wanted (<) and got (>):"
        cat "$work/diff"
        bad=1
    fi
    if grep -q ': error: ' "$work/want"; then
        [ $status -ne 0 ] || { echo "$file: accepted"; bad=1; }
    elif [ $status -ne 0 ]; then
        echo "$file: refused:"
        cat "$work/err"
        bad=1
    fi
done
echo "diag: $count messages"
[ $count -ge 30 ] || bad=1
exit $bad
