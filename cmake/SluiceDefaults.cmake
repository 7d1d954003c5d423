# Settings of a top-level build, and the flags that all targets of the project share.

include(GNUInstallDirs)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  find_program(SLUICE_CCACHE ccache)
  if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${SLUICE_CCACHE}" CACHE STRING "Compiler launcher" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set_property(GLOBAL APPEND PROPERTY JOB_POOLS sluice_torch=${SLUICE_TORCH_JOBS})

# Every object of the build needs the sanitizers, and whoever links it.
if(SLUICE_SANITIZE)
  set(cxx "$<COMPILE_LANGUAGE:CXX>")
  set(cuda "$<COMPILE_LANGUAGE:CUDA>")
  add_compile_options($<${cxx}:-fsanitize=${SLUICE_SANITIZE}> $<${cxx}:-fno-omit-frame-pointer>)
  # nvcc would take the comma for its own.
  string(REPLACE "," ";" sanitizers "${SLUICE_SANITIZE}")
  foreach(sanitizer IN LISTS sanitizers)
    add_compile_options("$<${cuda}:SHELL:-Xcompiler -fsanitize=${sanitizer}>")
  endforeach()
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
  if(SLUICE_SANITIZE MATCHES "undefined")
    add_compile_options($<${cxx}:-fno-sanitize-recover=undefined>)
  endif()
endif()

# nvcc hands its own glue code to the host compiler, which these would warn of.
add_library(sluice_warnings INTERFACE)
set(warnings
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wextra-semi
  $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow>
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:SLUICE_TEST_CODE>>>:-Wconversion>
  # GCC 12 warns of its own std::string concatenation (bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)
target_compile_options(sluice_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
