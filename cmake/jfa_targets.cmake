# How the project's own targets are made and installed.

# What every target of the project compiles with; nothing of it reaches users.
add_library(jfa_options INTERFACE)
target_compile_options(jfa_options INTERFACE $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra>)
if(JFA_WERROR)
  target_compile_options(jfa_options INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps in sums of std::string that are not there (its bug 105651).
  target_compile_options(jfa_options INTERFACE $<BUILD_INTERFACE:-Wno-restrict>)
endif()
target_include_directories(jfa_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
if(JFA_SANITIZE)
  # Public: a program that links a sanitized library must itself link the sanitizers.
  # A caller of the driver's functions, which are C, may pass any number as an enum. Checks of every access for null,
  # which the address sanitizer finds as well, and for alignment cost a third of the time to compile, and double the code.
  set(sanitizers $<BUILD_INTERFACE:-fsanitize=address,undefined>
                 $<BUILD_INTERFACE:-fno-sanitize=enum,null,alignment,vptr>)
  target_compile_options(jfa_options INTERFACE ${sanitizers} $<BUILD_INTERFACE:-fno-sanitize-recover=undefined>
                                               $<BUILD_INTERFACE:-fno-omit-frame-pointer>)
  target_link_options(jfa_options INTERFACE ${sanitizers})
endif()

# jfa_add_library(name SOURCES file... [LIBRARIES target...])
# The static library of one folder.
function(jfa_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE jfa_options ${arg_LIBRARIES})
endfunction()

# Installs the public headers, the libraries behind jfa::jfa, the package that find_package(jfa) finds, and the
# jfa command if it is built.
function(jfa_install)
  include(CMakePackageConfigHelpers)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/jfa)
  set(libraries jfa_library jfa_runtime jfa_cache jfa_generator jfa_options jfa_cuda_headers)
  if(TARGET jfa_simulator)
    list(APPEND libraries jfa_simulator)
  endif()
  install(TARGETS ${libraries}
          EXPORT jfaTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(TARGET jfa_shared)
    install(TARGETS jfa_shared EXPORT jfaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  foreach(program IN ITEMS jfa jfa-bench jfa-conformance)
    if(TARGET ${program})
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
    endif()
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/jfa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT jfaTargets NAMESPACE jfa:: DESTINATION ${package_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/jfaConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/jfaConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/jfaConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/jfaConfig.cmake ${PROJECT_BINARY_DIR}/jfaConfigVersion.cmake
          DESTINATION ${package_dir})
endfunction()
