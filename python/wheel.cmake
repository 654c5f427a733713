# Content of a wheel besides the Python sources: the module, libtilewright.so, tune-cli, and the
# shared libraries that these load.
set(TILEWRIGHT_INSTALLED "" CACHE PATH
  "An installed Tilewright to build the wheel of; empty: the sources beside this folder")
option(TILEWRIGHT_WHEEL_TUNES "Put tune-cli into the wheel" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(TILEWRIGHT_INSTALLED)
  find_package(tilewright ${SKBUILD_PROJECT_VERSION} EXACT REQUIRED COMPONENTS serving
    PATHS ${TILEWRIGHT_INSTALLED} NO_DEFAULT_PATH)
  set(tilewright_program ${TILEWRIGHT_INSTALLED}/bin/tune-cli)
  if(TILEWRIGHT_WHEEL_TUNES AND NOT EXISTS ${tilewright_program})
    message(FATAL_ERROR "${TILEWRIGHT_INSTALLED} has no bin/tune-cli; give "
      "-DTILEWRIGHT_WHEEL_TUNES=OFF for a wheel that serves only")
  endif()
elseif(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../CMakePresets.json)
  set(TILEWRIGHT_BUILD_TESTS OFF)
  set(TILEWRIGHT_BUILD_PEERS OFF)
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/.. tilewright EXCLUDE_FROM_ALL)
  set(tilewright_program "")
  if(TILEWRIGHT_WHEEL_TUNES)
    add_custom_target(tilewright_wheel_programs ALL DEPENDS tune-cli)
  endif()
else()
  message(FATAL_ERROR "neither Tilewright's sources beside ${CMAKE_CURRENT_LIST_DIR} nor an installed "
    "tree; give -DTILEWRIGHT_INSTALLED=DIR")
endif()

# Libraries of the C library belong to the machine: they must fit its loader and its kernel.
set(tilewright_c_library "^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libresolv)[.-]")

# tilewright_wheel(MODULE): where the wheel has the module, and all that it needs.
function(tilewright_wheel module)
  install(TARGETS ${module} LIBRARY DESTINATION tilewright COMPONENT wheel)
  # A wheel has no links: the library goes by the one name that it is loaded by.
  install(FILES $<TARGET_FILE:tilewright::serving> DESTINATION tilewright/lib COMPONENT wheel
    RENAME $<TARGET_SONAME_FILE_NAME:tilewright::serving>)
  set(loading "LIBRARIES \"$<TARGET_FILE:tilewright::serving>\"")
  if(TILEWRIGHT_WHEEL_TUNES)
    if(tilewright_program)
      install(PROGRAMS ${tilewright_program} DESTINATION tilewright/bin COMPONENT wheel)
      string(APPEND loading " EXECUTABLES \"${tilewright_program}\"")
    else()
      install(TARGETS tune-cli RUNTIME DESTINATION tilewright/bin COMPONENT wheel)
      string(APPEND loading " EXECUTABLES \"$<TARGET_FILE:tune-cli>\"")
    endif()
  endif()
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES ${loading} RESOLVED_DEPENDENCIES_VAR libraries
      PRE_EXCLUDE_REGEXES \"${tilewright_c_library}\" POST_EXCLUDE_REGEXES \"libtilewright\")
    foreach(library \${libraries})
      get_filename_component(name \${library} NAME)
      file(COPY_FILE \${library} \${CMAKE_INSTALL_PREFIX}/tilewright/lib/\${name})
    endforeach()" COMPONENT wheel)
endfunction()
