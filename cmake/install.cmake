# What `cmake --install` puts where: P/sbin/vipd, P/bin/{vipctl,vipperf,amrun}, P/lib, P/include.
include(CMakePackageConfigHelpers)

install(TARGETS vipd RUNTIME DESTINATION sbin)
install(TARGETS vipctl vipperf amrun RUNTIME DESTINATION bin)
set_target_properties(vipperf PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")

install(TARGETS vipl_shared vipl_static EXPORT vipl
    LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
install(FILES libvipl/vipl.h libvipl/vipl_ext.h DESTINATION include)

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

install(FILES conf/vipd.conf DESTINATION share/doc/vipd RENAME vipd.conf.example)
install(FILES LICENSE README.md DESTINATION share/doc/vipd)
