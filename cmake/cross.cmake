# Cross builds with Debian's compilers, whose tests run under qemu-user. Included by arm64.cmake and s390x.cmake,
# which set VIP_CROSS (Debian's name) and VIP_MACHINE (the compiler's). The libraries are in a tree of Debian's packages:
# build/root-$VIP_CROSS, made by tests/cross/root.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${VIP_MACHINE})
set(CMAKE_C_COMPILER ${VIP_MACHINE}-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${VIP_MACHINE}-linux-gnu)
get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/root-${VIP_CROSS} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${CMAKE_SYSROOT}/usr/lib/${VIP_MACHINE}-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${VIP_MACHINE};-L;${CMAKE_SYSROOT})
