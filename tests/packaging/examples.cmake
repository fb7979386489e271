# The examples are what a newcomer copies, so they are built and run as they stand. Each judges its own results.
add_subdirectory(${PROJECT_SOURCE_DIR}/examples ${PROJECT_BINARY_DIR}/examples)
if(TARGET jfa_example_attention_c AND JFA_SANITIZE)
  target_link_options(jfa_example_attention_c PRIVATE -fsanitize=address,undefined)
endif()

# jfa_add_example_test(name [EXPECTED regular-expression] [GPUS device...])
# Runs an example on simulated devices, and with JFA_TEST_GPU on the GPUs too, cuda:0 if nothing is said. Where
# something is expected, the whole of it has to be printed; else the exit status decides.
function(jfa_add_example_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPECTED" "GPUS")
  add_test(NAME jfa_example_${name} COMMAND jfa_example_${name})
  set(tests jfa_example_${name})
  if(arg_EXPECTED)
    set_tests_properties(jfa_example_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_EXPECTED}")
  endif()
  set_tests_properties(jfa_example_${name} PROPERTIES LABELS simulator)
  if(JFA_TEST_GPU)
    if(NOT arg_GPUS)
      set(arg_GPUS cuda:0)
    endif()
    list(LENGTH arg_GPUS count)
    set(label gpu)
    if(count GREATER 1)
      set(label ${count}gpu)
    endif()
    add_test(NAME jfa_example_${name}_gpu COMMAND jfa_example_${name} ${arg_GPUS})
    set_tests_properties(jfa_example_${name}_gpu PROPERTIES LABELS ${label})
    list(APPEND tests jfa_example_${name}_gpu)
  endif()
  set_tests_properties(${tests} PROPERTIES TIMEOUT 120 ENVIRONMENT JFA_CACHE_DIR=${JFA_TEST_CACHE_DIR})
endfunction()

set(rows "output row 0: 1.5\noutput row 1: 1.5\noutput row 2: 9\noutput row 3: 9\noutput row 4: 9\n$")
jfa_add_example_test(attention EXPECTED "${rows}")
if(TARGET jfa_example_attention_c)
  jfa_add_example_test(attention_c EXPECTED "jfa [^\n]+ on sim:sm_100a\n${rows}")
endif()
jfa_add_example_test(backward)
jfa_add_example_test(pma)
string(CONCAT replays "sim:sm_100a: no cuStreamBeginCapture on a simulated device[^\n]*\n"
                      "offsets 0 5 8 8: right\noffsets 0 1 1 32: right\noffsets 0 0 0 0: right\n"
                      "offsets 0 10 20 30: right\n$")
jfa_add_example_test(cuda_graph EXPECTED "${replays}")
string(CONCAT both "sim:sm_100a: 1\nsim:sm_100a: 1\nsim:sm_100a: 1\nsim:sm_100a: 3\n")
foreach(mean IN ITEMS 5.5 5.5 5.5 5.5 8.5 8.5)
  string(APPEND both "sim:sm_100a.schedule=random: ${mean}\n")
endforeach()
jfa_add_example_test(two_devices EXPECTED "${both}$" GPUS cuda:0 cuda:1)

# A stranger builds them beside an installed jfa.
if(JFA_INSTALL AND TARGET jfa_shared)  # packaging/packaging.cmake installs it then
  add_test(NAME jfa_examples_installed
           COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR}/examples
                   ${CMAKE_CURRENT_BINARY_DIR}/consumers/examples --build-generator ${CMAKE_GENERATOR}
                   --build-options -D CMAKE_BUILD_TYPE=None
                                   -D CMAKE_PREFIX_PATH=${CMAKE_CURRENT_BINARY_DIR}/consumers/moved
                   --test-command jfa_example_attention)
  set_tests_properties(jfa_examples_installed PROPERTIES
    TIMEOUT 300 LABELS packaging FIXTURES_REQUIRED moved ENVIRONMENT JFA_CACHE_DIR=${JFA_TEST_CACHE_DIR})
endif()
