# Builds and runs the program that docs/embedding-cpp.md shows, against an installed Sluice.
set(prefix "${SCRATCH}/prefix")
set(source "${SCRATCH}/source")
set(build "${SCRATCH}/build")
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${source}")

# Writes the document's only code block of a language to a file.
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

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()
extract(cpp "${source}/main.cpp")
file(WRITE "${source}/CMakeLists.txt"
  "cmake_minimum_required(VERSION 3.25)\nproject(trainer LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 20)\n")
extract(cmake "${source}/CMakeLists.txt")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
run(${CMAKE_COMMAND} -S "${source}" -B "${build}" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build "${build}")
run("${build}/trainer")
