#!/usr/bin/env bash
# vipl.h and vipl_ext.h must compile without a warning in these standards of C and C++, with and
# without VIPL095: both spellings of descriptor members, names that are macros, initializers. With
# VIPL095 a program also checks that a descriptor initialized by position has the right values.
set -u
include=$(cd "$(dirname "$0")/../../libvipl" && pwd)
source=$(cd "$(dirname "$0")" && pwd)/header_use.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
c=0   # number of compilations as C, and as C++
cxx=0

try() { # try COMPILER LANGUAGE STANDARD
    command -v "$1" >/dev/null || { echo "skipped: no $1"; return; }
    for define in "" -DVIPL095; do
        if [ "$2" = c ]; then c=$((c + 1)); else cxx=$((cxx + 1)); fi
        "$1" -x "$2" -std="$3" ${define:+"$define"} -Wall -Wextra -pedantic -Werror \
            -I"$include" -fsyntax-only "$source" || { echo "FAILED: $1 -std=$3 $define"; bad=1; }
    done
    "$1" -x "$2" -std="$3" -DVIPL095 -DHEADER_POSITIONAL -I"$include" -o "$work/positional" "$source" &&
        "$work/positional" || { echo "FAILED: $1 -std=$3: values of a positional initializer"; bad=1; }
}

for standard in c89 gnu89 c99 gnu99 c11 gnu11 c2x; do
    try gcc c $standard
    try clang c $standard
done
for standard in c++98 c++11 c++20; do
    try g++ c++ $standard
    try clang++ c++ $standard
done
[ $c -gt 0 ] || { echo "FAILED: there is neither gcc nor clang"; bad=1; }
[ $cxx -gt 0 ] || { echo "FAILED: there is neither g++ nor clang++"; bad=1; }
echo "$((c + cxx)) compilations, $([ $bad = 0 ] && echo all good || echo some failed)"
exit $bad
