# Builds and runs the ten-line consumer against an installed Sluice.
include("${CMAKE_CURRENT_LIST_DIR}/installed.cmake")
file(REMOVE_RECURSE "${SCRATCH}")
build_against_installed("${CONSUMER}")
execute_process(COMMAND "${SCRATCH}/build/consumer" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL "4 stages, 8 microbatches\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
