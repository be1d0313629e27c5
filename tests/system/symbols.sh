#!/usr/bin/env bash
# The shared and the static libvipl export exactly the functions of vipl.h and vipl_ext.h (those of
# the specification and Vipx...), and need no library but libc.
# usage: symbols.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?build directory}
bad=0
# In these headers only lines of declarations begin with a letter.
want=$(sed -nE 's/^[A-Za-z].*[ *](Vipx?[A-Z][A-Za-z0-9]*)\(.*/\1/p' libvipl/vipl.h libvipl/vipl_ext.h | sort -u)

for library in libvipl.so libvipl.a; do
    case $library in
    *.so) got=$(nm -D --defined-only "$build/libvipl/$library" | awk '{print $3}' | sed 's/@.*//') ;;
    *.a) got=$(nm --defined-only --extern-only "$build/libvipl/$library" 2>/dev/null | awk 'NF==3 {print $3}') ;;
    esac
    got=$(grep -vE '^(_init|_fini|__bss_start|_edata|_end|__(a|t|ub)san.*|__odr_asan.*)$' <<<"$got" | sort -u)
    if ! diff <(echo "$want") <(echo "$got"); then
        echo "$library exports (>) something else than the headers declare (<)"
        bad=1
    fi
done
needed=$(readelf -d "$build/libvipl/libvipl.so" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
    grep -vE '^(libc\.so\.6|ld-linux.*|lib(a|ub|t)san\.so.*)$')
if [ -n "$needed" ]; then
    echo "libvipl.so links more than libc: $needed"
    bad=1
fi
# libvipam exports its interface, and links only libvipl and libc.
got=$(nm -D --defined-only "$build/am/libvipam.so" | awk '{print $3}' | sed 's/@.*//' |
    grep -vE '^(AM|AMVIA|AMX|amvia)_[A-Za-z0-9_]+$|^VIPAM_1$')
if [ -n "$got" ]; then
    echo "libvipam.so exports more than am.h and am_amx.h: $got"
    bad=1
fi
needed=$(readelf -d "$build/am/libvipam.so" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
    grep -vE '^(libvipl\.so\.1|libc\.so\.6|ld-linux.*|lib(a|ub|t)san\.so.*)$')
if [ -n "$needed" ]; then
    echo "libvipam.so links more than libvipl and libc: $needed"
    bad=1
fi
[ $bad -eq 0 ] && echo "symbols: $(wc -l <<<"$want") names, nothing else; links libc only"
exit $bad
