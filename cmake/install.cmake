# What `cmake --install` puts where: headers, both libraries, programs, tuning databases, and what finds them, a CMake
# package and pkg-config files. What has not been built is left out, and the package says so to those who ask for it. All
# of it may be moved to another folder as a whole. `cpack` packs the same files into one archive.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/jfa)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/jfa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${jfa_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
if(TARGET jfa_shared)
  install(TARGETS jfa_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tuning/databases/ DESTINATION ${CMAKE_INSTALL_DATADIR}/jfa/tuning)
foreach(program IN ITEMS jfa jfa-bench jfa-tune jfa-conformance)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  endif()
endforeach()

# The CMake package. What breaks users raises the major version, also from 0 to 1: docs/install.md.
get_target_property(jfa_link_options jfa::jfa INTERFACE_LINK_OPTIONS)
if(NOT jfa_link_options)
  set(jfa_link_options "")
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/jfaConfig.cmake.in ${PROJECT_BINARY_DIR}/jfaConfig.cmake
                              INSTALL_DESTINATION ${package_dir}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/jfaConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/jfaConfig.cmake ${PROJECT_BINARY_DIR}/jfaConfigVersion.cmake
        DESTINATION ${package_dir})

if(TARGET jfa_simulator)
  include(cmake/install_simulator.cmake)
endif()

# pkg-config: jfa is the C interface of libjfa.so, jfa-static both interfaces of libjfa.a.
set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
foreach(folder IN ITEMS pc_libdir pc_includedir)
  if(NOT IS_ABSOLUTE ${${folder}})
    set(${folder} "\${prefix}/${${folder}}")
  endif()
endforeach()
set(pc_libraries -lstdc++ -lm -pthread)
foreach(library IN LISTS CMAKE_DL_LIBS)
  list(APPEND pc_libraries -l${library})
endforeach()
list(JOIN pc_libraries " " pc_libraries)
list(JOIN jfa_shared_dependencies " " pc_shared_dependencies)
list(JOIN jfa_link_options " " pc_link_options)
set(pc_names jfa-static)
if(TARGET jfa_shared)
  list(APPEND pc_names jfa)
endif()
foreach(name IN LISTS pc_names)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME jfa-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CHECKSUM SHA256)
include(CPack)
