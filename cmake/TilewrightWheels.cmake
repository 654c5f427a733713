# Content of the Python packages besides their sources, as components of the installation:
# `python_runtime` puts the module and libtilewright.so into tilewright/, `python_tuner` puts tune-cli
# into tilewright_tuner/, `python_provider` the provider into onnxruntime_ep_tilewright/, all with the
# shared libraries that these load. `libraries` puts those beside an installed tree, for an archive that runs
# elsewhere.

# The C library belongs to the machine, and so does the C++ runtime: another package in the same process
# may need a newer one. The wheels' platform tag names the oldest that will do.
set(tilewright_system
  "^(linux-vdso|ld-linux[^.]*|libc|libm|libdl|librt|libpthread|libresolv|libstdc[+][+]|libgcc_s)[.]")

# tilewright_libraries(COMPONENT FOLDER LIBRARIES … EXECUTABLES …): copies to FOLDER what they load.
function(tilewright_libraries component folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LIBRARIES;EXECUTABLES")
  foreach(kind LIBRARIES EXECUTABLES)
    set(quoted_${kind} "")
    foreach(file ${arg_${kind}})
      string(APPEND quoted_${kind} " \"${file}\"")
    endforeach()
    if(quoted_${kind})
      string(PREPEND quoted_${kind} "${kind}")
    endif()
  endforeach()
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES ${quoted_LIBRARIES} ${quoted_EXECUTABLES}
      RESOLVED_DEPENDENCIES_VAR libraries
      PRE_EXCLUDE_REGEXES \"${tilewright_system}\" POST_EXCLUDE_REGEXES \"libtilewright\")
    foreach(library \${libraries})
      get_filename_component(name \${library} NAME)
      set(copy \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/\${name})
      message(STATUS \"Installing: \${copy}\")
      get_filename_component(parent \${copy} DIRECTORY)
      file(MAKE_DIRECTORY \${parent})
      file(COPY_FILE \${library} \${copy})
    endforeach()" COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

set(library $<TARGET_FILE:tilewright::serving>)
set(soname $<TARGET_SONAME_FILE_NAME:tilewright::serving>)
# tilewright_serving_library(COMPONENT FOLDER): libtilewright.so with what it loads.
function(tilewright_serving_library component folder)
  # A wheel has no links: the library goes by the one name that it is loaded by.
  install(FILES ${library} DESTINATION ${folder} RENAME ${soname}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(CODE "
    if(CMAKE_INSTALL_DO_STRIP)
      execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded
        \"\${CMAKE_INSTALL_PREFIX}/${folder}/${soname}\" COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT ${component} EXCLUDE_FROM_ALL)
  tilewright_libraries(${component} ${folder} LIBRARIES ${library})
endfunction()
if(TARGET tilewright_python)
  install(TARGETS tilewright_python LIBRARY DESTINATION tilewright
    COMPONENT python_runtime EXCLUDE_FROM_ALL)
  tilewright_serving_library(python_runtime tilewright/lib)
endif()
install(TARGETS tw_provider_library LIBRARY DESTINATION onnxruntime_ep_tilewright/lib
  COMPONENT python_provider EXCLUDE_FROM_ALL)
tilewright_libraries(python_provider onnxruntime_ep_tilewright/lib
  LIBRARIES $<TARGET_FILE:tw_provider_library>)
if(TARGET tune-cli)
  install(TARGETS tune-cli RUNTIME DESTINATION tilewright_tuner/bin
    COMPONENT python_tuner EXCLUDE_FROM_ALL)
  tilewright_libraries(python_tuner tilewright_tuner/lib EXECUTABLES $<TARGET_FILE:tune-cli>)
  tilewright_libraries(libraries ${CMAKE_INSTALL_LIBDIR}
    LIBRARIES ${library} EXECUTABLES $<TARGET_FILE:tune-cli>)
endif()
