# jfa::jfa: libjfa.a, which has all of jfa and of the libraries in it. Its only global symbols are jfa's, so a program
# may have any version of those libraries, or none. Projects that add jfa as a subdirectory get the same archive.
#
# All objects become one, whose foreign symbols are then made local. Inline functions lose their groups before: the
# linker would take a host's group of the same name for the same, and drop ours, which local symbols refer to.
# The compiler drives the linker because objects may be of link-time optimisation.
find_program(JFA_BFD_LINKER ld.bfd DOC "GNU ld, which makes libjfa.a's one object")
mark_as_advanced(JFA_BFD_LINKER)
if(NOT JFA_BFD_LINKER OR NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "GNU ld (ld.bfd) and objcopy are needed: install binutils")
endif()

set(jfa_parts jfa_runtime jfa_tuning jfa_cache jfa_generator jfa_version)
if(TARGET jfa_simulator)
  list(APPEND jfa_parts jfa_simulator)
endif()
set(part_files "")
foreach(part IN LISTS jfa_parts)
  list(APPEND part_files $<TARGET_FILE:${part}>)
endforeach()
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
separate_arguments(link_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND link_flags -flinker-output=nolto-rel)
endif()
set(globals "")
foreach(pattern IN ITEMS jfa_* _ZN3jfa* _ZNK3jfa* _ZT?N3jfa*)  # C, functions, type information
  list(APPEND globals --keep-global-symbol=${pattern})
endforeach()
set(jfa_archive ${PROJECT_BINARY_DIR}/libjfa.a)
add_custom_command(
  OUTPUT ${jfa_archive}
  COMMAND ${CMAKE_CXX_COMPILER} ${link_flags} -r -nostdlib -fuse-ld=bfd -Wl,--force-group-allocation -Wl,-d
          -o jfa_joined.o $<TARGET_OBJECTS:jfa_c_api> -Wl,--whole-archive ${part_files} -Wl,--no-whole-archive
          $<TARGET_FILE:jfa_fmt> ${jfa_private_archives}
  COMMAND ${CMAKE_OBJCOPY} --wildcard ${globals} jfa_joined.o jfa.o
  COMMAND ${CMAKE_COMMAND} -E rm -f jfa_joined.o ${jfa_archive}
  COMMAND ${CMAKE_AR} qcs ${jfa_archive} jfa.o
  COMMAND ${CMAKE_COMMAND} -E rm -f jfa.o
  DEPENDS jfa_c_api $<TARGET_OBJECTS:jfa_c_api> ${jfa_parts} jfa_fmt ${jfa_private_archives}
  COMMENT "Joining libjfa.a"
  COMMAND_EXPAND_LISTS VERBATIM)
set(in_all "")
if(JFA_INSTALL)
  set(in_all ALL)
endif()
add_custom_target(jfa_archive ${in_all} DEPENDS ${jfa_archive})

set(jfa_link_libraries Threads::Threads ${CMAKE_DL_LIBS} ${jfa_shared_dependencies})
add_library(jfa::jfa STATIC IMPORTED GLOBAL)
add_dependencies(jfa::jfa jfa_archive)
set_target_properties(jfa::jfa PROPERTIES IMPORTED_LOCATION ${jfa_archive} IMPORTED_LINK_INTERFACE_LANGUAGES CXX
                                          INTERFACE_COMPILE_FEATURES cxx_std_20)
target_include_directories(jfa::jfa INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(jfa::jfa INTERFACE ${jfa_link_libraries})
if(JFA_SANITIZE)
  target_link_options(jfa::jfa INTERFACE -fsanitize=address,undefined)
endif()
