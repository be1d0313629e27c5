#!/usr/bin/env bash
# Checks: codes.txt has a line for every function of libvipam; each code of codes.txt has come in a
# passing test; the tests of rows.txt have passed; the table of doc/active-messages.md is current.
# usage: covered.sh CODES_DIR LIBVIPAM            (ctest: am_codes_covered; CODES_DIR is what AM_TEST_CODES named)
#        covered.sh --write CODES_DIR LIBVIPAM    write the table into the document
set -u
write=no
[ "${1-}" != --write ] || { write=yes; shift; }
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?directory with .codes files}
library=${2:?libvipam.so}
doc=$here/../../doc/active-messages.md
head='| section | row | tests |'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

"$here/../conformance/covered.sh" "$dir" "$here" "" >"$work/tables" || bad=1
sed -n "/^$head/,\$p" "$work/tables" >"$work/rows"

# Functions that return no code; other tests cover them (traffic, launch.sh, job.sh).
nocode="AM_MaxShort AM_MaxMedium AM_MaxLong AM_MaxNumHandlers amvia_LastError AMX_FatalErr AMX_DumpStatistics
    AMX_enEqual AMX_SPMDExit AMX_SPMDIsWorker AMX_SPMDMyProc AMX_SPMDNumProcs AMX_SPMDSetExitCallback
    AMX_SPMDgetenvMaster"
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/functions"
[ -s "$work/functions" ] || { echo "covered.sh: $library shows no functions"; bad=1; }
while read -r function; do
    grep -qw -- "$function" <<<"$nocode" && continue
    # AM_Request0 to AM_Request16 call AMVIA_Request; codes.txt names them AM_RequestM.
    macro=${function/#AMVIA_/AM_}
    grep -qE "^($function|$macro|${macro}M) " "$here/codes.txt" || {
        echo "covered.sh: codes.txt has no line for $function"
        bad=1
    }
done <"$work/functions"

in_doc() { # the table's lines in the document
    awk -v head="$head" '$0 == head { on = 1 } on && !/^\|/ { exit } on' "$doc"
}
if [ $write = yes ] && [ $bad = 0 ]; then
    awk -v head="$head" -v rows="$work/rows" '
        $0 == head { on = 1; while ((getline line < rows) > 0) print line }
        on && /^\|/ { next }
        { on = 0; print }' "$doc" >"$work/doc" && cp "$work/doc" "$doc"
fi
in_doc | diff -u - "$work/rows" >"$work/diff" || {
    echo "covered.sh: the table in doc/active-messages.md is not that of rows.txt (covered.sh --write):"
    cat "$work/diff"
    bad=1
}
[ $bad = 0 ] && echo "covered: $(wc -l <"$work/functions") functions, $(grep -c '^[34]' "$here/rows.txt") rows, all with tests that passed"
exit $bad
