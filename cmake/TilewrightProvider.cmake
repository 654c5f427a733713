# libonnxruntime_ep_tilewright.so: an execution provider of ONNX Runtime with serving/ and the importer inside.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/provider/*.cc)
list(FILTER sources EXCLUDE REGEX "/factory\\.cc$")
# For its tests, too, which bring the serving library's functions themselves.
add_library(tw_provider STATIC ${sources})
target_compile_features(tw_provider PUBLIC cxx_std_20)
target_include_directories(tw_provider PUBLIC
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
target_include_directories(tw_provider SYSTEM PRIVATE ${XXHASH_INCLUDE})
set_target_properties(tw_provider PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(CMAKE_UNITY_BUILD)
  tilewright_groups(tw_provider ${sources})
endif()

add_library(tw_provider_library SHARED ${PROJECT_SOURCE_DIR}/provider/factory.cc)
set_target_properties(tw_provider_library PROPERTIES OUTPUT_NAME onnxruntime_ep_tilewright
  BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" CXX_VISIBILITY_PRESET hidden)
target_link_libraries(tw_provider_library PRIVATE tw_provider)
tilewright_serves(tw_provider_library ${PROJECT_SOURCE_DIR}/provider/interface.map)
# The old tag holds for what libsqlite3.so and libsodium.so load, too.
target_link_options(tw_provider_library PRIVATE -Wl,--disable-new-dtags)

# The package that brings it to Python: sources of the tree with the library beside them, as in a wheel.
set(provider_package ${PROJECT_BINARY_DIR}/python/onnxruntime_ep_tilewright)
file(MAKE_DIRECTORY ${provider_package}/lib)
foreach(file __init__.py __main__.py _parts.py py.typed)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/onnxruntime_ep_tilewright/${file} ${provider_package}/${file} SYMBOLIC)
endforeach()
file(CREATE_LINK ../../../libonnxruntime_ep_tilewright.so ${provider_package}/lib/libonnxruntime_ep_tilewright.so SYMBOLIC)
