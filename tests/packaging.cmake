# Two tiny projects use jfa as others do: installed, and as a subdirectory.
set(consumer_dir ${CMAKE_CURRENT_BINARY_DIR}/consumers)
set(consumer_options -D CMAKE_BUILD_TYPE=None)  # nothing is slower than it must be to compile

# jfa_add_consumer_test(kind [OPTIONS cmake-option...] [ARGUMENTS argument...])
# Configures, builds and runs tests/consumers/<kind>.
function(jfa_add_consumer_test kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;ARGUMENTS")
  add_test(NAME jfa_consumer_${kind}
           COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumers/${kind}
                   ${consumer_dir}/${kind} --build-generator ${CMAKE_GENERATOR}
                   --build-options ${consumer_options} ${arg_OPTIONS} --test-command consumer ${arg_ARGUMENTS})
  set_tests_properties(jfa_consumer_${kind} PROPERTIES TIMEOUT 900 LABELS packaging)
endfunction()

add_test(NAME jfa_install
         COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${consumer_dir}/installed)
set_tests_properties(jfa_install PROPERTIES FIXTURES_SETUP installed LABELS packaging)

jfa_add_consumer_test(find_package OPTIONS -D CMAKE_PREFIX_PATH=${consumer_dir}/installed)
set_tests_properties(jfa_consumer_find_package PROPERTIES FIXTURES_REQUIRED installed)

# Compiles the library once more, without the two thirds that a server does not need; and file by file, as others
# build it, where batches (tools/setup.sh) would hide that a file lacks an include.
jfa_add_consumer_test(add_subdirectory
  OPTIONS -D JFA_CUDA_INCLUDE_DIR=${JFA_CUDA_INCLUDE_DIR} -D JFA_BUILD_SIMULATOR=OFF
  ARGUMENTS --without-simulator)
set_tests_properties(jfa_consumer_add_subdirectory PROPERTIES PROCESSORS 2)
