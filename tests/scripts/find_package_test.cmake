# Installs BUILD, moves the tree, builds the EXAMPLES against it, and serves kernels that the installed
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
set(flags -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${WORK}/moved)
if(FLAGS)
  list(APPEND flags -DCMAKE_C_FLAGS=${FLAGS} -DCMAKE_CXX_FLAGS=${FLAGS})
endif()
if(LAUNCHER)
  list(APPEND flags -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()
must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLES}/find_package -B ${WORK}/build ${flags})
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

# The C example: a program that links one library and that library's header.
must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLES}/serving_c -B ${WORK}/build_c ${flags})
must(${CMAKE_COMMAND} --build ${WORK}/build_c)
execute_process(COMMAND ${WORK}/build_c/serving ${WORK}/kernels.db
  RESULT_VARIABLE code ERROR_VARIABLE output)
if(NOT code EQUAL 1 OR NOT output MATCHES
   "looking the kernel up: miss error: .*tune-cli tune matmul:m=1..64,n=48,k=32 --db ")
  message(FATAL_ERROR "the C example ended with ${code} without its kernel:\n${output}")
endif()
must(${WORK}/moved/bin/tune-cli tune matmul:m=1..64,n=48,k=32 --db ${WORK}/kernels.db
  --trials 2 --threads 2)
must(${WORK}/build_c/serving ${WORK}/kernels.db)
if(NOT output MATCHES "tilewright [0-9.]+: [^\n]*, largest error 0\n")
  message(FATAL_ERROR "the C example printed:\n${output}")
endif()
execute_process(COMMAND ldd ${WORK}/build_c/serving OUTPUT_VARIABLE libraries
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT libraries MATCHES "moved/lib[^\n]*/libtilewright.so|libtilewright.so[^\n]*moved"
   OR libraries MATCHES "xgboost|libfmt|spdlog")
  message(FATAL_ERROR "the C example loads:\n${libraries}")
endif()
# The C++ example: one kernel for batches of all sizes, with weights of 4 bits.
must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLES}/serving_decode -B ${WORK}/build_decode ${flags})
must(${CMAKE_COMMAND} --build ${WORK}/build_decode)
must(${WORK}/moved/bin/tune-cli tune matmul:m=1..16,n=128,k=128,w.dtype=i4,w.group=32
  --db ${WORK}/kernels.db --trials 2 --threads 2)
must(${WORK}/build_decode/decode ${WORK}/kernels.db)
if(NOT output MATCHES "24 sequences in 19 steps of 1 to 12 rows, largest error [0-9.e-]+\n")
  message(FATAL_ERROR "the decode example printed:\n${output}")
endif()
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE description ${WORK}/moved/*/tilewright.pc)
  must(${PKG_CONFIG} --cflags --libs ${description})
  if(NOT output MATCHES "moved[^ ]*/include.* -L[^ ]*moved.* -ltilewright")
    message(FATAL_ERROR "pkg-config says:\n${output}")
  endif()
endif()
