# tilewright_folder(NAME [FOLDER F] DEPENDS …): the static library tw_NAME of every .cc in the folder NAME
# (or F), except main.cc, which is a program's.
# A dependency is another such library's name, or a target or library from outside. A folder without
# sources makes no library, and is left out of its users' dependencies.
function(tilewright_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "DEPENDS")
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(NOT sources AND NOT name STREQUAL "base")
    return()
  endif()
  add_library(tw_${name} STATIC ${sources})
  add_library(tilewright::${name} ALIAS tw_${name})
  set_target_properties(tw_${name} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME tilewright_${name})
  target_compile_features(tw_${name} PUBLIC cxx_std_20)
  foreach(level g 1)
    if(name IN_LIST TILEWRIGHT_OPTIMIZED_${level})
      target_compile_options(tw_${name} PRIVATE $<$<CONFIG:Release>:-O${level}>)
    endif()
  endforeach()
  if(CMAKE_UNITY_BUILD)
    tilewright_groups(tw_${name} ${sources})
    # The linker drops functions of a group that nobody calls, as it else leaves out whole objects.
    target_compile_options(tw_${name} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  target_include_directories(tw_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tilewright>)
  target_include_directories(tw_${name} SYSTEM PRIVATE ${XXHASH_INCLUDE})
  foreach(dep ${arg_DEPENDS})
    if(TARGET tw_${dep})
      target_link_libraries(tw_${name} PUBLIC tw_${dep})
    elseif(NOT EXISTS ${PROJECT_SOURCE_DIR}/${dep})
      target_link_libraries(tw_${name} PUBLIC ${dep})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TILEWRIGHT_LIBRARIES ${name})
  set_property(GLOBAL APPEND PROPERTY TILEWRIGHT_FOLDERS ${arg_FOLDER})
endfunction()
