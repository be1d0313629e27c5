#!/usr/bin/env bash
# Cross build and tests under qemu-user. They test the build, the layout of structures and the logic, but not the memory
# order: qemu's loads and stores have the order of this machine's processors. tests/model checks the memory order.
# usage: run.sh arm64 | s390x
#
# qemu-user 7.2 lacks parts of Linux, so some tests are left out: it has no futex_waitv (test_vipl_wake), it ends at a
# SIGBUS that the program would handle (test_registry_guard), and libvipl finds no memory in it to adopt
# (test_vipl_mem_*, test_vipl_teardown). The tests of vipd/nic have large mappings and take minutes each.
set -u
cd "$(dirname "$0")/../.." || exit 1
arch=${1-}
case $arch in
arm64)
    # The rings and codecs, the engine, and the parts of the library that work in qemu.
    tests='^test_proto_|^test_engine_|^test_vipl_(session|region|linger)$'
    ;;
s390x)
    # Big-endian: only packets and files have a fixed byte order; shared memory has the machine's.
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
