# How the project's own targets are made.

# jfa_add_library(name SOURCES file... LIBRARIES target...)
# A static library of one folder, part of the installed package.
function(jfa_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  set(sources "")
  foreach(source IN LISTS arg_SOURCES)
    if(IS_ABSOLUTE "${source}" OR EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      list(APPEND sources ${source})
    endif()
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PRIVATE jfa_options ${arg_LIBRARIES})
endfunction()
