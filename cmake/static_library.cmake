# jfa::jfa: libjfa.a, which has all of jfa and of the libraries in it. Its only global symbols are jfa's, so a program
# may have any version of those libraries, or none. Projects that add jfa as a subdirectory get the same archive.
# libjfa-simulator.a is the simulator alone, made in the same way.
#
# All objects become one, whose foreign symbols are then made local. Inline functions lose their groups before: the
# linker would take a host's group of the same name for the same, and drop ours, which local symbols refer to.
# The compiler drives the linker because objects may be of link-time optimisation.
find_program(JFA_BFD_LINKER ld.bfd DOC "GNU ld, which makes libjfa.a's one object")
mark_as_advanced(JFA_BFD_LINKER)
if(NOT JFA_BFD_LINKER OR NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "GNU ld (ld.bfd) and objcopy are needed: install binutils")
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
separate_arguments(jfa_join_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND jfa_join_flags -flinker-output=nolto-rel)
endif()
set(jfa_in_all "")
if(JFA_INSTALL)
  set(jfa_in_all ALL)
endif()

# jfa_join_archive(target FILE archive PARTS library... [OBJECTS object...] [FOREIGN archive...])
# The target that makes the archive of one object: all of the parts, of the objects, and what they use of the foreign
# archives.
function(jfa_join_archive target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILE" "PARTS;OBJECTS;FOREIGN")
  set(part_files "")
  foreach(part IN LISTS arg_PARTS)
    list(APPEND part_files $<TARGET_FILE:${part}>)
  endforeach()
  set(globals "")
  foreach(pattern IN ITEMS jfa_* _ZN3jfa* _ZNK3jfa* _ZT?N3jfa*)  # C, functions, type information
    list(APPEND globals --keep-global-symbol=${pattern})
  endforeach()
  cmake_path(GET arg_FILE FILENAME name)
  add_custom_command(
    OUTPUT ${arg_FILE}
    COMMAND ${CMAKE_CXX_COMPILER} ${jfa_join_flags} -r -nostdlib -fuse-ld=bfd -Wl,--force-group-allocation -Wl,-d
            -o ${target}_joined.o ${arg_OBJECTS} -Wl,--whole-archive ${part_files} -Wl,--no-whole-archive
            ${arg_FOREIGN}
    COMMAND ${CMAKE_OBJCOPY} --wildcard ${globals} ${target}_joined.o ${target}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${target}_joined.o ${arg_FILE}
    COMMAND ${CMAKE_AR} qcs ${arg_FILE} ${target}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${target}.o
    DEPENDS ${arg_OBJECTS} ${arg_PARTS} ${arg_FOREIGN}
    COMMENT "Joining ${name}"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${target} ${jfa_in_all} DEPENDS ${arg_FILE})
endfunction()

set(jfa_parts jfa_runtime jfa_tuning jfa_cache jfa_generator jfa_version)
if(TARGET jfa_simulator)
  list(APPEND jfa_parts jfa_simulator)
endif()
set(jfa_archive ${PROJECT_BINARY_DIR}/libjfa.a)
jfa_join_archive(jfa_archive FILE ${jfa_archive} PARTS ${jfa_parts} OBJECTS $<TARGET_OBJECTS:jfa_c_api>
                 FOREIGN $<TARGET_FILE:jfa_fmt> ${jfa_private_archives})
if(TARGET jfa_simulator)
  set(jfa_simulator_archive ${PROJECT_BINARY_DIR}/libjfa-simulator.a)
  jfa_join_archive(jfa_simulator_archive FILE ${jfa_simulator_archive} PARTS jfa_simulator
                   FOREIGN $<TARGET_FILE:jfa_fmt>)
endif()

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
