# Completions and man pages, made when the programs are installed.
find_program(JFA_HELP2MAN help2man)
if(NOT JFA_HELP2MAN)
  message(STATUS "help2man was not found: no man pages will be installed")
endif()
set(shell_files ${CMAKE_CURRENT_BINARY_DIR}/shell_files)
install(CODE "file(REMOVE_RECURSE \"${shell_files}\")")
foreach(program IN ITEMS jfa jfa-sim)
  if(TARGET ${program})
    install(CODE "execute_process(
      COMMAND \"${CMAKE_COMMAND}\" -D \"PROGRAM=$<TARGET_FILE:${program}>\" -D \"OUTPUT=${shell_files}\"
              -D \"HELP2MAN=$<$<BOOL:${JFA_HELP2MAN}>:${JFA_HELP2MAN}>\"
              -P \"${CMAKE_CURRENT_SOURCE_DIR}/shell_files.cmake\"
      COMMAND_ERROR_IS_FATAL ANY)")
  endif()
endforeach()
install(DIRECTORY ${shell_files}/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL PATTERN man EXCLUDE)
install(DIRECTORY ${shell_files}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
