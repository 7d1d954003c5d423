# Finds Python and pybind11 as SLUICE_PYTHON asks and sets SLUICE_HAVE_PYTHON.

set(SLUICE_HAVE_PYTHON OFF)
# SKBUILD is set by scikit-build-core, which pip runs.
if(SLUICE_PYTHON STREQUAL "ON" OR (SLUICE_PYTHON STREQUAL "AUTO" AND DEFINED SKBUILD))
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
  find_package(pybind11 2.13 REQUIRED CONFIG)
elseif(SLUICE_PYTHON STREQUAL "AUTO")
  find_package(Python QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    find_package(pybind11 2.13 QUIET CONFIG)
  endif()
elseif(NOT SLUICE_PYTHON STREQUAL "OFF")
  message(FATAL_ERROR "SLUICE_PYTHON is \"${SLUICE_PYTHON}\": choose AUTO, ON or OFF")
endif()

if(pybind11_FOUND)
  set(SLUICE_HAVE_PYTHON ON)
endif()
message(STATUS "Python package: ${SLUICE_HAVE_PYTHON}")
