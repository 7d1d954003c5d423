# Finds LibTorch as SLUICE_TORCH asks and sets SLUICE_HAVE_TORCH.
#
# LibTorch is part of the Python package `torch`:
#   -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')

set(SLUICE_HAVE_TORCH OFF)
if(SLUICE_TORCH STREQUAL "ON")
  find_package(Torch REQUIRED)
elseif(SLUICE_TORCH STREQUAL "AUTO")
  find_package(Torch QUIET)
elseif(NOT SLUICE_TORCH STREQUAL "OFF")
  message(FATAL_ERROR "SLUICE_TORCH is \"${SLUICE_TORCH}\": choose AUTO, ON or OFF")
endif()

if(Torch_FOUND)
  set(SLUICE_HAVE_TORCH ON)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
  # torch brings a copy of fmt among its headers, newer than the library: look there after the system's.
  foreach(target IN ITEMS headeronly c10 torch_cpu torch)
    if(TARGET ${target})
      set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "")
    endif()
  endforeach()
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    set_property(TARGET torch APPEND PROPERTY INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter \"${folder}\"")
  endforeach()
  # torch's link line carries folders of the machine it was built on: name the run paths that count.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  list(APPEND CMAKE_INSTALL_RPATH "${TORCH_INSTALL_PREFIX}/lib" ${CUDAToolkit_LIBRARY_DIR})
endif()
message(STATUS "LibTorch stages: ${SLUICE_HAVE_TORCH}")
