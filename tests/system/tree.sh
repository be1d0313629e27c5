#!/usr/bin/env bash
# Rules of doc/contributing.md for the source tree: file sizes, layout, no generated files, no TODO.
# usage: tree.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
files=$(find ofi proto vipd libvipl job am splitc tools tests examples -name '*.c' -o -name '*.h' | sort)

# shellcheck disable=SC2086
while read -r lines file; do
    case $file in
    # Headers of tests also have code, which several programs include.
    *.c | tests/*) limit=1000 ;;
    *) limit=400 ;;
    esac
    case $file in
    total) continue ;;
    # One header has the whole interface of the specification; most of its lines are comments.
    libvipl/vipl.h) limit=450 ;;
    esac
    if [ "$lines" -gt "$limit" ]; then
        echo "$file: $lines lines, the limit is $limit"
        bad=1
    fi
done < <(wc -l $files)
# shellcheck disable=SC2086
if grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $files; then
    echo "the lines above look unfinished"
    bad=1
fi
if find proto vipd libvipl job am splitc tools tests examples -name '*.pb-c.[ch]' | grep .; then
    echo "generated files lie in the source tree"
    bad=1
fi
if command -v clang-format >/dev/null; then
    # examples/hello.c is a page of the README and is laid out by hand.
    files=$(grep -v '^examples/hello.c$' <<<"$files")
    if ! changed=$(xargs -P2 -n 100 clang-format --dry-run --Werror <<<"$files" 2>&1); then
        grep -oE '^[^:]+:[0-9]+' <<<"$changed" | sort -u | head -n 20
        echo "clang-format would change the places above (clang-format -i FILE)"
        bad=1
    fi
fi
# The program in the README is the one that the tests compile and run.
if ! diff <(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d') examples/hello.c; then
    echo "README.md (<) and examples/hello.c (>) differ"
    bad=1
fi
[ $bad -eq 0 ] && echo "tree: sizes, layout and words are as agreed"
exit $bad
