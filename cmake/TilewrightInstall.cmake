# `cmake --install` makes a tree that can be moved: bin/, lib/, include/tilewright/, share/.
# `find_package(tilewright)` reads lib/cmake/tilewright/. Its components are the packages: `runtime` is
# the serving library with its header, `tuner` all else.
include(CMakePackageConfigHelpers)

get_property(folders GLOBAL PROPERTY TILEWRIGHT_FOLDERS)
list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright COMPONENT tuner FILES_MATCHING PATTERN "*.h")
endforeach()

# Libraries of an application that serves kernels by the C++ classes: no schedules, no tuner, no
# XGBoost, no compiler.
set(serving serving_static graph models runtime database kernel ir base)
add_library(tw_parts INTERFACE)
add_library(tilewright::tilewright ALIAS tw_parts)
set_target_properties(tw_parts PROPERTIES EXPORT_NAME tilewright)
set(serving_targets tw_parts)
set(tuner_targets "")
get_property(libraries GLOBAL PROPERTY TILEWRIGHT_LIBRARIES)
foreach(library ${libraries})
  if(library IN_LIST serving)
    target_link_libraries(tw_parts INTERFACE tw_${library})
    list(APPEND serving_targets tw_${library})
  else()
    list(APPEND tuner_targets tw_${library})
  endif()
endforeach()

install(TARGETS ${serving_targets} EXPORT tilewright
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tuner)
if(tuner_targets)
  install(TARGETS ${tuner_targets} EXPORT tilewright-tuner
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tuner)
endif()
install(TARGETS tw_serving EXPORT tilewright-serving
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
file(RELATIVE_PATH from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tilewright.pc.in ${PROJECT_BINARY_DIR}/tilewright.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tilewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tilewright ${PROJECT_BINARY_DIR}/generated/tilewright
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(TARGET tune-cli)
  install(TARGETS tune-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tuner)
endif()
# Debian's place for the terms of a package.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tilewright-runtime COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/THIRD_PARTY
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tilewright-runtime COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tilewright COMPONENT tuner)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
install(EXPORT tilewright-serving NAMESPACE tilewright:: DESTINATION ${config_dir}
  FILE tilewrightServingTargets.cmake COMPONENT runtime)
install(EXPORT tilewright NAMESPACE tilewright:: DESTINATION ${config_dir}
  FILE tilewrightTargets.cmake COMPONENT tuner)
if(tuner_targets)
  install(EXPORT tilewright-tuner NAMESPACE tilewright:: DESTINATION ${config_dir}
    FILE tilewrightTunerTargets.cmake COMPONENT tuner)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilewrightConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tilewrightConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilewrightConfig.cmake
  ${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/Findsodium.cmake
  DESTINATION ${config_dir} COMPONENT runtime)
