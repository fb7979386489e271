# Gradients, end to end.
jfa_add_test(backward_bug_pool_test
  SOURCES attention/backward_bug_pool_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(backward_paths_test
  SOURCES attention/backward_paths_test.cpp
  LIBRARIES jfa_attention_harness
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(backward_two_cta_test
  SOURCES attention/backward_two_cta_test.cpp
  LIBRARIES jfa_attention_harness jfa_cuda_headers
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(prepare_lists_test
  SOURCES attention/prepare_lists_test.cpp
  LIBRARIES jfa_attention_harness jfa_runtime jfa_generator jfa_cuda_headers fmt::fmt
  LABELS simulator
  TIMEOUT 300)

jfa_add_test(unowned_rows_test
  SOURCES attention/unowned_rows_test.cpp
  LIBRARIES jfa_attention_harness
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(bad_offsets_test
  SOURCES attention/bad_offsets_test.cpp
  LIBRARIES jfa_attention_harness jfa_cuda_headers
  LABELS simulator
  TIMEOUT 300)

jfa_add_test(backward_repeat_test
  SOURCES attention/backward_repeat_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(unseen_rows_test
  SOURCES attention/unseen_rows_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(large_scores_test
  SOURCES attention/large_scores_test.cpp
  LIBRARIES jfa_attention_harness
  LABELS simulator
  TIMEOUT 600)

# The covering array in halves of its kernels. Both targets share what rows see and where tensors lie: one half runs on
# 10.x and the other on 9.0 (hopper.cmake), and all of it on both in a build for a machine with a GPU, which has cores
# for it.
set(backward_shards 1)
if(JFA_TEST_GPU)
  set(backward_shards 1 2)
endif()
add_executable(backward_suite_test
  attention/backward_suite_test.cpp attention/forward_suite_array.cpp attention/forward_suite_run.cpp)
target_link_libraries(backward_suite_test PRIVATE jfa_test_options jfa_test_main jfa_attention_harness fmt::fmt)
foreach(shard IN LISTS backward_shards)
  add_test(NAME backward_suite_test_${shard} COMMAND backward_suite_test)
  set_tests_properties(backward_suite_test_${shard} PROPERTIES
    LABELS simulator
    TIMEOUT 600
    COST 100  # starts early, so that no core waits at the end
    ENVIRONMENT JFA_BACKWARD_SUITE=${shard}/2)
endforeach()
