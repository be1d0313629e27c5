#!/usr/bin/env bash
# The manual pages can be built, and mandoc finds no error or warning in them. They mention every
# function of the headers, every command and option of vipctl, every option of vipd, every
# configuration key and every statistic.
# usage: manuals.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
if ! command -v scdoc >/dev/null || ! command -v mandoc >/dev/null; then
    echo "skipped: scdoc and mandoc are not installed"
    exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

wrong() {
    echo "FAILED: $*"
    bad=1
}

man/build.sh "$build/vipd/vipd" "$out" || exit 1
for page in "$out"/*; do
    # scdoc begins a paragraph after every heading and before every list; mandoc's warning about that is harmless.
    mandoc -T lint -W warning "$page" 2>&1 | grep -v 'skipping paragraph macro: PP' >"$out.lint" &&
        wrong "$(cat "$out.lint")"
    mandoc -T ascii "$page" | col -b | tr -s ' \n' '  ' >"$page.txt"
done
rm -f "$out.lint"
[ "$(find "$out" -name '*.[1578]' -o -name '*.3' | wc -l)" -ge 15 ] || wrong "pages are missing"

mentions() { # mentions WORD PAGE...
    local word=$1
    shift
    cat "$@" | grep -qF -- "$word" || wrong "$(basename "$1") does not mention $word"
}
for function in $(grep -ohE '\bVipx?[A-Z][A-Za-z0-9]*\(' libvipl/vipl.h libvipl/vipl_ext.h | tr -d '(' | sort -u); do
    mentions "$function" "$out"/vipl_*.3.txt
done
for command in $("$build/tools/vipctl" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    mentions "$command" "$out/vipctl.1.txt"
done
for option in $("$build/tools/vipctl" --help | grep -oE -- '--[a-z-]+' | sort -u); do
    mentions "$option" "$out/vipctl.1.txt"
done
for view in $("$build/tools/vipctl" --help | sed -n '/^Views/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    mentions "$view" "$out/vipctl.1.txt"
done
for option in $("$build/vipd/vipd" --help | grep -oE -- '^ +(-., +)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u); do
    [ "$option" = --foreground ] || mentions "$option" "$out/vipd.8.txt"
done
for option in $("$build/tools/vipperf" --help | grep -oE -- '^  --[a-z-]+' | sort -u); do
    mentions "$option" "$out/vipperf.1.txt"
done
for key in $("$build/vipd/vipd" --print-config | sed -n 's/^#\([a-z_]*\) =.*/\1/p' | sort -u); do
    mentions "$key" "$out/vipd.conf.5.txt"
done
for name in $(sed -n 's/^VIP_STAT\(_AS\)*([A-Z]*, \([a-z0-9_]*\),.*/\2/p' proto/stats.def); do
    mentions "$name" "$out/vipd-statistics.7.txt"
done

[ $bad -eq 0 ] && echo "manuals: built, clean, complete"
exit $bad
