#!/usr/bin/env bash
# Line coverage of proto/ and vipd/engine/ by the unit tests, the simulator and the fuzz corpora:
#
#   tests/coverage.sh [--lines] [BUILD_DIR]
#
# Builds with gcc --coverage (default: build/coverage), runs ctest with the labels unit, sim and fuzz,
# and sums up gcov's files. --lines: also each line that nothing has run. Exit status 0 only if both
# parts together reach GOAL percent and every test passed. Needs nothing but gcc's own gcov.
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/common.sh

GOAL=92
FOLDERS="proto vipd/engine"

lines=no
if [ "${1-}" = --lines ]; then
    lines=yes
    shift
fi
case "${1-}" in
-*) die "usage: tests/coverage.sh [--lines] [BUILD_DIR]" ;;
esac
mkdir -p "${1:-build/coverage}" || exit 2
build=$(cd "${1:-build/coverage}" && pwd)
source_dir=$PWD

if ! { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=gcc \
    -DCMAKE_C_FLAGS="--coverage -O1" && cmake --build "$build"; } >"$build/build.log" 2>&1; then
    tail -n 40 "$build/build.log" >&2
    die "the coverage build fails"
fi
find "$build" -name '*.gcda' -delete
# The same seeds every time, so that figures can be compared.
export VIP_SEED=${VIP_SEED:-1}
result=0
# The planted bugs are other builds of the engine, and what looks at the tree runs nothing of it.
ctest --test-dir "$build" -L 'unit|sim|fuzz' -E '^(sim_mutants|boxes|symbols|tree|header)$' -j 2 >"$build/ctest.log" 2>&1 </dev/null || result=1
sed -n '/tests passed/p; /(Failed)/p; /(Timeout)/p; /(Not Run)/p' "$build/ctest.log"

# gcov once per object, because the same source is built into more than one library. Its text has one
# line "count: number: source" per line; "#####" is a line that was never run, "-" is none.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$build/proto" "$build/vipd" "$build/libvipl" -name '*.gcda' | while read -r data; do
    (cd "$work" && gcov --preserve-paths --object-directory "$(dirname "$data")" "$data") \
        >/dev/null 2>&1
    for text in "$work"/*.gcov; do
        [ -e "$text" ] && cat "$text" >>"$work/all" && rm -f "$text"
    done
done
[ -s "$work/all" ] || die "gcov said nothing"

awk -F: -v root="$source_dir/" -v folders="$FOLDERS" -v goal=$GOAL -v list=$lines '
    # A source line may hold colons: only the first two fields matter.
    $3 == "Source" {
        file = $4
        sub(root, "", file)
        wanted = 0
        n = split(folders, folder, " ")
        for (i = 1; i <= n; i++)
            if (file ~ "^" folder[i] "/[^/]*[.][ch]$")
                wanted = 1
        next
    }
    wanted && $2 + 0 > 0 {
        count = $1
        gsub(/[ *]/, "", count)
        if (count == "-")
            next
        at = file SUBSEP ($2 + 0)
        if (!(at in seen)) {
            seen[at] = 1
            total[file]++
            text[at] = $0
        }
        if (count !~ /^[#=]+$/ && !(at in run)) {
            run[at] = 1
            hit[file]++
        }
    }
    END {
        for (file in total) {
            printf "%-28s %5d of %5d lines  %5.1f %%\n", file, hit[file], total[file],
                100 * hit[file] / total[file] | "sort"
            all += total[file]
            done += hit[file]
        }
        close("sort")
        printf "%-28s %5d of %5d lines  %5.1f %%\n", "together", done, all, 100 * done / all
        if (list == "yes") {
            for (at in seen)
                if (!(at in run)) {
                    split(at, part, SUBSEP)
                    line = text[at]
                    sub(/^[^:]*:[^:]*:/, "", line)
                    printf "%s:%d: %s\n", part[1], part[2], line | "sort -t: -k1,1 -k2,2n"
                }
            close("sort -t: -k1,1 -k2,2n")
        }
        exit 100 * done / all < goal
    }' "$work/all" || result=1
exit $result
