# The small libraries of the build as a folder that can be carried to another machine (tools/gpu_check.sh
# --bundle): <bundle>/include, <bundle>/lib, and this file as <bundle>/share/cmake/packages.cmake, which the
# bundle's config file of each package includes.

get_filename_component(bundle "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

# bundle_package(<target> [<library file>]): the headers, and the library if there is one.
function(bundle_package target)
  if(TARGET ${target})
    return()
  endif()
  if(ARGN)
    add_library(${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${bundle}/lib/${ARGN}")
  else()
    add_library(${target} INTERFACE IMPORTED GLOBAL)
  endif()
  target_include_directories(${target} INTERFACE "${bundle}/include")
endfunction()

find_package(Threads REQUIRED)
bundle_package(CLI11::CLI11)
bundle_package(dlpack::dlpack)
bundle_package(nlohmann_json::nlohmann_json)
bundle_package(tomlplusplus::tomlplusplus)
bundle_package(fmt::fmt)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
bundle_package(GTest::gtest libgtest.a)
target_link_libraries(GTest::gtest INTERFACE Threads::Threads)
bundle_package(GTest::gmock libgmock.a)
target_link_libraries(GTest::gmock INTERFACE GTest::gtest)
bundle_package(GTest::gtest_main libgtest_main.a)
target_link_libraries(GTest::gtest_main INTERFACE GTest::gtest)
bundle_package(rapidcheck librapidcheck.a)
bundle_package(rapidcheck_gtest)
target_link_libraries(rapidcheck_gtest INTERFACE rapidcheck GTest::gtest)
bundle_package(benchmark::benchmark libbenchmark.so)
bundle_package(benchmark::benchmark_main libbenchmark_main.a)
target_link_libraries(benchmark::benchmark_main INTERFACE benchmark::benchmark)
