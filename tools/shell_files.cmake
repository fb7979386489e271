# What a shell and man(1) know of a program, made from what the program says of itself. Run when it is installed:
#   cmake -D PROGRAM=… -D OUTPUT=folder [-D HELP2MAN=…] -P shell_files.cmake
# writes OUTPUT/bash-completion, OUTPUT/zsh, OUTPUT/fish and, with help2man, OUTPUT/man.
if(NOT EXISTS ${PROGRAM})
  return()  # not built, so not installed
endif()
get_filename_component(name ${PROGRAM} NAME)

# say(variable argument...): what the program answers; empty if it refuses.
function(say variable)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)
    set(text "")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

foreach(file IN ITEMS bash:bash-completion/completions/${name} zsh:zsh/site-functions/_${name}
                      fish:fish/vendor_completions.d/${name}.fish)
  string(REGEX MATCH "^([a-z]+):(.*)$" matched ${file})
  say(script completion ${CMAKE_MATCH_1})
  if(NOT script)
    message(FATAL_ERROR "${PROGRAM} completion ${CMAKE_MATCH_1} fails")
  endif()
  file(WRITE ${OUTPUT}/${CMAKE_MATCH_2} "${script}")
endforeach()

# page(word...): jfa-cache-list.1 for `cache list`, and those of the commands within it.
function(page)
  say(help ${ARGN} --help)
  if(NOT help)
    return()  # of a program that was not built
  endif()
  list(JOIN ARGN " " line)
  string(REPLACE ";" "-" title "${name};${ARGN}")
  string(REGEX REPLACE "-$" "" title ${title})
  string(REGEX MATCH "^[^\n]*" summary "${help}")
  execute_process(
    COMMAND ${HELP2MAN} --no-info "--help-option=${line} --help" "--name=${summary}" ${PROGRAM}
    OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${HELP2MAN}: ${error}")
  endif()
  # help2man knows the program's name only.
  string(TOUPPER "${title}" heading)
  string(REGEX REPLACE "\n.TH [^ ]+" "\n.TH ${heading}" text "${text}")
  string(REGEX REPLACE "\n.SH NAME\n[^ ]+" "\n.SH NAME\n${title}" text "${text}")
  file(WRITE ${OUTPUT}/man/man1/${title}.1 "${text}")
  string(FIND "${help}" "\nSubcommands:\n" at)
  if(at EQUAL -1)
    return()
  endif()
  string(SUBSTRING "${help}" ${at} -1 commands)
  string(REGEX MATCHALL "\n  [a-z]+" commands "${commands}")
  foreach(command IN LISTS commands)
    string(STRIP "${command}" command)
    if(NOT command MATCHES "^(help|version)$")
      page(${ARGN} ${command})
    endif()
  endforeach()
endfunction()

if(HELP2MAN)
  page()
endif()
