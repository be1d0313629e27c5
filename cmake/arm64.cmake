# Cross build for arm64 (cross.cmake).
set(VIP_CROSS arm64)
set(VIP_MACHINE aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
