# Shared by ./demo, ./check and the tests' scripts: messages, packages, building. Sourced by bash.
# It only defines variables and functions.

# What a build needs, what the demonstration adds, and what the tests add (Debian 12 names).
PACKAGES_BUILD="gcc libc6-dev cmake ninja-build pkg-config binutils protobuf-c-compiler
    libprotobuf-c-dev libev-dev libeconf-dev libisal-dev libpcap-dev libbpf-dev libsodium-dev libsystemd-dev
    libsmartcols-dev libncurses-dev libmicrohttpd-dev libpmix-dev systemtap-sdt-dev"
PACKAGES_DEMO="gnuplot-nox jq"
PACKAGES_BENCH="python3-minimal gnuplot-nox iproute2"
PACKAGES_CHECK="python3-minimal jq valgrind g++ clang clang-format libcmocka-dev iproute2 git openmpi-bin mpich python3-jsonschema"
PACKAGES_CHECK="$PACKAGES_CHECK libfabric-dev libfabric-bin libopenmpi-dev"
PACKAGES_CHECK="$PACKAGES_CHECK systemd scdoc mandoc bsdextrautils tshark spin"
# Cross builds and their tests under qemu (tests/cross).
PACKAGES_CROSS="gcc-aarch64-linux-gnu gcc-s390x-linux-gnu qemu-user"
# Unmodified MPI programs for ./check --mpi.
PACKAGES_MPI="hpcc lammps netpipe-openmpi scalapack-mpi-test python3-mpi4py"

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Print which of the named packages are missing, and install these.
install_packages() {
    local missing=() package sudo=""
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        say "Packages: all $# needed are installed."
        return 0
    fi
    say "Packages to install with apt-get (Debian): ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            die "these packages are missing and there is no sudo; as root run: apt-get install ${missing[*]}"
        sudo="sudo"
    fi
    local log
    log=$(mktemp)
    if ! { $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "apt-get could not install the packages above"
    fi
    rm -f "$log"
    say "Installed ${#missing[@]} packages."
}

# build_preset PRESET [TARGET...]: configure and build. Print the output if that fails, else only
# warnings.
build_preset() {
    local preset=$1 log
    shift
    log=$(mktemp)
    if ! { cmake --preset "$preset" && cmake --build "build/$preset" ${1:+--target "$@"}; } \
        >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    if grep -q 'warning:' "$log"; then
        grep 'warning:' "$log"
    fi
    rm -f "$log"
}
