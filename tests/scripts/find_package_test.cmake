# Installs BUILD, moves the tree, builds EXAMPLE against it, and serves a kernel that the installed
# tune-cli has tuned.
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code)
    message(FATAL_ERROR "failed (${code}): ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
set(flags "")
if(FLAGS)
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=${FLAGS})
endif()
must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLE} -B ${WORK}/build -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_PREFIX_PATH=${WORK}/moved ${flags})
must(${CMAKE_COMMAND} --build ${WORK}/build)

# Without a database it says which command makes one.
execute_process(COMMAND ${WORK}/build/example ${WORK}/kernels.db
  RESULT_VARIABLE code ERROR_VARIABLE output)
if(NOT code EQUAL 1 OR NOT output MATCHES "kernels.db.*tune-cli tune matmul:m=64,n=48,k=32 --db ")
  message(FATAL_ERROR "the example ended with ${code} without a database:\n${output}")
endif()

if(NOT EXISTS ${WORK}/moved/bin/tune-cli)
  message(FATAL_ERROR "tune-cli was not installed: build it first")
endif()
must(${WORK}/moved/bin/tune-cli tune matmul:m=64,n=48,k=32 --db ${WORK}/kernels.db
  --trials 2 --threads 1)
must(${WORK}/build/example ${WORK}/kernels.db)
if(NOT output MATCHES "tilewright [^\n]*: C\\[1, 2\\] = [-0-9.]+, largest error 0\n")
  message(FATAL_ERROR "the example printed:\n${output}")
endif()

# Who serves kernels links neither the tuner's libraries nor what they need.
execute_process(COMMAND ldd ${WORK}/build/example OUTPUT_VARIABLE libraries
  COMMAND_ERROR_IS_FATAL ANY)
if(libraries MATCHES "xgboost")
  message(FATAL_ERROR "the example loads XGBoost:\n${libraries}")
endif()
