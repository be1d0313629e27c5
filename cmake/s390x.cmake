# Cross build for s390x, a machine with the other byte order (cross.cmake).
set(VIP_CROSS s390x)
set(VIP_MACHINE s390x)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
