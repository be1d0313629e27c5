#!/usr/bin/env bash
# What splitcc gives: the files that gcc's options promise, gcc's messages on the user's lines, line
# numbers for the debugger, one conditional jump for a local access.
# usage: output.sh BUILD_DIR
set -u
build=$(realpath "${1:?build directory}")
splitcc=$build/splitc/splitcc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fail() {
    echo "$*"
    bad=1
}
link=()
sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
[ -z "$sanitize" ] || link=("-fsanitize=$sanitize")

cat >h.h <<'E1'
extern int plain(int);
E1
cat >a.sc <<'E1'
#include <split-c/split-c.h>
#include "h.h"
int splitc_main(int argc, char **argv)
{
    int A[PROCS]::, *global g = &A[0];

    *g = argc -
        1;
    (*g)++;
    A[0] +=
        plain(40);
    return exit_with(*g);
}
E1
cat >b.c <<'E1'
int plain(int x) { return x + 1; }
int exit_with(int x) { extern void exit(int); exit(x == 42 ? 0 : 1); }
E1

# ---- files ----
"$splitcc" -w "${link[@]}" -o prog a.sc b.c && ./prog || fail "a.sc and b.c give no program that works"
"$splitcc" -w -c a.sc b.c && [ -s a.o ] && [ -s b.o ] || fail "-c gives no objects"
"$splitcc" "${link[@]}" -o prog2 a.o b.o && ./prog2 || fail "linking objects does not work"
"$splitcc" -w -S a.sc && grep -q 'splitc_main' a.s || fail "-S gives no assembler text"
"$splitcc" -E a.sc | grep -q '\]::' || fail "-E does not preprocess only"
"$splitcc" --translate a.sc | grep -q 'sc_spread_enter' || fail "--translate shows no C"
"$splitcc" -w -MMD -c a.sc && grep -q '^a.o:.*a.sc.*h.h' <(tr -d '\\\n' <a.d) || fail "-MMD: $(cat a.d)"
"$splitcc" -w -MMD -MF deps -c -o sub.o a.sc && grep -q '^sub.o:' deps || fail "-MMD -MF -o: $(cat deps)"
"$splitcc" -MM a.sc | grep -q '^a.o:.*h.h' || fail "-MM"
cp a.sc a.split && "$splitcc" -w -c -x split-c a.split -o x.o && [ -s x.o ] || fail "-x split-c"
"$splitcc" -w -save-temps -c a.sc && [ -s a.sc.i ] && [ -s a.sc.c ] || fail "-save-temps keeps nothing"
"$splitcc" -w -std=c99 -pedantic-errors -Werror -c -o p.o -DX=1 -UY -I. a.sc || fail "-std=c99 -pedantic-errors"
echo 'void f(int *global g, int *p) { g = p; }' >warn.sc
"$splitcc" -c warn.sc 2>err && grep -q 'warning: a global pointer is made' err || fail "no warning"
"$splitcc" -w -Werror -c warn.sc 2>err && [ ! -s err ] || fail "-w does not silence"
"$splitcc" -Werror -c warn.sc 2>err && fail "-Werror lets a warning of the translator pass"
echo 'int f( {' >bad.sc
"$splitcc" -c bad.sc 2>err && fail "an error in the program gives exit status 0"
[ ! -e bad.o ] || fail "an error leaves an object"
"$splitcc" -c nothing.sc 2>err && fail "a missing file gives exit status 0"
"$splitcc" 2>err && fail "no input gives exit status 0"
mkdir tmp
TMPDIR=$work/tmp "$splitcc" -w -c a.sc && TMPDIR=$work/tmp "$splitcc" -c bad.sc 2>err
[ -z "$(ls tmp)" ] || fail "files are left behind: $(ls tmp)"

# ---- gcc's messages and the line table name the user's lines, also behind what was replaced ----
cat >w.sc <<'E1'
int *global g;
int f(int *global a,
      int *global b)
{
    a[1] = b[2] +
        a[3];
    int unused_here = *a; *b += 1; if (g) return 1;

    return undeclared_name(a);
}
E1
"$splitcc" -Wall -g -O0 -c w.sc 2>err
grep -q '^w.sc:7:.*unused_here' err || fail "gcc's warning is not on line 7: $(cat err)"
grep -q '^w.sc:9:.*undeclared_name' err || fail "gcc's warning is not on line 9: $(cat err)"
lines=$(objdump --dwarf=decodedline w.o | awk '$1 == "w.sc" && $2 ~ /^[0-9]+$/ {print $2}' | sort -nu | tr '\n' ' ')
for line in 4 5 6 7 9 10; do
    [[ " $lines" == *" $line "* ]] || fail "the debugger has no line $line of w.sc, only $lines"
done
beyond=$(tr ' ' '\n' <<<"$lines" | awk '$1 > 10')
[ -z "$beyond" ] || fail "the debugger has lines that w.sc has not: $beyond"

# ---- a local access is one conditional jump; the other way is a call ----
cat >j.sc <<'E1'
int get(int *global g) { return *g; }
void set(double *global g, double x) { *g = x; }
E1
"$splitcc" -O2 -S j.sc
for function in get set; do
    body=$(sed -n "/^$function:/,/\.size[[:space:]]*$function/p" j.s)
    jumps=$(grep -cE '^[[:space:]]j[a-z]+[[:space:]]' <<<"$(grep -vE '^[[:space:]]jmp[[:space:]]' <<<"$body")")
    calls=$(grep -cE '(call|jmp)[[:space:]]+sc_remote_' <<<"$body")
    [ "$jumps" -eq 1 ] && [ "$calls" -eq 1 ] || {
        fail "$function: $jumps conditional jumps, $calls calls"
        echo "$body"
    }
done
[ $bad -eq 0 ] && echo "output: files, messages, lines and jumps are as promised"
exit $bad
