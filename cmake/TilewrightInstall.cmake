# `cmake --install` makes a tree that can be moved: bin/, lib/, include/tilewright/, share/.
# `find_package(tilewright)` reads lib/cmake/tilewright/.
include(CMakePackageConfigHelpers)

get_property(folders GLOBAL PROPERTY TILEWRIGHT_FOLDERS)
set(targets "")
foreach(folder ${folders})
  list(APPEND targets tw_${folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright FILES_MATCHING PATTERN "*.h")
endforeach()

# What an application that serves kernels links: no tuner, no XGBoost, no compiler.
add_library(tw_serving INTERFACE)
add_library(tilewright::tilewright ALIAS tw_serving)
set_target_properties(tw_serving PROPERTIES EXPORT_NAME tilewright)
foreach(folder runtime database ir)
  if(TARGET tw_${folder})
    target_link_libraries(tw_serving INTERFACE tw_${folder})
  endif()
endforeach()

install(TARGETS ${targets} tw_serving EXPORT tilewright ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tilewright ${PROJECT_BINARY_DIR}/generated/tilewright
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET tune-cli)
  install(TARGETS tune-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
install(EXPORT tilewright NAMESPACE tilewright:: DESTINATION ${config_dir}
  FILE tilewrightTargets.cmake)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilewrightConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tilewrightConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilewrightConfig.cmake
  ${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake DESTINATION ${config_dir})
