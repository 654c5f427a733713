# libonnxruntime_ep_tilewright.so: an execution provider of ONNX Runtime over libtilewright's C interface.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/provider/*.cc)
list(FILTER sources EXCLUDE REGEX "/factory\\.cc$")
add_library(tw_provider_static STATIC ${sources})
target_compile_features(tw_provider_static PUBLIC cxx_std_20)
target_include_directories(tw_provider_static PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_include_directories(tw_provider_static SYSTEM PRIVATE ${XXHASH_INCLUDE})
target_link_libraries(tw_provider_static PUBLIC tw_serving)
set_target_properties(tw_provider_static PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(CMAKE_UNITY_BUILD)
  tilewright_groups(tw_provider_static ${sources})
endif()

set(provider_map ${PROJECT_SOURCE_DIR}/provider/interface.map)
add_library(tw_provider SHARED ${PROJECT_SOURCE_DIR}/provider/factory.cc)
set_target_properties(tw_provider PROPERTIES OUTPUT_NAME onnxruntime_ep_tilewright LINKER_LANGUAGE CXX
  BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" LINK_DEPENDS ${provider_map}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_libraries(tw_provider PRIVATE tw_provider_static)
# The old tag holds for what libtilewright.so loads, too.
target_link_options(tw_provider PRIVATE -Wl,--version-script=${provider_map} -Wl,--gc-sections
  -Wl,--disable-new-dtags)
