# What `cmake --install` puts where: P/sbin/vipd, P/bin/{vipctl,vipperf,amrun}, P/lib, P/include.
include(CMakePackageConfigHelpers)

install(TARGETS vipd RUNTIME DESTINATION sbin)
install(TARGETS vipctl vipperf amrun RUNTIME DESTINATION bin)
set_target_properties(vipperf PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")

install(TARGETS vipl_shared vipl_static EXPORT vipl
    LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
install(FILES libvipl/vipl.h libvipl/vipl_ext.h DESTINATION include)

# Active Messages: am.h and what it needs in include/, the names that programs of the AMX family
# include in include/vipam/.
install(TARGETS vipam EXPORT vipl LIBRARY DESTINATION lib)
set_target_properties(vipam PROPERTIES INSTALL_RPATH "$ORIGIN")
install(FILES am/am.h am/am_macros.h am/am_stats.h am/am_amx.h am/am_old.h DESTINATION include)
install(FILES am/compat/ammpi.h am/compat/ammpi_spmd.h am/compat/amudp.h am/compat/amudp_spmd.h
    DESTINATION include/vipam)
configure_file(cmake/vipam.pc.in ${CMAKE_BINARY_DIR}/vipam.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/vipam.pc DESTINATION lib/pkgconfig)

# Old programs load `vipl.so` at run time.
install(CODE "file(CREATE_LINK libvipl.so
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/vipl.so\" SYMBOLIC)")

configure_file(cmake/vipl.pc.in ${CMAKE_BINARY_DIR}/vipl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/vipl.pc DESTINATION lib/pkgconfig)

configure_package_config_file(cmake/viplConfig.cmake.in ${CMAKE_BINARY_DIR}/viplConfig.cmake
    INSTALL_DESTINATION lib/cmake/vipl)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/viplConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/viplConfig.cmake ${CMAKE_BINARY_DIR}/viplConfigVersion.cmake
    DESTINATION lib/cmake/vipl)
install(EXPORT vipl NAMESPACE vipl:: DESTINATION lib/cmake/vipl FILE viplTargets.cmake)

install(FILES ${CMAKE_BINARY_DIR}/vipd/vipd.conf DESTINATION share/doc/vipd RENAME vipd.conf.example)
install(FILES LICENSE README.md DESTINATION share/doc/vipd)

# What vipctl prints about itself, and the form of its JSON documents.
install(FILES ${CMAKE_BINARY_DIR}/tools/vipctl.bash
    DESTINATION share/bash-completion/completions RENAME vipctl)
install(FILES ${CMAKE_BINARY_DIR}/tools/vipctl.zsh
    DESTINATION share/zsh/vendor-completions RENAME _vipctl)
install(FILES ${CMAKE_BINARY_DIR}/tools/vipctl.fish DESTINATION share/fish/vendor_completions.d)
install(DIRECTORY schema/ DESTINATION share/vipd/schema)

# The service: units, users, folders, limits of the kernel. Units go below the prefix; a package in /usr
# has them where systemd looks.
set(VIPD_SBIN ${CMAKE_INSTALL_FULL_SBINDIR})
set(VIPD_BIN ${CMAKE_INSTALL_FULL_BINDIR})
set(VIPD_UNITS vipd.service vipd@.service)
if(TARGET vipd-exporter)
    install(TARGETS vipd-exporter RUNTIME DESTINATION bin)
    list(APPEND VIPD_UNITS vipd-exporter.service)
endif()
foreach(unit ${VIPD_UNITS})
    configure_file(systemd/${unit}.in ${CMAKE_BINARY_DIR}/systemd/${unit} @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/systemd/${unit} DESTINATION lib/systemd/system)
endforeach()
configure_file(systemd/user/vipd.service.in ${CMAKE_BINARY_DIR}/systemd/user/vipd.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/systemd/user/vipd.service DESTINATION lib/systemd/user)
install(FILES systemd/vipd.socket DESTINATION lib/systemd/system)
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME vipd.conf)
install(FILES systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME vipd.conf)
install(FILES systemd/sysctl.conf DESTINATION lib/sysctl.d RENAME 60-vipd.conf)
foreach(script vipd-latency.bt vipd-losses.bt)
    configure_file(tools/bpftrace/${script}.in ${CMAKE_BINARY_DIR}/bpftrace/${script} @ONLY)
    install(PROGRAMS ${CMAKE_BINARY_DIR}/bpftrace/${script} DESTINATION share/vipd/bpftrace)
endforeach()
install(FILES systemd/drop-ins/raw-ethernet.conf systemd/drop-ins/realtime.conf
    DESTINATION share/doc/vipd/drop-ins)

if(SCDOC)
    foreach(section 1 3 5 7 8)
        install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION share/man/man${section}
            FILES_MATCHING PATTERN "*.${section}")
    endforeach()
endif()

# Where Debian's Wireshark looks for Lua, whatever its version.
install(FILES tools/wireshark/vipd.lua
    DESTINATION lib/${CMAKE_LIBRARY_ARCHITECTURE}/wireshark/plugins)
