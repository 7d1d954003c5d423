# Finds NCCL's header as SLUICE_NCCL asks and sets SLUICE_HAVE_NCCL. The library is loaded when a program runs.

set(SLUICE_HAVE_NCCL OFF)
if(NOT SLUICE_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SLUICE_NCCL is \"${SLUICE_NCCL}\": choose AUTO, ON or OFF")
endif()

if(NOT SLUICE_NCCL STREQUAL "OFF" AND SLUICE_HAVE_CUDA)
  # The Python packages of NCCL and of torch bring the header too.
  file(GLOB packages
    "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include"
    "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/nccl/include")
  find_path(SLUICE_NCCL_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_HOME}/include" ${packages})
  if(SLUICE_NCCL_INCLUDE_DIR)
    file(STRINGS "${SLUICE_NCCL_INCLUDE_DIR}/nccl.h" lines REGEX "#define NCCL_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
    list(JOIN numbers "." SLUICE_NCCL_VERSION)
    if(SLUICE_NCCL_VERSION VERSION_GREATER_EQUAL 2.29)
      set(SLUICE_HAVE_NCCL ON)
    endif()
  endif()
endif()
if(SLUICE_NCCL STREQUAL "ON" AND NOT SLUICE_HAVE_NCCL)
  message(FATAL_ERROR "SLUICE_NCCL is ON, but CUDA or NCCL's header of 2.29 or later is missing "
                      "(found: ${SLUICE_NCCL_INCLUDE_DIR} ${SLUICE_NCCL_VERSION})")
endif()
message(STATUS "NCCL: ${SLUICE_HAVE_NCCL} ${SLUICE_NCCL_VERSION}")
