# The parsers of untrusted input under fuzzing: each tests/fuzz/NAME_fuzz.cc becomes the program
# NAME_fuzz, with libFuzzer behind it where TILEWRIGHT_FUZZERS is set, else with seeded mutations.
# The test fuzz.NAME runs some of these, and every input in tests/fuzz/corpus/NAME.

set(fuzz_library "")
if(TILEWRIGHT_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TILEWRIGHT_FUZZERS needs clang, and the compiler is "
      "${CMAKE_CXX_COMPILER_ID}: use cmake --preset fuzz")
  endif()
  # libFuzzer without its main(): tests/fuzz/driver.cc calls it.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-resource-dir
    OUTPUT_VARIABLE clang_resources OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(GLOB fuzz_library ${clang_resources}/lib/*/libclang_rt.fuzzer_no_main*${CMAKE_SYSTEM_PROCESSOR}.a)
  if(NOT fuzz_library)
    message(FATAL_ERROR "clang's libFuzzer is not installed: run scripts/deps --fuzz")
  endif()
endif()

file(GLOB fuzz_targets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
add_library(tw_fuzz STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/driver.cc
  ${PROJECT_SOURCE_DIR}/tests/fuzz/mutate.cc)
target_link_libraries(tw_fuzz PUBLIC fmt::fmt)
target_include_directories(tw_fuzz PUBLIC ${PROJECT_SOURCE_DIR})
if(TILEWRIGHT_FUZZERS)
  target_compile_definitions(tw_fuzz PRIVATE TILEWRIGHT_LIBFUZZER)
  target_link_libraries(tw_fuzz PUBLIC ${fuzz_library})
endif()

# The parts of the project that targets need, so that few can be built alone; else the runtime.
set(needed_by_spec_text ir)
set(needed_by_spec_json ir)
set(needed_by_expression ir)
set(needed_by_program ir)
set(needed_by_index_map ir)
set(needed_by_trace schedule)
set(needed_by_kernel_description kernel)
set(needed_by_cuda_description kernel)
set(needed_by_database_file database)
set(needed_by_database_jsonl database)
set(needed_by_onnx models)
set(needed_by_graph_text graph)
set(needed_by_model_index serving_static)
set(needed_by_gguf models)
set(needed_by_safetensors models)
set(needed_by_shard_index models)

add_custom_target(fuzzers)
foreach(source ${fuzz_targets})
  get_filename_component(program ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" target ${program})
  add_executable(${program} ${source})
  if(NOT DEFINED needed_by_${target})
    set(needed_by_${target} runtime)
  endif()
  target_link_libraries(${program} PRIVATE tw_fuzz tw_${needed_by_${target}} GTest::gtest)
  add_dependencies(fuzzers ${program})
  list(APPEND TILEWRIGHT_TEST_PROGRAMS ${program})
  # Files on a disk take their time.
  set(runs 5000)
  if(target STREQUAL "database_file")
    set(runs 300)
  endif()
  add_test(NAME fuzz.${target} COMMAND ${program} --runs ${runs} --seed 1
    --corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${target})
  set_tests_properties(fuzz.${target} PROPERTIES TIMEOUT 600)
endforeach()
