# Shell completions and the manual page, made by tune-cli from its own options when it is built.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  return()
endif()

set(documents "")
# tilewright_document(FILE DESTINATION ARGUMENT…): what tune-cli writes with these arguments.
function(tilewright_document file destination)
  set(path ${PROJECT_BINARY_DIR}/documents/${file})
  add_custom_command(OUTPUT ${path}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/documents
    COMMAND tune-cli ${ARGN} --out ${path}
    DEPENDS tune-cli COMMENT "Writing ${file}" VERBATIM)
  # Optional: a build of some targets only can be installed as well.
  install(FILES ${path} DESTINATION ${destination} COMPONENT tuner OPTIONAL)
  set(documents ${documents} ${path} PARENT_SCOPE)
endfunction()

tilewright_document(tune-cli ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completions bash)
tilewright_document(_tune-cli ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completions zsh)
tilewright_document(tune-cli.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completions fish)
tilewright_document(tune-cli.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
add_custom_target(tilewright_documents ALL DEPENDS ${documents})
