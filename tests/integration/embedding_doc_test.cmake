# Builds and runs the program that docs/embedding-cpp.md shows, against an installed Sluice.
include("${CMAKE_CURRENT_LIST_DIR}/installed.cmake")
set(source "${SCRATCH}/source")
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${source}")

# Appends the document's only code block of a language to a file.
function(extract language path)
  file(READ "${DOC}" text)
  string(FIND "${text}" "```${language}\n" start)
  if(start EQUAL -1)
    message(FATAL_ERROR "${DOC} has no ${language} block")
  endif()
  string(LENGTH "```${language}\n" fence)
  math(EXPR start "${start} + ${fence}")
  string(SUBSTRING "${text}" ${start} -1 text)
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} code)
  file(APPEND "${path}" "${code}")
endfunction()

extract(cpp "${source}/main.cpp")
file(WRITE "${source}/CMakeLists.txt"
  "cmake_minimum_required(VERSION 3.25)\nproject(trainer LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 20)\n")
extract(cmake "${source}/CMakeLists.txt")
build_against_installed("${source}")
run("${SCRATCH}/build/trainer")
