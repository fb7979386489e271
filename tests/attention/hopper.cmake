# The kernels for compute capability 9.0, end to end: the suites of the other areas on a simulated Hopper.
set(hopper_device JFA_TEST_DEVICE=sim:sm_90a)
foreach(suite IN ITEMS bug_pool_test backward_bug_pool_test forward_edges_test unowned_rows_test bad_offsets_test)
  jfa_discover_tests(${suite} PREFIX "hopper " LABEL hopper_simulator TIMEOUT 600 ENVIRONMENT ${hopper_device})
endforeach()
# Half of the kernels of the covering arrays, as backward.cmake says.
set(forward_shards 1)
set(backward_shards 2)
if(JFA_TEST_GPU)
  set(forward_shards 1 2)
  set(backward_shards 1 2)
endif()
foreach(shard IN LISTS forward_shards)
  add_test(NAME hopper_forward_suite_test_${shard} COMMAND forward_suite_test --shard=${shard}/2)
  set_tests_properties(hopper_forward_suite_test_${shard} PROPERTIES
    LABELS hopper_simulator TIMEOUT 600 COST 100 ENVIRONMENT ${hopper_device})
endforeach()
foreach(shard IN LISTS backward_shards)
  add_test(NAME hopper_backward_suite_test_${shard} COMMAND backward_suite_test)
  set_tests_properties(hopper_backward_suite_test_${shard} PROPERTIES
    LABELS hopper_simulator TIMEOUT 600 COST 100 ENVIRONMENT "${hopper_device};JFA_BACKWARD_SUITE=${shard}/2")
endforeach()
