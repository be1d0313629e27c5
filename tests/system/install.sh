#!/usr/bin/env bash
# `cmake --install` into a prefix must install the documented files. The tools must run from there.
# A program must build with pkg-config and with the CMake package. A program must be able to load
# `vipl.so` at run time, as old programs do.
# usage: install.sh BUILD_DIR (a release build)
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "${1:?build directory}")
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
P=$prefix/P

cmake --install "$build" --prefix "$P" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
for file in sbin/vipd bin/vipctl bin/vipperf bin/amrun include/vipl.h include/vipl_ext.h lib/libvipl.so \
    share/vipd/schema/show-vi.json share/bash-completion/completions/vipctl \
    lib/systemd/system/vipd.service lib/systemd/system/vipd.socket lib/sysusers.d/vipd.conf \
    lib/libvipl.a lib/vipl.so lib/pkgconfig/vipl.pc include/am.h \
    include/am_amx.h include/vipam/ammpi.h lib/libvipam.so lib/pkgconfig/vipam.pc lib/cmake/vipl/viplConfig.cmake; do
    [ -e "$P/$file" ] || { echo "missing after installation: $file"; exit 1; }
done
# Build and run a Split-C program with the installed files only.
"$P/bin/splitcc" -O2 -std=gnu89 -w -o "$prefix/heat" examples/splitc/heat.sc -lm
"$prefix/heat"
# If the build found libfabric, the MPI provider is installed, and libfabric must load it.
if [ -e "$build/ofi/libvipl-fi.so" ]; then
    FI_PROVIDER_PATH=$P/lib/libfabric fi_info -l | grep -qx 'via:' || {
        echo "libfabric does not load $P/lib/libfabric/libvipl-fi.so"
        exit 1
    }
    "$P/bin/viampirun" --env | grep -qx "export FI_PROVIDER_PATH='$P/lib/libfabric'" || {
        echo "viampirun does not find the provider that is installed beside it"
        exit 1
    }
fi
"$P/sbin/vipd" --version
"$P/bin/vipctl" --version
"$P/bin/vipperf" --version
"$P/bin/amrun" --version

cat >"$prefix/load.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    void *library = dlopen("vipl.so", RTLD_NOW);
    if (!library || !dlsym(library, "VipOpenNic") || !dlsym(library, "VipConnectPeerWait")) {
        puts(dlerror());
        return 1;
    }
    return 0;
}
C
gcc -o "$prefix/load" "$prefix/load.c" -ldl
LD_LIBRARY_PATH=$P/lib "$prefix/load"

export PKG_CONFIG_PATH=$P/lib/pkgconfig
# shellcheck disable=SC2046
gcc -Wall -Werror -o "$prefix/hello" examples/hello.c $(pkg-config --cflags --libs vipl)
gcc -Wall -Werror -o "$prefix/hello-static" examples/hello.c -I"$P/include" "$P/lib/libvipl.a" -lpthread
cat >"$prefix/am.c" <<'C'
#include <ammpi_spmd.h>
#include <am_old.h>
int main(void)
{
    return AM_MaxLong() < 8192 || AMX_SPMDMyProc() != -1;
}
C
# shellcheck disable=SC2046
gcc -Wall -Werror -DAMMPI -o "$prefix/am" "$prefix/am.c" $(pkg-config --cflags --libs vipam)
LD_LIBRARY_PATH=$P/lib "$prefix/am"
mkdir "$prefix/cm"
cat >"$prefix/cm/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.20)
project(hello C)
find_package(vipl REQUIRED)
add_executable(hello $PWD/examples/hello.c)
target_link_libraries(hello vipl::vipl_shared)
C
cmake -G Ninja -S "$prefix/cm" -B "$prefix/cm/b" -DCMAKE_PREFIX_PATH="$P" >"$prefix/log" &&
    cmake --build "$prefix/cm/b" >>"$prefix/log" || { cat "$prefix/log"; exit 1; }
echo "install: files, tools, pkg-config, CMake package and vipl.so are good"
