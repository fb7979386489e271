# The libraries that jfa is made of. They are its own affair: their code goes into our libraries, whose users need
# neither packages nor headers of them. None of what is set here reaches a project that adds jfa as a subdirectory,
# nor do packages that such a project has found.
find_package(Threads REQUIRED)
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json REQUIRED)
endif()

# jfa_private_library(target HEADER file ARCHIVE file PACKAGE name)
# An imported target, of this project only, for a library of the system: its static form, so that no machine needs
# it that runs what is built here. Where there is no static one, the shared one is linked, and
# jfa_shared_dependencies names it to those who link jfa.
set(jfa_private_archives "")
set(jfa_shared_dependencies "")
function(jfa_private_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER;ARCHIVE;PACKAGE" "")
  string(TOUPPER ${target} prefix)
  string(REGEX REPLACE "^lib(.*)\\.a$" "\\1" shared_name ${arg_ARCHIVE})
  find_path(${prefix}_INCLUDE_DIR ${arg_HEADER} DOC "Folder with ${arg_HEADER}")
  find_library(${prefix}_LIBRARY NAMES ${arg_ARCHIVE} ${shared_name} DOC "${arg_ARCHIVE}")
  mark_as_advanced(${prefix}_INCLUDE_DIR ${prefix}_LIBRARY)
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "${arg_HEADER} or ${arg_ARCHIVE} not found: run tools/quickstart, or install "
                        "${arg_PACKAGE} (its name on Debian and Ubuntu), or set ${prefix}_INCLUDE_DIR and ${prefix}_LIBRARY")
  endif()
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${prefix}_LIBRARY}
                                             INTERFACE_INCLUDE_DIRECTORIES ${${prefix}_INCLUDE_DIR})
  if(${prefix}_LIBRARY MATCHES "\\.a$")
    list(APPEND jfa_private_archives ${${prefix}_LIBRARY})
  elseif(JFA_STATIC_RUNTIME)
    message(FATAL_ERROR "JFA_STATIC_RUNTIME needs ${arg_ARCHIVE}: ${${prefix}_LIBRARY} is a shared library")
  else()
    list(APPEND jfa_shared_dependencies ${${prefix}_LIBRARY})
  endif()
  set(jfa_private_archives ${jfa_private_archives} PARENT_SCOPE)
  set(jfa_shared_dependencies ${jfa_shared_dependencies} PARENT_SCOPE)
endfunction()
jfa_private_library(jfa_crypto HEADER openssl/sha.h ARCHIVE libcrypto.a PACKAGE libssl-dev)
jfa_private_library(jfa_zstd HEADER zstd.h ARCHIVE libzstd.a PACKAGE libzstd-dev)

# fmt's headers, and its library compiled from them: the packages of some systems have a shared one only. What of jfa
# goes to users links jfa_fmt; a project around us that has an fmt of its own keeps that for itself.
find_path(JFA_FMT_INCLUDE_DIR fmt/format-inl.h DOC "Folder with fmt/format.h")
mark_as_advanced(JFA_FMT_INCLUDE_DIR)
if(NOT JFA_FMT_INCLUDE_DIR)
  message(FATAL_ERROR "fmt/format.h not found: run tools/quickstart, or install libfmt-dev (its name on Debian and "
                      "Ubuntu), or set JFA_FMT_INCLUDE_DIR")
endif()
add_library(jfa_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_library.cpp)
target_link_libraries(jfa_fmt PRIVATE jfa_library_options)
target_compile_options(jfa_fmt PRIVATE -O1)  # it makes messages
target_include_directories(jfa_fmt SYSTEM PUBLIC ${JFA_FMT_INCLUDE_DIR})
if(NOT TARGET fmt::fmt)
  add_library(fmt::fmt INTERFACE IMPORTED)  # seen in this folder and those below, as every imported target
  target_link_libraries(fmt::fmt INTERFACE jfa_fmt)
endif()
