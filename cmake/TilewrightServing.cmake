# libtilewright.so: the C interface of serving/ and what it needs, in one library that depends on
# SQLite, libsodium and the C++ runtime alone and shows no symbol but the interface's.
set(map ${PROJECT_SOURCE_DIR}/serving/shared/interface.map)
add_library(tw_serving SHARED)
add_library(tilewright::serving ALIAS tw_serving)
set_target_properties(tw_serving PROPERTIES OUTPUT_NAME tilewright EXPORT_NAME serving
  INSTALL_RPATH "$ORIGIN" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
target_include_directories(tw_serving INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# The static libraries by file, not as targets: their users' needs (fmt's shared library) are not
# those of this one.
add_dependencies(tw_serving tw_serving_static)
target_link_libraries(tw_serving PRIVATE
  -Wl,--whole-archive $<TARGET_FILE:tw_serving_static> -Wl,--no-whole-archive
  $<TARGET_FILE:tw_database> $<TARGET_FILE:tw_runtime> $<TARGET_FILE:tw_kernel>
  $<TARGET_FILE:tw_ir>
  $<BUILD_INTERFACE:${SQLite3_LIBRARIES}> $<BUILD_INTERFACE:${SODIUM_LIBRARY}> ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
get_target_property(fmt_type fmt::fmt TYPE)
if(fmt_type STREQUAL "SHARED_LIBRARY")
  # fmt's functions out of its headers.
  target_sources(tw_serving PRIVATE serving/shared/fmt_functions.cc)
  target_include_directories(tw_serving PRIVATE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(tw_serving PROPERTIES CXX_VISIBILITY_PRESET hidden)
else()
  set_target_properties(tw_serving PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(tw_serving PRIVATE $<BUILD_INTERFACE:fmt::fmt>)
endif()
target_link_options(tw_serving PRIVATE -Wl,--version-script=${map} -Wl,--gc-sections)
if(NOT TILEWRIGHT_SANITIZE)
  target_link_options(tw_serving PRIVATE -Wl,-z,defs)  # a sanitizer's functions come with the program
endif()

# Code that runs once, when a database is read and kernels are prepared, is to be small, not quick.
set(run_once codegen/cuda_description.cc codegen/kernel_json.cc codegen/kernel_source.cc
  database/convert.cc database/dispatch_row.cc database/serving.cc
  serving/c_interface.cc serving/choice.cc serving/library.cc serving/served.cc serving/table.cc)
set_source_files_properties(${run_once} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")

# A unity build compiles what the library takes of the runtime by itself. A group would bring along
# what starts programs and workers, and test_threads puts objects of its own in the place of these.
# The test serving.library fails where one is missing here.
set(served cpu_claim.cc cpus.cc cuda/device.cc cuda/driver_functions.cc elf_check.cc elf_names.cc files.cc
  identity.cc kernel.cc cuda/launch.cc loader.cc object_state.cc cuda/tensor_maps.cc thread_pool.cc)
list(TRANSFORM served PREPEND ${PROJECT_SOURCE_DIR}/runtime/)
# Its functions are chosen by the processor when a program is loaded, and the library takes none.
list(APPEND served ${PROJECT_SOURCE_DIR}/ir/oracle_products.cc)
set_source_files_properties(${served} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
