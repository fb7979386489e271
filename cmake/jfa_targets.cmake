# How the project's own targets are made.

# What every target of the project compiles with; nothing of it reaches users.
add_library(jfa_options INTERFACE)
target_compile_options(jfa_options INTERFACE -Wall -Wextra)
if(JFA_WERROR)
  target_compile_options(jfa_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps in sums of std::string that are not there (its bug 105651).
  target_compile_options(jfa_options INTERFACE -Wno-restrict)
endif()
target_include_directories(jfa_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(JFA_SANITIZE)
  # Public: a program that links a sanitized library must itself link the sanitizers.
  # A caller of the driver's functions, which are C, may pass any number as an enum. Checks of every access for null,
  # which the address sanitizer finds as well, and for alignment cost a third of the time to compile, and double the
  # code.
  set(sanitizers -fsanitize=address,undefined
                 -fno-sanitize=enum,null,alignment,vptr)
  target_compile_options(jfa_options INTERFACE ${sanitizers} -fno-sanitize-recover=undefined
                                               -fno-omit-frame-pointer)
  target_link_options(jfa_options INTERFACE ${sanitizers})
endif()

# What libjfa.a is made of compiles with this too: GCC's unique symbols cannot be made local.
add_library(jfa_library_options INTERFACE)
target_link_libraries(jfa_library_options INTERFACE jfa_options)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(jfa_library_options INTERFACE -fno-gnu-unique)
endif()

# jfa_add_library(name SOURCES file... [LIBRARIES target...])
# The static library of one folder.
function(jfa_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE jfa_library_options ${arg_LIBRARIES})
endfunction()
