# Functions that add the project's targets.

# sluice_glob(<variable> <pattern>...): sources below the current folder, found again at each build.
function(sluice_glob variable)
  file(GLOB sources CONFIGURE_DEPENDS LIST_DIRECTORIES false ${ARGN})
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# sluice_add_library(<component> HEADERS <folder> SOURCES <file>... PUBLIC <target>... PRIVATE <target>...)
#
# Adds the static library sluice_<component> with the alias Sluice::<component>; without sources, a
# header-only one. HEADERS is the folder that consumers include from.
function(sluice_add_library component)
  cmake_parse_arguments(arg "" "HEADERS" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target sluice_${component})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:sluice_warnings>)
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC} ${arg_PRIVATE})
  endif()
  add_library(Sluice::${component} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  target_compile_features(${target} ${scope} cxx_std_20)
  if(SLUICE_UNITY AND arg_SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # It takes sources that are included for headers.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${arg_HEADERS}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# sluice_precompile(<target> <header>...): headers that take most of the time of the sources that include them are
# compiled once for the target.
function(sluice_precompile target)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes precompiled headers of the system's for the project's own, and warns of them.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>)
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
    # Without these ccache does not serve sources with precompiled headers.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
  endif()
endfunction()
