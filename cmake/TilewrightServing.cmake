# libtilewright.so: the C interface of serving/ and what it needs, in one library that depends on
# SQLite, libsodium and the C++ runtime alone and shows no symbol but the interface's.
add_library(tw_serving SHARED)
add_library(tilewright::serving ALIAS tw_serving)
set_target_properties(tw_serving PROPERTIES OUTPUT_NAME tilewright EXPORT_NAME serving
  BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(tw_serving INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# tilewright_serves(TARGET MAP): a shared library with serving/ and what it needs inside, which shows the symbols of
# MAP alone. Code that none of these reaches is dropped. The static libraries by file, not as targets: their users' needs
# (fmt's shared library) are not those of this one.
get_target_property(fmt_type fmt::fmt TYPE)
function(tilewright_serves target map)
  add_dependencies(${target} tw_serving_static)
  target_link_libraries(${target} PRIVATE
    -Wl,--whole-archive $<TARGET_FILE:tw_serving_static> -Wl,--no-whole-archive
    $<TARGET_FILE:tw_database> $<TARGET_FILE:tw_graph> $<TARGET_FILE:tw_models> $<TARGET_FILE:tw_runtime>
    $<TARGET_FILE:tw_kernel> $<TARGET_FILE:tw_ir> $<TARGET_FILE:tw_base>
    $<BUILD_INTERFACE:${SQLite3_LIBRARIES}> $<BUILD_INTERFACE:${SODIUM_LIBRARY}> ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
  if(fmt_type STREQUAL "SHARED_LIBRARY")
    # fmt's functions out of its headers.
    set(fmt_functions ${PROJECT_BINARY_DIR}/generated/fmt_functions.cc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/fmt_functions.cc.in ${fmt_functions} COPYONLY)
    set_source_files_properties(${fmt_functions} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${target} PRIVATE ${fmt_functions})
    target_include_directories(${target} PRIVATE
      $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  else()
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:fmt::fmt>)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--gc-sections)
  if(NOT TILEWRIGHT_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)  # a sanitizer's functions come with the program
  endif()
endfunction()
tilewright_serves(tw_serving ${PROJECT_SOURCE_DIR}/serving/interface.map)

# Sources of the runtime and of the oracle that the library takes form groups of their own. Others would bring
# along functions that start programs. test_threads brings its own objects in the place of `loading`.
file(GLOB loading CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/*.cc ${PROJECT_SOURCE_DIR}/runtime/load/*.cc)
file(GLOB served CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/machine/*.cc
  ${PROJECT_SOURCE_DIR}/runtime/cuda/*.cc ${PROJECT_SOURCE_DIR}/runtime/tensor/*.cc)
# These three need checks of kernels, or functions that the loader chooses by the processor.
list(FILTER served EXCLUDE REGEX "/(machine|peak|device_operands)\\.cc$")
file(GLOB oracle CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ir/oracle/*.cc)
file(GLOB weights CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/models/weights/*.cc)
file(GLOB graphs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/graph/graph.cc
  ${PROJECT_SOURCE_DIR}/graph/places.cc ${PROJECT_SOURCE_DIR}/graph/plan.cc
  ${PROJECT_SOURCE_DIR}/graph/plain/*.cc
  ${PROJECT_SOURCE_DIR}/graph/rows.cc ${PROJECT_SOURCE_DIR}/graph/sizes.cc
  ${PROJECT_SOURCE_DIR}/graph/text/*.cc
  ${PROJECT_SOURCE_DIR}/graph/loops/loops.cc
  ${PROJECT_SOURCE_DIR}/graph/loops/loop_text.cc)
foreach(group loading served oracle weights graphs)
  tilewright_group(${group} ${${group}})
endforeach()
