# The simulator as a Hopper: wgmma and the register pool.
foreach(feature wgmma register_pool)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()

# The kernels for compute capability 9.0, end to end: the suites of the other areas on a simulated Hopper.
function(jfa_add_hopper_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;ENVIRONMENT")
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS "simulator;hopper"
    TIMEOUT 600
    ENVIRONMENT "JFA_TEST_DEVICE=sim:sm_90a;JFA_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache;${arg_ENVIRONMENT}")
endfunction()
foreach(suite IN ITEMS bug_pool_test backward_bug_pool_test forward_edges_test unowned_rows_test bad_offsets_test)
  jfa_add_hopper_test(hopper_${suite} COMMAND ${suite})
endforeach()
foreach(shard IN ITEMS 1 2)
  jfa_add_hopper_test(hopper_forward_suite_test_${shard} COMMAND forward_suite_test --shard=${shard}/2)
  jfa_add_hopper_test(hopper_backward_suite_test_${shard} COMMAND backward_suite_test
                      ENVIRONMENT JFA_BACKWARD_SUITE=${shard}/2)
endforeach()
