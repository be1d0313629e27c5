#!/usr/bin/env bash
# vipl.h and vipl_ext.h compile without a warning in every language they must be valid in, with and
# without VIPL095, and both descriptor spellings, self-defining names and initializers work.
set -u
include=$(cd "$(dirname "$0")/../../libvipl" && pwd)
source=$(cd "$(dirname "$0")" && pwd)/header_use.c
bad=0
count=0

try() { # try COMPILER LANGUAGE STANDARD
    command -v "$1" >/dev/null || { echo "skipped: no $1"; return; }
    for define in "" -DVIPL095; do
        count=$((count + 1))
        "$1" -x "$2" -std="$3" ${define:+"$define"} -Wall -Wextra -pedantic -Werror \
            -I"$include" -fsyntax-only "$source" || { echo "FAILED: $1 -std=$3 $define"; bad=1; }
    done
}

for standard in c89 gnu89 c99 gnu99 c11 gnu11 c2x; do
    try gcc c $standard
    try clang c $standard
done
for standard in c++98 c++11 c++20; do
    try g++ c++ $standard
    try clang++ c++ $standard
done
echo "$count compilations, $([ $bad = 0 ] && echo all good || echo some failed)"
exit $bad
