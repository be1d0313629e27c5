#!/usr/bin/env bash
# Make the manual pages by scdoc: from man/*.scd, and from the pages that vipd prints from its tables. A
# line "@proto NAME..." becomes the prototypes of these functions, as they are in the headers.
# usage: build.sh VIPD_PROGRAM OUTPUT_DIR
set -eu
cd "$(dirname "$0")/.."
vipd=${1:?vipd program}
out=${2:?output folder}
mkdir -p "$out"

# The text of one prototype, as a literal block.
prototype() {
    awk -v name="$1" '
        /^[A-Za-z].*[ *]Vip[A-Za-z0-9]*\(/ && index($0, name "(") { on = 1 }
        on { print "\t" $0 }
        on && /;[[:space:]]*$/ { exit }' libvipl/vipl.h libvipl/vipl_ext.h | grep . ||
        { echo "no prototype of $1 in libvipl/vipl.h and vipl_ext.h" >&2; return 1; }
}

expand() {
    local line name
    while IFS= read -r line; do
        case $line in
        "@proto "*)
            echo '```'
            for name in ${line#@proto }; do
                prototype "$name" | sed 's/^\t//'
            done
            echo '```'
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

for source in man/*.scd; do
    page=$(basename "$source" .scd)
    expand "$source" >"$out/$page.scd.tmp"
    scdoc <"$out/$page.scd.tmp" >"$out/$page"
    rm "$out/$page.scd.tmp"
done
"$vipd" --print-config=man | scdoc >"$out/vipd.conf.5"
"$vipd" --print-config=statistics | scdoc >"$out/vipd-statistics.7"
