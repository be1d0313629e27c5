#!/usr/bin/env bash
# Cross build and tests under qemu-user: the build, the layout of structures, the logic. Not the
# memory order, because qemu has the order of this machine's processors (see tests/model).
# usage: run.sh arm64 | s390x
#
# Some tests cannot run here. qemu-user 7.2 has no futex_waitv (test_vipl_wake), it ends at a SIGBUS
# that the program would handle (test_registry_guard), and libvipl finds no memory to adopt
# (test_vipl_mem_*, test_vipl_teardown). Each test of vipd/nic takes minutes for large mappings.
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
# run COMMAND...: shows the command's output only if the command fails.
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
