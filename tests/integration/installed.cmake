# Installs the build into a fresh prefix, then configures and builds a project against it.
# In: BUILD, SCRATCH, GENERATOR, CONFIG, COMPILER, SANITIZE.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Afterwards the project's programs are in ${SCRATCH}/build.
function(build_against_installed source)
  set(flags "")
  if(SANITIZE)
    set(flags "-fsanitize=${SANITIZE}")
  endif()
  run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${SCRATCH}/prefix")
  run(${CMAKE_COMMAND} -S "${source}" -B "${SCRATCH}/build" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" "-DCMAKE_BUILD_TYPE=${CONFIG}"
      "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${flags}")
  run(${CMAKE_COMMAND} --build "${SCRATCH}/build")
endfunction()
