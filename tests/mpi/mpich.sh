#!/usr/bin/env bash
# MPICH over VIA. Debian's package of MPICH is built for UCX, so this script builds Debian's source
# for libfabric (ch4:ofi) in WORK_DIR. It installs nothing, and does not make files again that exist
# in WORK_DIR. With this MPICH it runs
#
#   1. Debian's MPICH programs as they are packaged: NetPIPE and ScaLAPACK's xdqr, on one vipd and on two;
#   2. the source's test programs, on at most 4 ranks, over VIA on two vipd and over tcp. A program that fails over
#      only one of the two counts as a failure; the lists are in WORK_DIR/tests.PROVIDER/failed.
#
# usage: mpich.sh BUILD_DIR WORK_DIR [PARTS...]      PARTS of the test programs: pt2pt coll rma (all)
# Needs a mirror of Debian (MIRROR), 2 GB in WORK_DIR, memory for messages of 2 GB, and an hour or
# two on a machine with little other work. MPITEST_TIMEOUT_MULTIPLIER=3 triples the programs' time
# limits. MPICH_LISTS names other lists of programs than testlist, separated by commas: testlist.dtp
# (more data types), testlist.cvar (all algorithms of collective operations; takes hours).
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
cd "$MPI_DIR/../.." || exit 1
build=$(realpath "${1:?build directory}")
mkdir -p "${2:?work directory}" && place=$(realpath "$2") || exit 1
shift 2
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(pt2pt coll rma)
lists=${MPICH_LISTS:-testlist}
. scripts/common.sh
. scripts/daemons.sh
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
[ -e "$build/ofi/libvipl-fi.so" ] || die "$build/ofi/libvipl-fi.so is not there; build it first (libfabric-dev)"
for needed in make perl pkg-config dpkg-source xz; do
    command -v $needed >/dev/null || die "$needed is missing (Debian: build-essential pkg-config xz-utils)"
done
[ -e /usr/include/hwloc.h ] || die "hwloc.h is missing (Debian: libhwloc-dev)"
[ -e "$(echo /usr/lib/*/liblapack.so.3)" ] || die "liblapack.so.3 is missing (Debian: liblapack3 libgfortran5)"
debs=$place/debs/usr
trap daemons_end EXIT
trap 'exit 130' INT TERM

# Run a command with its output in a log; show the log if the command fails.
quietly() { # quietly LOG COMMAND...
    local log=$place/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null && return
    tail -n 30 "$log"
    die "this failed, all of its output is in $log: $*"
}

# ---- from Debian: the source, and programs that are linked with Debian's MPICH -----------------------

