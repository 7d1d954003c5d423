# Finds UCX as SLUICE_UCX asks and sets SLUICE_HAVE_UCX.

set(SLUICE_HAVE_UCX OFF)
if(SLUICE_UCX STREQUAL "ON")
  find_package(ucx REQUIRED)
elseif(SLUICE_UCX STREQUAL "AUTO")
  find_package(ucx QUIET)
elseif(NOT SLUICE_UCX STREQUAL "OFF")
  message(FATAL_ERROR "SLUICE_UCX is \"${SLUICE_UCX}\": choose AUTO, ON or OFF")
endif()

if(ucx_FOUND)
  set(SLUICE_HAVE_UCX ON)
endif()
message(STATUS "Message plane between processes (UCX): ${SLUICE_HAVE_UCX}")
