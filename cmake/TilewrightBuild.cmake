# How everything is compiled and linked: warnings, instrumentation, and what makes builds quick.

add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms on "text" + std::string: GCC's bug 105651
endif()
if(TILEWRIGHT_WERROR)
  add_compile_options(-Werror)
endif()

# A unity build compiles the sources of a library in groups of at most this many: headers are read, and
# templates instantiated, once per group. A group of 32 takes up to 2 GB of memory. Those of a quick build
# are whole libraries: there, reading and instantiating is most of the work.
if(CMAKE_UNITY_BUILD)
  set(TILEWRIGHT_GROUP 32)
  if(TILEWRIGHT_QUICK)
    set(TILEWRIGHT_GROUP 100)
  endif()
  set(CMAKE_UNITY_BUILD_BATCH_SIZE ${TILEWRIGHT_GROUP} CACHE STRING "Sources that are compiled together")
  # GCC takes a source that another one includes for a header, whose local types would be a fault.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's garbage collection takes a tenth of its time. It begins at this heap, in KiB.
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

# A group includes its sources by their paths. With none in __FILE__, objects do not depend on the folder of the
# clone, and ccache answers across clones.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

# tilewright_group(NAME SOURCE…): a unity build compiles these together, and nothing else with them.
function(tilewright_group name)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# tilewright_groups(TARGET SOURCE…): even groups of all sources, neighbours together.
# tilewright_group() takes some out of them.
function(tilewright_groups target)
  list(LENGTH ARGN count)
  math(EXPR groups "(${count} + ${CMAKE_UNITY_BUILD_BATCH_SIZE} - 1) / ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
  set(index 0)
  foreach(source ${ARGN})
    math(EXPR group "${index} * ${groups} / ${count}")
    tilewright_group(${group} ${source})
    math(EXPR index "${index} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

if(TILEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${TILEWRIGHT_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TILEWRIGHT_SANITIZE})
  # GCC 12 sees uninitialized and dangling reads in the standard library once it is instrumented.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow)
  endif()
endif()
if(TILEWRIGHT_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
if(TILEWRIGHT_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# ccache answers across clones: paths below the source folder count as relative ones.
find_program(TILEWRIGHT_CCACHE ccache)
mark_as_advanced(TILEWRIGHT_CCACHE)
if(TILEWRIGHT_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${TILEWRIGHT_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# The quickest linker that is installed and that the compiler accepts.
if(NOT DEFINED TILEWRIGHT_LINKER)
  include(CheckCXXSourceCompiles)
  set(TILEWRIGHT_LINKER "" CACHE STRING "Linker, as in -fuse-ld; empty for the compiler's own")
  foreach(linker mold lld)
    set(CMAKE_REQUIRED_LINK_OPTIONS -fuse-ld=${linker})
    check_cxx_source_compiles("int main() { return 0; }" TILEWRIGHT_LINKS_WITH_${linker})
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    if(TILEWRIGHT_LINKS_WITH_${linker})
      set_property(CACHE TILEWRIGHT_LINKER PROPERTY VALUE ${linker})
      break()
    endif()
  endforeach()
endif()
if(TILEWRIGHT_LINKER)
  add_link_options(-fuse-ld=${TILEWRIGHT_LINKER})
endif()
if(TILEWRIGHT_LINKER STREQUAL "mold")
  # mold 1.10 lets a program's read-only relocations begin up to 7 bytes before their page, where the code
  # ends there; the loader then refuses the program. With pages of its own, code ends nowhere else.
  add_link_options(-Wl,-z,separate-code)
endif()
