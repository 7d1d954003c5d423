# Finds LibTorch as SLUICE_TORCH asks and sets SLUICE_HAVE_TORCH, and SLUICE_TORCH_LINKS_CUDA where it has CUDA of the
# toolkit's major version.
#
# LibTorch is part of the Python package `torch`:
#   -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')

set(SLUICE_HAVE_TORCH OFF)
set(SLUICE_TORCH_LINKS_CUDA OFF)
# A LibTorch with CUDA would compile for devices of its own choice, all of the project.
set(architectures "${CMAKE_CUDA_ARCHITECTURES}")
set(flags "${CMAKE_CUDA_FLAGS}")
if(SLUICE_TORCH STREQUAL "ON")
  find_package(Torch REQUIRED)
elseif(SLUICE_TORCH STREQUAL "AUTO")
  find_package(Torch QUIET)
elseif(NOT SLUICE_TORCH STREQUAL "OFF")
  message(FATAL_ERROR "SLUICE_TORCH is \"${SLUICE_TORCH}\": choose AUTO, ON or OFF")
endif()

if(SLUICE_HAVE_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}")
  set(CMAKE_CUDA_FLAGS "${flags}")
endif()

if(Torch_FOUND)
  set(SLUICE_HAVE_TORCH ON)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
  # torch brings a copy of fmt among its headers, newer than the library: look there after the system's.
  foreach(target IN ITEMS headeronly c10 c10_cuda torch_cpu torch_cuda torch)
    if(TARGET ${target})
      set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "")
    endif()
  endforeach()
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    set_property(TARGET torch APPEND PROPERTY INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter \"${folder}\"")
  endforeach()
  if(SLUICE_HAVE_CUDA AND EXISTS "${TORCH_INSTALL_PREFIX}/lib/libtorch_cuda.so"
      AND EXISTS "${TORCH_INSTALL_PREFIX}/lib/libc10_cuda.so")
    set(SLUICE_TORCH_LINKS_CUDA ON)
    # Two CUDA runtimes in one program would each have streams and errors of their own.
    if(EXISTS "${TORCH_INSTALL_PREFIX}/version.py")
      file(STRINGS "${TORCH_INSTALL_PREFIX}/version.py" version REGEX "^cuda.*= *'[0-9]+")
      string(REGEX MATCH "'([0-9]+)" version "${version}")
      if(NOT CMAKE_MATCH_1 STREQUAL CUDAToolkit_VERSION_MAJOR)
        message(WARNING "LibTorch was built with CUDA ${CMAKE_MATCH_1}, the toolkit is ${CUDAToolkit_VERSION}: "
          "its stages run on the host only")
        set(SLUICE_TORCH_LINKS_CUDA OFF)
      endif()
    endif()
  endif()
  # torch's link line carries folders of the machine it was built on: name the run paths that count.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  list(APPEND CMAKE_INSTALL_RPATH "${TORCH_INSTALL_PREFIX}/lib" ${CUDAToolkit_LIBRARY_DIR})
endif()
message(STATUS "LibTorch stages: ${SLUICE_HAVE_TORCH}, on CUDA: ${SLUICE_TORCH_LINKS_CUDA}")
