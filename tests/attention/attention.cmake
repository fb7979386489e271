# Attention end to end.

# Runs attention problems on a device; for every end-to-end test.
add_library(jfa_attention_harness STATIC attention/harness.cpp attention/backward_harness.cpp attention/guarded_memory.cpp)
target_link_libraries(jfa_attention_harness PRIVATE jfa_test_options jfa_runtime jfa_cuda_headers doctest::doctest
                                                    fmt::fmt
                                            PUBLIC jfa_test_problems jfa_library)

jfa_add_test(bug_pool_test
  SOURCES attention/bug_pool_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(bug_pool_docs_test SOURCES attention/bug_pool_docs_test.cpp command_runner.cpp LABELS tools)

jfa_add_test(attention_tuning_test
  SOURCES attention/tuning_test.cpp command_runner.cpp
  LIBRARIES jfa_attention_harness jfa_tuning jfa_cache jfa_runtime jfa_generator jfa_cuda_headers fmt::fmt
  LABELS simulator
  TIMEOUT 600)
