# The forward over a covering array. Two processes, each with half of the kernels: a core each.
# `forward_suite_test --all` is the long run.
add_executable(forward_suite_test
  attention/forward_suite_main.cpp attention/forward_suite_test.cpp attention/forward_suite_array.cpp attention/forward_suite_run.cpp)
target_link_libraries(forward_suite_test PRIVATE jfa_test_options jfa_test_main jfa_attention_harness doctest::doctest
                                                 fmt::fmt)
foreach(shard IN ITEMS 1 2)
  add_test(NAME forward_suite_test_${shard} COMMAND forward_suite_test --shard=${shard}/2)
endforeach()

jfa_add_test(forward_edges_test
  SOURCES attention/forward_edges_test.cpp attention/forward_suite_array.cpp attention/forward_suite_run.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 300)

set_tests_properties(forward_suite_test_1 forward_suite_test_2 PROPERTIES LABELS simulator TIMEOUT 600 COST 100)
