#!/usr/bin/env bash
# The translator must not change a byte of ordinary C: of the project's sources, preprocessed as in
# the build, and of each header of the C library in one of three dialects, at least 100,000 lines.
# For some sources the script also compares gcc's assembler text.
# usage: identity.sh BUILD_DIR [all] [FOLDER...]
#   all: every folder and dialect, and the assembler text of every source (takes a quarter of an hour)
#   FOLDER: only these folders ("headers": the headers of the C library)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
shift
every=some
if [ "${1-}" = all ]; then
    every=all
    shift
fi
folders="proto libvipl splitc headers"
dialects=""
if [ $every = all ]; then
    folders="proto libvipl splitc vipd tools am ofi job bench examples tests headers"
    dialects="gnu89 gnu99 gnu11 gnu17"
fi
chosen=${*:-$folders}
sc1=$build/splitc/sc1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
lines=0
files=0
assembled=0

# same NAME DIALECT ASSEMBLE: translate $work/in.i with sc1 and compare the output.
same() {
    files=$((files + 1))
    lines=$((lines + $(wc -l <"$work/in.i")))
    if ! "$sc1" -o "$work/out.i" "$work/in.i" 2>"$work/err"; then
        echo "$1 ($2): refused"
        head -n 4 "$work/err"
        bad=1
        return
    fi
    if ! cmp -s "$work/in.i" "$work/out.i"; then
        echo "$1 ($2): changed"
        diff "$work/in.i" "$work/out.i" | head -n 4
        bad=1
    fi
    [ "$3" = yes ] || return
    assembled=$((assembled + 1))
    for side in in out; do
        # The text must not depend on the name of the input.
        gcc -w -std="$2" -O1 -S -x cpp-output "$work/$side.i" -o - >"$work/$side.s" || bad=1
    done
    cmp -s "$work/in.s" "$work/out.s" || {
        echo "$1: other assembler text"
        bad=1
    }
}

# List the C sources of these folders, each with its command to preprocess it: "FILE<tab>WORD...".
python3 -B - "$build/compile_commands.json" "$PWD" $chosen >"$work/sources" <<'E1' || exit 1
import json, os, shlex, sys

commands, top, *folders = sys.argv[1:]
seen = set()
for entry in json.load(open(commands, encoding="utf-8")):
    file = os.path.relpath(os.path.join(entry["directory"], entry["file"]), top)
    if not file.endswith(".c") or file.split("/")[0] not in folders or file in seen:
        continue
    seen.add(file)
    words, keep = shlex.split(entry["command"]), []
    for i, word in enumerate(words):
        if word in ("-I", "-isystem", "-include", "-D", "-idirafter"):
            keep += [word, words[i + 1]]
        elif word.startswith(("-I", "-D", "-U", "-std=", "-isystem")):
            keep.append(word)
    print(file, shlex.join(keep), sep="\t")
E1

while IFS=$'\t' read -r file words; do
    eval "flags=($words)"
    dialect=$(grep -o 'std=[a-z0-9]*' <<<"$words" | head -n 1)
    dialect=${dialect#std=}
    if ! gcc -E "${flags[@]}" "$file" >"$work/in.i" 2>"$work/err"; then
        echo "$file: gcc does not preprocess it:"
        head -n 4 "$work/err"
        bad=1
        continue
    fi
    assemble=no
    case $file in
    proto/wire.c | libvipl/post.c | libvipl/mem.c | splitc/sc1/lower.c) assemble=yes ;;
    esac
    [ $every = all ] && assemble=yes
    same "$file" "${dialect:-gnu11}" $assemble
done <"$work/sources"
own=$files
own_lines=$lines
n=0
without=0
if [[ " $chosen " == *" headers "* ]]; then
    for header in $(dpkg -L libc6-dev | grep '^/usr/include/.*\.h$' | grep -vE '/(bits|gnu|finclude)/' | sort); do
        # Each header gets the next dialect, or all dialects.
        n=$((n + 1))
        turn=$((n % 3 == 0 ? 1 : n % 3 == 1 ? 2 : 3))
        for dialect in ${dialects:-$(cut -d' ' -f$turn <<<"gnu89 gnu11 gnu17")}; do
            # Some headers cannot be compiled alone.
            gcc -E -std="$dialect" "$header" >"$work/in.i" 2>"$work/err" || {
                without=$((without + 1))
                continue
            }
            same "$header" "$dialect" no
        done
    done
fi
echo "identity: $own sources ($own_lines lines) and $((files - own)) headers in dialects ($((lines - own_lines)) lines;" \
    "$without not alone), $lines lines, assembler text of $assembled"
# Fail if too few files were compared.
if [ $# -eq 0 ]; then
    [ "$own" -ge 60 ] && [ $((files - own)) -ge 100 ] && [ "$lines" -ge 100000 ] && [ $assembled -ge 4 ] || {
        echo "too little was looked at"
        bad=1
    }
fi
[ "$files" -gt 0 ] || bad=1
exit $bad
