#!/usr/bin/env bash
# Cross build and tests under qemu-user: build, layout of structures, logic. Not memory order: qemu runs on this
# machine's processors, in their order; for that there is tests/model.
# usage: run.sh arm64 | s390x
#
# Not everything of Linux is in qemu-user 7.2: it has no futex_waitv (test_vipl_wake), it ends at a SIGBUS that the program
# would handle (test_registry_guard), and libvipl finds no memory there that it could adopt (test_vipl_mem_*,
# test_vipl_teardown). The tests of vipd/nic, with their large mappings, take minutes each.
set -u
cd "$(dirname "$0")/../.." || exit 1
arch=${1-}
case $arch in
arm64)
    # The rings and codecs, the engine, and of the library what qemu can do.
    tests='^test_proto_|^test_engine_|^test_vipl_(session|region|linger)$'
    ;;
s390x)
    # What goes over a wire or into a file has one byte order; shared memory has the machine's.
    tests='^test_proto_|^fuzz_wire_decode$'
    ;;
*)
    echo "usage: run.sh arm64 | s390x"
    exit 2
    ;;
esac
tests/cross/root.sh "$arch" || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM
# run COMMAND...: its output is shown only if it fails.
run() {
    "$@" >"$log" 2>&1 && return
    tail -n 60 "$log"
    echo "cross: $arch: failed: $1 $2"
    exit 1
}
run cmake --preset "$arch"
targets=$(ctest --test-dir "build/$arch" -N -L 'unit|fuzz' -R "$tests" | sed -nE 's/^ *Test +#[0-9]+: //p')
# shellcheck disable=SC2086
run cmake --build "build/$arch" --target $targets
ctest --test-dir "build/$arch" -j2 -L 'unit|fuzz' -R "$tests" --output-on-failure --no-tests=error
