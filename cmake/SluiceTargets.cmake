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
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${arg_HEADERS}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()