# Run apt-get with its own lists and sources, so that those of the machine stay as they are.
own_apt() {
    (cd "$place" && apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$place/apt/sources" \
        -o Dir::State::Lists="$place/apt/lists" -o Dir::Cache="$place/apt/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@")
}

fetch() {
    local release package
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mkdir -p "$place"/apt/{sources,lists/partial,cache/archives/partial}
    cat >"$place/apt/sources/debian.sources" <<SOURCES
Types: deb deb-src
URIs: ${MIRROR:-http://deb.debian.org/debian}
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
    quietly fetch-lists own_apt update
    quietly fetch-source own_apt source mpich
    quietly fetch-programs own_apt download netpipe-mpich2 scalapack-mpi-test scalapack-test-common libscalapack-mpich2.2
    for package in "$place"/*.deb; do
        dpkg -x "$package" "$place/debs" || exit 1
    done
}

# ---- MPICH and its test programs ---------------------------------------------------------------------

# Write a pkg-config file for libfabric: the installed file names the libraries of all providers.
lone_libfabric() {
    mkdir -p "$place/pkgconfig"
    cat >"$place/pkgconfig/libfabric.pc" <<'PC'
Name: libfabric
Description: libfabric, linked dynamically
Version: 1
Libs: -lfabric
PC
}

configure_mpich() (
    mkdir -p "$place/build" && cd "$place/build" &&
        MPILIBNAME=mpich PKG_CONFIG_PATH=$place/pkgconfig "$source/configure" \
            --prefix="$place/mpich" --with-device=ch4:ofi --with-libfabric=/usr --with-hwloc-prefix=/usr \
            --with-pm=hydra --with-wrapper-dl-type=none --with-datatype-engine=dataloop --enable-shared \
            --disable-static --disable-fortran --disable-cxx --disable-romio --disable-rpath \
            --disable-wrapper-rpath
)

# Configure the test programs. Each provider gets a copy of the folder, because the programs write into it.
configure_tests() (
    mkdir -p "$place/tests" && cd "$place/tests" &&
        "$source/test/mpi/configure" --with-mpi="$place/mpich" --disable-fortran --disable-cxx \
            --disable-spawn --disable-romio
)

make_tests() {
    local part
    make -C "$place/tests/dtpools" -j2 && make -C "$place/tests/util" -j2 || return
    for part in pt2pt coll rma; do
        make -C "$place/tests/$part" -j2 || return
    done
    cp -r "$place/tests" "$place/tests.via" && cp -r "$place/tests" "$place/tests.tcp"
}

# ---- running -----------------------------------------------------------------------------------------

over() { # over PROVIDER: from now on use this provider of connected endpoints, below ofi_rxm
    export FI_PROVIDER="$1;ofi_rxm"
}

mpich() { # mpich RANKS PROGRAM...
    local ranks=$1
    shift
    timeout -k 5 "$MPI_TIMEOUT" "$place/mpich/bin/mpiexec.hydra" -launcher fork -n "$ranks" "$MPI_DIR/rank.sh" "$@"
}

# Check that MPICH uses this provider, so that no test passes over another provider.
provider_taken() { # provider_taken PROVIDER
    MPIR_CVAR_DEBUG_SUMMARY=1 mpich 2 "$place/tests.via/pt2pt/sendrecv2" >"$place/provider.log" 2>&1
    grep 'provider' "$place/provider.log"
    grep -qF "libfabric provider: $1;ofi_rxm - " "$place/provider.log"
}

netpipe_passes() {
    mpich 2 "$debs/bin/NPmpich2" -i -u 300000 -o "$place/np.out" || return
    rm -f "$place/np.out"
    mpich 2 "$debs/bin/NPmpich2" -u 1100000 -o "$place/np.out" && [ "$(wc -l <"$place/np.out")" -ge 60 ]
}

scalapack_passes() { # scalapack_passes RANKS
    (cd "$debs/share/scalapack" && mpich "$1" "$debs"/lib/*/scalapack/mpich-tests/xdqr) >"$place/xdqr.log" || return
    cat "$place/xdqr.log"
    grep -q 'PASSED' "$place/xdqr.log" && ! grep -q 'FAILED' "$place/xdqr.log" &&
        grep -qE '^ *0 tests completed and failed residual checks' "$place/xdqr.log"
}

packaged() { # packaged WHERE
    run "NetPIPE, $1" netpipe_passes
    run "ScaLAPACK xdqr, 2 ranks, $1" scalapack_passes 2
    run "ScaLAPACK xdqr, 4 ranks, $1" scalapack_passes 4
}

# Run the suite. Its runner lets a program pass that prints only "No Errors" and ends with status 0.
suite() { # suite PROVIDER
    local part tests=$place/tests.$1
    rm -f "$tests"/{passed,failed,skipped}
    touch "$tests"/{passed,failed,skipped}
    run "MPICH takes $1;ofi_rxm" provider_taken "$1"
    for part in "${parts[@]}"; do
        echo "-- $part over $1;ofi_rxm"
        (cd "$tests" && MPITEST_CLEANUP=0 MPITEST_TIMEOUT=180 MPITEST_PROGRAM_WRAPPER=$MPI_DIR/rank.sh \
            ./runtests -srcdir="$source/test/mpi" -tests="$lists" -testdirs="$part" -maxnp=4 \
            -junitfile="$part.xml" -mpiexec="$place/mpich/bin/mpiexec.hydra -launcher fork" \
            -verbose >"$part.log" 2>&1)
        tail -n 2 "$tests/$part.log" | grep 'tests'
        outcomes "$tests/$part.xml" "$tests"
    done
}

# Convert the suite's report to lists of passed, failed and skipped programs: name, ranks,
# arguments. A program that is listed twice (as for 5 and for 10 ranks, here 4) gets a number.
outcomes() { # outcomes REPORT FOLDER
    awk -v folder="$2" '
        /^ *<testcase name=/ {
            state = "passed"
            name = $0
            sub(/^ *<testcase name="[0-9]* - \.\//, "", name)
            sub(/ *"( time="[^"]*")?>.*/, "", name)
            if (seen[name]++) name = name " (" seen[name] ")"
        }
        /^ *<failure type=/ { state = "failed" }
        /^ *<skipped type=/ { state = "skipped" }
        /<\/testcase>$/ { print name >> (folder "/" state) }' "$1"
}

# Check that the same programs have run over both providers, and that the same programs have failed.
compare() {
    local list via=$place/tests.via tcp=$place/tests.tcp count both
    for list in "$via" "$tcp"; do
        sort -o "$list/failed" "$list/failed"
        sort "$list/passed" "$list/failed" >"$list/run"
    done
    count=$(wc -l <"$via/run")
    both=$(comm -12 "$via/failed" "$tcp/failed" | wc -l)
    echo "== fail over both:"
    comm -12 "$via/failed" "$tcp/failed"
    echo "== skipped by the suite (expected to fail, or more memory than it takes for granted):"
    sort -u "$via/skipped"
    diff "$via/run" "$tcp/run" || { echo "not the same programs have run (< via, > tcp)" && return 1; }
    if [ "$count" -eq 0 ] || ! cmp -s "$via/failed" "$tcp/failed"; then
        echo "== fail over via;ofi_rxm only:"
        comm -23 "$via/failed" "$tcp/failed"
        echo "== fail over tcp;ofi_rxm only:"
        comm -13 "$via/failed" "$tcp/failed"
        return 1
    fi
    echo "the failures over via are those over tcp: $count programs, $both fail over both"
}

# ---- main --------------------------------------------------------------------------------------------

ls -d "$place"/mpich-*/configure >/dev/null 2>&1 || fetch
source=$(dirname "$(echo "$place"/mpich-*/configure)")
LD_LIBRARY_PATH=$place/mpich/lib:$(echo "$debs"/lib/*-linux-gnu)
export LD_LIBRARY_PATH
if [ ! -e "$place/mpich/lib/libmpich.so" ]; then
    lone_libfabric
    quietly mpich-configure configure_mpich
    quietly mpich-make make -C "$place/build" -j2
    quietly mpich-install make -C "$place/build" install
fi
if [ ! -d "$place/tests.tcp" ]; then
    quietly tests-configure configure_tests
    quietly tests-make make_tests
fi

export FI_PROVIDER_PATH=$build/ofi FI_VIA_LOSS_FATAL=1 FI_OFI_RXM_SAR_LIMIT=16384
# Ranks on one host must use the provider, too.
export MPIR_CVAR_NOLOCAL=1
MPI_TIMEOUT=${MPI_TIMEOUT:-600}
daemons_begin "$build/vipd"
port_take || exit 1
daemon_start A 127.0.0.1 "$port" && daemon_start B 127.0.0.2 "$port" || exit 1
over via
export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/A
packaged "one vipd"
export VIPD_RUNTIME_DIR_B=$WORK/B
packaged "two vipd"
suite via
over tcp
suite tcp
compare || bad=1
[ $bad -eq 0 ] && echo "tests/mpi/mpich.sh: everything passed" || echo "tests/mpi/mpich.sh: FAILED"
exit $bad
