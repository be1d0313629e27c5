#!/usr/bin/env bash
# Ordinary C passes through the translator untouched: the project's own sources and each header of the
# C library, in one of three dialects, come out byte for byte, at least 100,000 lines of them. For some files
# of the project gcc's assembler text is compared as well.
# usage: identity.sh BUILD_DIR [all]     (all: more folders and dialects, assembler text of every source; minutes)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
every=${2-some}
sc1=$build/splitc/sc1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-D_GNU_SOURCE '-DVIP_VERSION="0"' '-DVIP_SOURCE_DIR="."' -I. -Ilibvipl -Itests "-I$build/proto")
bad=0
lines=0
files=0
assembled=0

# same NAME DIALECT ASSEMBLE: $work/in.i through sc1.
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
        gcc -w -std="$2" -O1 -S -x cpp-output "$work/$side.i" -o "$work/$side.s" || bad=1
    done
    cmp -s "$work/in.s" "$work/out.s" || {
        echo "$1: other assembler text"
        bad=1
    }
}

folders="proto libvipl splitc"
dialects=""
if [ "$every" = all ]; then
    folders="$folders tools examples tests"
    dialects="gnu89 gnu99 gnu11 gnu17"
fi
# shellcheck disable=SC2086
for file in $(find $folders -name '*.c' | sort); do
    gcc -E -std=gnu11 "${flags[@]}" "$file" >"$work/in.i" 2>/dev/null || continue
    assemble=no
    case $file in
    proto/wire.c | libvipl/post.c | libvipl/mem.c | splitc/sc1/lower.c) assemble=yes ;;
    esac
    [ "$every" = all ] && assemble=yes
    same "$file" gnu11 $assemble
done
own=$files
n=0
for header in $(dpkg -L libc6-dev | grep '^/usr/include/.*\.h$' | grep -vE '/(bits|gnu|finclude)/' | sort); do
    # One dialect each in turn, or all for every one.
    n=$((n + 1))
    turn=$((n % 3 == 0 ? 1 : n % 3 == 1 ? 2 : 3))
    for dialect in ${dialects:-$(cut -d' ' -f$turn <<<"gnu89 gnu11 gnu17")}; do
        gcc -E -std="$dialect" "$header" >"$work/in.i" 2>/dev/null || continue
        same "$header" "$dialect" no
    done
done
echo "identity: $own sources and $((files - own)) headers in dialects, $lines lines, assembler text of $assembled"
# A check that sees nothing must not pass.
[ "$own" -ge 40 ] && [ $((files - own)) -ge 100 ] && [ "$lines" -ge 100000 ] && [ $assembled -ge 4 ] || {
    echo "too little was looked at"
    bad=1
}
exit $bad
