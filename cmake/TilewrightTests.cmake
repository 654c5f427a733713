# One GoogleTest program a folder of tests/, each of its cases a ctest case, and the checks of the
# tree itself. Cases are listed when ctest starts, so that a build runs no test program. Their names hold
# no values of parameters, which may print as addresses.

find_package(GTest REQUIRED)
include(GoogleTest)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# What the tests of all folders share: golden files.
add_library(tw_test_support STATIC ${PROJECT_SOURCE_DIR}/tests/golden.cc)
target_include_directories(tw_test_support PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(tw_test_support PUBLIC GTest::gtest GTest::gmock)
target_compile_definitions(tw_test_support
  PUBLIC TILEWRIGHT_BINARY_DIR="${PROJECT_BINARY_DIR}"
  PRIVATE TILEWRIGHT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_library(tw_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/main.cc)
target_link_libraries(tw_test_main PUBLIC GTest::gtest)

# The schedule fuzzer finds the programs that lowering and formats are tried on, too.
file(GLOB schedule_fuzzer CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/schedule/fuzz/fuzz_schedule*.cc)
list(FILTER schedule_fuzzer EXCLUDE REGEX "_(test|main)\\.cc$")
add_library(tw_schedule_fuzzer STATIC ${schedule_fuzzer})
target_include_directories(tw_schedule_fuzzer PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(tw_schedule_fuzzer PUBLIC tw_schedule)

# Hand-written kernels that the emulator runs, and that a device compiles.
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/*.cc)
add_library(tw_test_kernels STATIC ${kernels})
target_include_directories(tw_test_kernels PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(tw_test_kernels PUBLIC tw_emulator)

# Cases compile quicker with little optimization, or with none where they mostly start commands or read
# small files. What counts millions of steps itself (fuzzers, mutants and their ground truth) is
# optimized.
set(hardly_run base kernel models database serving provider cli)

set(TILEWRIGHT_TEST_PROGRAMS "")
foreach(folder base ir kernel schedule codegen runtime emulator models graph database serving provider tuner cli)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cc)
  # A program of its own that tests start (tests/FOLDER/NAME_main.cc) is not part of the cases.
  set(programs ${sources})
  list(FILTER programs INCLUDE REGEX "_main\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_main\\.cc$")
  if(NOT TARGET tw_${folder})
    continue()
  endif()
  foreach(program ${programs})
    get_filename_component(program_name ${program} NAME_WE)
    string(REGEX REPLACE "_main$" "" program_name ${program_name})
    # What it shares with the cases: tests/FOLDER/NAME*.cc.
    set(shared ${sources})
    list(FILTER shared INCLUDE REGEX "/${program_name}[a-z_]*\\.cc$")
    list(FILTER shared EXCLUDE REGEX "_test\\.cc$")
    add_executable(${program_name} ${program} ${shared})
    target_include_directories(${program_name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${program_name} PRIVATE tw_${folder} GTest::gtest)
    list(APPEND TILEWRIGHT_TEST_PROGRAMS ${program_name})
    list(APPEND started_by_${folder} ${program_name})
  endforeach()
  if(NOT sources)
    continue()
  endif()
  add_executable(test_${folder} ${sources})
  if(started_by_${folder})
    add_dependencies(test_${folder} ${started_by_${folder}})
  endif()
  list(APPEND TILEWRIGHT_TEST_PROGRAMS test_${folder})
  set(tested tw_${folder})
  if(folder STREQUAL "serving")
    set(tested tw_serving_static)  # the shared library shows its interface alone
  endif()
  target_link_libraries(test_${folder} PRIVATE ${tested} tw_test_support tw_test_main)
  if(folder IN_LIST hardly_run)
    target_compile_options(test_${folder} PRIVATE $<$<CONFIG:Release>:-O0>)
  else()
    target_compile_options(test_${folder} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(folder STREQUAL "cli" AND TARGET tune-cli)
    add_dependencies(test_cli tune-cli fleet_device)  # the latter stands in for wrong workers
  endif()
  gtest_discover_tests(test_${folder} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600)
endforeach()

# What threads share of a serving process, built once more with the thread sanitizer: the library,
# and of the runtime the pool and the kernels. What these only call while they hold a lock comes from
# the other libraries as it is.
if(TARGET test_serving AND NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_COVERAGE)
  file(GLOB shared_by_threads CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/serving/*.cc
    ${PROJECT_SOURCE_DIR}/serving/models/*.cc)
  file(GLOB loading CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/load/*.cc)
  add_executable(test_threads ${shared_by_threads} ${loading}
    ${PROJECT_SOURCE_DIR}/runtime/thread_pool.cc
    ${PROJECT_SOURCE_DIR}/tests/serving/threads_test.cc
    ${PROJECT_SOURCE_DIR}/tests/runtime/thread_pool_test.cc)
  set(sanitized -fsanitize=thread -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(test_threads PRIVATE ${sanitized} -O1 -g1 -Wno-tsan)
  target_link_options(test_threads PRIVATE -fsanitize=thread)
  target_link_libraries(test_threads PRIVATE tw_graph tw_database tw_models tw_runtime tw_kernel tw_ir tw_base
    tw_test_support GTest::gtest_main)
  target_include_directories(test_threads SYSTEM PRIVATE ${XXHASH_INCLUDE})
  gtest_discover_tests(test_threads TEST_PREFIX tsan. DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600)
endif()

# The example that runs a model's layers reads models by what extract is made of. A test runs it.
if(TARGET test_cli)
  file(GLOB onnx_model CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/onnx_model/*.cc)
  add_executable(onnx_model ${onnx_model})
  target_link_libraries(onnx_model PRIVATE tw_cli)
  add_dependencies(test_cli onnx_model)
endif()

foreach(program test_runtime fault_worker)
  if(TARGET ${program})
    target_link_libraries(${program} PRIVATE tw_sandbox)
  endif()
endforeach()
foreach(program test_cli test_provider damaged_files)
  if(TARGET ${program})
    target_link_libraries(${program} PRIVATE tw_serving_static)
  endif()
endforeach()
if(TARGET test_provider)
  target_sources(test_provider PRIVATE ${PROJECT_SOURCE_DIR}/provider/factory.cc)
endif()
foreach(program test_emulator test_runtime)
  if(TARGET ${program})
    target_link_libraries(${program} PRIVATE tw_test_kernels)
  endif()
endforeach()
if(TARGET test_codegen)
  target_link_libraries(test_codegen PRIVATE tw_emulator)
endif()
foreach(program test_codegen test_tuner fuzz_formats fuzz_lowering)
  if(TARGET ${program})
    target_link_libraries(${program} PRIVATE tw_schedule_fuzzer)
  endif()
endforeach()

include(TilewrightFuzzers)

# Kernels with faults: a compiler that lies, the program that makes mutants by the thousand, and a
# seeded part of them as tests.
if(TARGET tw_tuner AND TARGET tune-cli)
  file(GLOB mutation CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/mutation/*.cc)
  set(mutation_tests ${mutation})
  list(FILTER mutation_tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER mutation EXCLUDE REGEX "_(test|main)\\.cc$")
  add_library(tw_mutation STATIC ${mutation})
  target_include_directories(tw_mutation PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(tw_mutation PUBLIC tw_tuner tw_emulator ${CMAKE_DL_LIBS})
  foreach(program mutate mutating_cc)
    add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/mutation/${program}_main.cc)
    target_link_libraries(${program} PRIVATE tw_mutation)
    list(APPEND TILEWRIGHT_TEST_PROGRAMS ${program})
  endforeach()
  add_executable(test_mutation ${mutation_tests})
  target_link_libraries(test_mutation PRIVATE tw_mutation tw_test_support GTest::gtest_main)
  add_dependencies(mutate tune-cli mutating_cc)
  add_dependencies(test_mutation tune-cli mutating_cc mutate)
  list(APPEND TILEWRIGHT_TEST_PROGRAMS test_mutation)
  gtest_discover_tests(test_mutation DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600)
endif()

# The peers, on small shapes. Without a peer the cases still check the search for plugins.
if(TILEWRIGHT_BUILD_PEERS)
  file(GLOB bench_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/bench/*_test.cc)
  add_executable(test_bench ${bench_tests})
  target_link_libraries(test_bench PRIVATE tilewright_naive GTest::gmock GTest::gtest_main)
  target_compile_definitions(test_bench PRIVATE TILEWRIGHT_BINARY_DIR="${PROJECT_BINARY_DIR}")
  foreach(peer ${TILEWRIGHT_PEERS})
    add_dependencies(test_bench tilewright_peer_${peer})
  endforeach()
  gtest_discover_tests(test_bench DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600)
endif()

# The tree: who includes whom, how long files are, which words stay out; the scripts' syntax.
set(tree ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_tree.py)
foreach(check layers circles rooms length words headers top)
  add_test(NAME tree.${check} COMMAND ${tree} --root ${PROJECT_SOURCE_DIR} ${check})
endforeach()
add_test(NAME tree.check_of_the_checks
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/scripts/check_tree_test.py)
# The prose of comments, messages and documents: openings, lengths of sentences and paragraphs.
set(words ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_words.py)
foreach(check comments messages documents links)
  add_test(NAME words.${check} COMMAND ${words} --root ${PROJECT_SOURCE_DIR} ${check})
endforeach()
add_test(NAME words.check_of_the_checks
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/scripts/check_words_test.py)
foreach(script bench_all bench_chart bench_dynamic check_examples check_skips cli_page coverage cuda_tools docs
    fuzz gpu_check gpu_models gpu_probe lint peer_ggml peer_models peer_onednn pytorch_install quick_build
    quickstart release run_tidy spec_page)
  add_test(NAME scripts.${script}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/scripts/${script}_test.py)
endforeach()
add_test(NAME docs.chart
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/bench_chart.py --check)
add_test(NAME docs.json
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/json_page.py --check)
# The site, where its tools are installed.
add_test(NAME docs.site COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/docs
  --no-install --output ${PROJECT_BINARY_DIR}/site)
set_tests_properties(docs.site PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME scripts.syntax COMMAND bash ${PROJECT_SOURCE_DIR}/tests/scripts/syntax_test.sh)

# The interpreter that Debian's packages of modules are for (python3-jsonschema, python3-selenium).
find_program(TILEWRIGHT_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT TILEWRIGHT_SYSTEM_PYTHON)
  set(TILEWRIGHT_SYSTEM_PYTHON ${Python3_EXECUTABLE})
endif()
mark_as_advanced(TILEWRIGHT_SYSTEM_PYTHON)

# The pages of operators and commands are those of their tables; examples in documents are accepted;
# --json prints documents that the schemas accept.
if(TARGET tune-cli)
  add_test(NAME docs.examples COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/scripts/check_examples.py --root ${PROJECT_SOURCE_DIR}
    --tune-cli $<TARGET_FILE:tune-cli>)
  add_test(NAME docs.spec COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/scripts/spec_page.py --check --tune-cli $<TARGET_FILE:tune-cli>)
  add_test(NAME docs.cli COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/scripts/cli_page.py --check --tune-cli $<TARGET_FILE:tune-cli>)
  add_test(NAME docs.json_schemas COMMAND ${TILEWRIGHT_SYSTEM_PYTHON}
    ${PROJECT_SOURCE_DIR}/tests/scripts/json_schemas_test.py $<TARGET_FILE:tune-cli>)
  set_tests_properties(docs.json_schemas PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  # scripts/gpu-check on the stand-in for a driver, branch by branch.
  add_test(NAME scripts.gpu_dry_run COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/scripts/gpu_dry_run_test.py ${PROJECT_BINARY_DIR})
  set_tests_properties(scripts.gpu_dry_run PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# The report in a browser.
if(TARGET report_database)
  add_test(NAME cli.report_browser COMMAND ${TILEWRIGHT_SYSTEM_PYTHON}
    ${PROJECT_SOURCE_DIR}/tests/cli/report_browser_test.py $<TARGET_FILE:tune-cli>
    $<TARGET_FILE:report_database>)
  set_tests_properties(cli.report_browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# A tree with its libraries runs from elsewhere. Sanitizers' runtimes are no part of a bundle.
if(TARGET tune-cli AND NOT TILEWRIGHT_SANITIZE)
  add_test(NAME scripts.bundle COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/scripts/bundle_test.py ${PROJECT_BINARY_DIR})
  set_tests_properties(scripts.bundle PROPERTIES TIMEOUT 600)
endif()

# The version and the licenses of what packages bring. An instrumented build brings more.
if(TARGET tune-cli AND NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_COVERAGE)
  add_test(NAME scripts.packages COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/scripts/packages_test.py ${PROJECT_BINARY_DIR})
endif()

# libtilewright.so as a file. Sanitizers change what a library needs and does.
if(NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_COVERAGE)
  add_test(NAME serving.library COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/scripts/serving_library_test.py $<TARGET_FILE:tw_serving>
    ${PROJECT_SOURCE_DIR}/include/tilewright/tilewright.h)
endif()

# The installed tree serves a project that is not ours, from where it was moved to. Who links
# instrumented libraries needs what they were instrumented with.
set(instrumented "")
if(TILEWRIGHT_SANITIZE)
  set(instrumented -fsanitize=${TILEWRIGHT_SANITIZE})
elseif(TILEWRIGHT_COVERAGE)
  set(instrumented --coverage)
endif()
add_test(NAME install.find_package
  COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DEXAMPLES=${PROJECT_SOURCE_DIR}/examples
    -DWORK=${PROJECT_BINARY_DIR}/find_package_test -DGENERATOR=${CMAKE_GENERATOR}
    -DCC=${CMAKE_C_COMPILER} -DCXX=${CMAKE_CXX_COMPILER} "-DFLAGS=${instrumented}"
    -DLAUNCHER=${TILEWRIGHT_CCACHE}
    -P ${PROJECT_SOURCE_DIR}/tests/scripts/find_package_test.cmake)
set_tests_properties(install.find_package PROPERTIES TIMEOUT 600)

# Files that others wrote (scripts/foreign_files), where they are. Readers of weights are reached through
# the Python package.
if(TARGET onnx_layers AND TARGET onnx_graph AND TARGET tune-cli)
  set(arguments_of_gguf_package $<TARGET_FILE:tune-cli>)
  set(arguments_of_compile $<TARGET_FILE:tune-cli>)
  set(arguments_of_proposer $<TARGET_FILE:tune-cli>)
  set(arguments_of_detection $<TARGET_FILE:tune-cli>)
  foreach(test onnx graph contrib weights gguf_package compile detection proposer model_peers triton)
    add_test(NAME foreign.${test} COMMAND ${Python3_EXECUTABLE}
      ${PROJECT_SOURCE_DIR}/tests/foreign/${test}_test.py ${arguments_of_${test}})
    set_tests_properties(foreign.${test} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
      "PYTHONPATH=${PROJECT_BINARY_DIR}/python;ONNX_LAYERS=$<TARGET_FILE:onnx_layers>;\
ONNX_GRAPH=$<TARGET_FILE:onnx_graph>")
  endforeach()
endif()

# Workers over SSH, Slurm and Ray, whose servers a test starts where they are installed.
if(TARGET tune-cli AND NOT TILEWRIGHT_SANITIZE)
  foreach(carrier ssh slurm ray)
    add_test(NAME foreign.fleet_${carrier} COMMAND ${Python3_EXECUTABLE}
      ${PROJECT_SOURCE_DIR}/tests/foreign/fleet_test.py ${carrier} $<TARGET_FILE:tune-cli>)
    set_tests_properties(foreign.fleet_${carrier} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python")
  endforeach()
endif()

# The execution provider on PyPI's ONNX Runtime, which loads no library with a sanitizer.
if(TARGET tune-cli AND TARGET provider_session AND NOT TILEWRIGHT_SANITIZE)
  foreach(test onnxruntime onnxruntime_hits)
    add_test(NAME foreign.${test} COMMAND ${Python3_EXECUTABLE}
      ${PROJECT_SOURCE_DIR}/tests/foreign/${test}_test.py $<TARGET_FILE:tune-cli>)
    set_tests_properties(foreign.${test} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PROVIDER_SESSION=$<TARGET_FILE:provider_session>")
  endforeach()
endif()

# The backend of ggml in ggml's scheduler, where llama.cpp is (scripts/llama/install).
if(TARGET tune-cli AND NOT TILEWRIGHT_SANITIZE)
  add_test(NAME foreign.llama COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/foreign/llama_test.py $<TARGET_FILE:tune-cli>)
  set_tests_properties(foreign.llama PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}")
endif()

# CuTe's tables, printed again where its headers are (scripts/cutlass_headers).
add_test(NAME foreign.cute COMMAND ${Python3_EXECUTABLE}
  ${PROJECT_SOURCE_DIR}/tests/foreign/cute_test.py ${CMAKE_CXX_COMPILER})
set_tests_properties(foreign.cute PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# The Python package, run by the interpreter that it was built for. A test that lacks a module skips
# itself and says which.
if(TARGET tilewright_python AND TARGET tune-cli)
  add_executable(python_kernels ${PROJECT_SOURCE_DIR}/tests/python/python_kernels.cc)
  target_link_libraries(python_kernels PRIVATE tw_serving_static tw_test_support)
  foreach(test serve faults tune models graph decoder quantize weights stubs example torch torch_compile
      torch_quantize vllm container packages)
    add_test(NAME python.${test}
      COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/${test}_test.py)
    set_tests_properties(python.${test} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
      "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHON_KERNELS=$<TARGET_FILE:python_kernels>;\
TILEWRIGHT_TUNE_CLI=$<TARGET_FILE:tune-cli>;TILEWRIGHT_BUILD=${PROJECT_BINARY_DIR}")
  endforeach()
else()
  add_test(NAME python.package
    COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${TILEWRIGHT_PYTHON_LACKS}")
  set_tests_properties(python.package PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
endif()

# ctest begins with the costliest: a long test at the end would leave the other processors idle.
# Seconds, roughly; those of earlier runs in this folder count, too.
foreach(cost foreign.llama:90 foreign.onnxruntime:60 foreign.onnxruntime_hits:20 python.packages:50 foreign.cute:45 scripts.gpu_check:20 install.find_package:15 scripts.syntax:12
    python.tune:12 scripts.fuzz:9 scripts.spec_page:8 words.check_of_the_checks:8 docs.json_schemas:8)
  string(REPLACE ":" ";" cost ${cost})
  list(GET cost 0 test)
  list(GET cost 1 seconds)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST ${seconds})
  endif()
endforeach()
