# The version comes from project(); the revision from git at each build, else it is the version.
# Only one small source holds the revision, so that a commit recompiles nothing else.

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in
  ${PROJECT_BINARY_DIR}/generated/tilewright/version.h @ONLY)

set(TILEWRIGHT_REVISION_SOURCE ${PROJECT_BINARY_DIR}/generated/revision.cc)
set(revision_command ${CMAKE_COMMAND}
  -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
  -DTEMPLATE=${PROJECT_SOURCE_DIR}/cmake/revision.cc.in -DOUTPUT=${TILEWRIGHT_REVISION_SOURCE}
  -P ${PROJECT_SOURCE_DIR}/cmake/WriteRevision.cmake)
execute_process(COMMAND ${revision_command} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(tilewright_revision COMMAND ${revision_command}
  BYPRODUCTS ${TILEWRIGHT_REVISION_SOURCE} COMMENT "")
