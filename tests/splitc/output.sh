#!/usr/bin/env bash
# Tests the output of splitcc: the files that gcc's options ask for; gcc's messages and the
# debugger's lines must name the user's lines; a local access is one conditional jump. After a
# failure the script shows the command and its output.
# usage: output.sh BUILD_DIR
set -u
build=$(realpath "${1:?build directory}")
splitcc=$build/splitc/splitcc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The caller's environment (language, gcc's variables, a job) must not change the test.
export LC_ALL=C HOME=$work
umask 022
for name in $(compgen -e); do
    case $name in
    *_INCLUDE_PATH | CPATH | LIBRARY_PATH | COMPILER_PATH | GCC_* | DEPENDENCIES_OUTPUT | SUNPRO_DEPENDENCIES | \
        SPLITC* | PMI_* | PMIX_* | POSIXLY_CORRECT | SOURCE_DATE_EPOCH) unset "$name" ;;
    esac
done
mkdir "$work/files" "$work/log" && cd "$work/files" && work=$(cd .. && pwd) || exit 1
bad=0
status=none
last="(no command yet)"
link=()
sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
[ -z "$sanitize" ] || link=("-fsanitize=$sanitize")

fail() {
    echo "FAILED: $*"
    echo "  the command before: $last"
    echo "  its exit status: $status"
    for stream in out err; do
        [ ! -s "$work/log/$stream" ] || head -n 40 "$work/log/$stream" | sed "s/^/  its std$stream: /"
    done
    bad=1
}
# Runs a command and keeps its exit status, stdout and stderr.
run() {
    last=$*
    "$@" >"$work/log/out" 2>"$work/log/err" </dev/null
    status=$?
}
# good WHAT COMMAND...
good() {
    local what=$1
    shift
    run "$@"
    [ $status -eq 0 ] || fail "$what"
}
# refused WHAT COMMAND...: exit status 1 (no signal, no assertion) with a message
refused() {
    local what=$1
    shift
    run "$@"
    [ $status -eq 1 ] && [ -s "$work/log/err" ] || fail "$what"
}
# has FILE PATTERN: a line of the file must match; otherwise show the file
has() {
    grep -q -- "$2" "$1" 2>"$work/log/grep" && return
    fail "no line of $1 is like '$2'"
    head -n 40 "$1" 2>&1 | sed 's/^/  the file: /'
}
said() { has "$work/log/$1" "$2"; }
made() {
    for file in "$@"; do
        [ -s "$file" ] || fail "there is no $file, or it is empty"
    done
}

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
good "a.sc and b.c together" "$splitcc" -w "${link[@]}" -o prog a.sc b.c
good "the program of a.sc and b.c" ./prog
good "-c of two files" "$splitcc" -w -c a.sc b.c
made a.o b.o
good "linking objects" "$splitcc" "${link[@]}" -o prog2 a.o b.o
good "the program of linked objects" ./prog2
good "-S" "$splitcc" -w -S a.sc
has a.s splitc_main
good "-E" "$splitcc" -E a.sc
said out '\]::'
good "--translate" "$splitcc" --translate a.sc
said out sc_spread_enter
# gcc breaks the lines of dependencies at any word, so put each word on its own line.
good "-MMD" "$splitcc" -w -MMD -c a.sc
tr -s ' \\\n' '\n' <a.d >words
has words '^a\.o:$' && has words '^a\.sc$' && has words '^h\.h$'
good "-MMD -MF -o" "$splitcc" -w -MMD -MF deps -c -o sub.o a.sc
has deps '^sub.o:'
good "-MM" "$splitcc" -MM a.sc
said out '^a.o:'
said out 'h\.h'
cp a.sc a.split
good "-x split-c" "$splitcc" -w -c -x split-c a.split -o x.o
made x.o
good "-save-temps" "$splitcc" -w -save-temps -c a.sc
made a.sc.i a.sc.c
good "-std=c99 -pedantic-errors" "$splitcc" -w -std=c99 -pedantic-errors -Werror -c -o p.o -DX=1 -UY -I. a.sc
echo 'void f(int *global g, int *p) { g = p; }' >warn.sc
good "a program with a warning" "$splitcc" -c warn.sc
said err 'warning: a global pointer is made'
good "-w -Werror" "$splitcc" -w -Werror -c warn.sc
[ ! -s "$work/log/err" ] || fail "-w does not silence"
refused "-Werror lets a warning of the translator pass" "$splitcc" -Werror -c warn.sc
echo 'int f( {' >bad.sc
refused "an error in the program" "$splitcc" -c bad.sc
[ ! -e bad.o ] || fail "an error leaves an object"
refused "a missing file" "$splitcc" -c nothing.sc
refused "no input" "$splitcc"

# ---- temporary files must be removed; folders that cannot be written ----
mkdir tmp
good "another TMPDIR" env TMPDIR="$work/files/tmp" "$splitcc" -w -c a.sc
good "a relative TMPDIR" env TMPDIR=tmp "$splitcc" -w -c a.sc
refused "an error, another TMPDIR" env TMPDIR="$work/files/tmp" "$splitcc" -c bad.sc
refused "a TMPDIR that is not there" env TMPDIR="$work/none" "$splitcc" -w -c a.sc
said err 'No such file or directory'
# splitcc gets a signal while the compiler runs: this compiler only waits.
printf '#!/bin/sh\necho >started\nexec sleep 100\n' >slow && chmod +x slow
TMPDIR=$work/files/tmp SPLITCC_GCC=$work/files/slow "$splitcc" -c a.sc 2>"$work/log/err" &
pid=$!
for _ in $(seq 600); do
    [ ! -e started ] || break
    sleep 0.1
done
kill "$pid"
wait "$pid"
status=$?
last="a compiler that does not end, and SIGTERM"
[ $status -eq 143 ] || fail "splitcc that is ended by SIGTERM"
[ -z "$(ls tmp)" ] || fail "files are left behind: $(ls tmp)"
mkfifo pipe # a fifo as output stays, also if the translation fails
cat pipe >/dev/null &
pid=$!
refused "an error, to a pipe" "$splitcc" --translate -o pipe bad.sc
[ -p pipe ] || fail "splitcc has removed a pipe"
kill "$pid" 2>"$work/log/kill"
wait "$pid"

# ---- gcc's messages and the line table name the user's lines, also after replaced text ----
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
good "-Wall -g" "$splitcc" -Wall -g -O0 -c w.sc
said err '^w.sc:7:.*unused_here'
said err '^w.sc:9:.*undeclared_name'
good "the line table of w.o" objdump --dwarf=decodedline w.o
lines=$(awk '$1 == "w.sc" && $2 ~ /^[0-9]+$/ {print $2}' "$work/log/out" | sort -nu | tr '\n' ' ')
for line in 4 5 6 7 9 10; do
    [[ " $lines" == *" $line "* ]] || fail "the debugger has no line $line of w.sc, only $lines"
done
beyond=$(tr ' ' '\n' <<<"$lines" | awk '$1 > 10')
[ -z "$beyond" ] || fail "the debugger has lines that w.sc has not: $beyond"

# ---- a local access is one conditional jump; a remote access is a call ----
cat >j.sc <<'E1'
int get(int *global g) { return *g; }
void set(double *global g, double x) { *g = x; }
E1
good "-O2 -S" "$splitcc" -O2 -S j.sc
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
