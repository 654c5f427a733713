# Script: writes OUTPUT from TEMPLATE with the revision that git gives SOURCE_DIR, when it differs.
set(REVISION "${VERSION}")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} describe --always --dirty --abbrev=10
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND described)
    set(REVISION "${VERSION}+${described}")
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
