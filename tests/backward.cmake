# Gradients, end to end.
jfa_add_test(backward_bug_pool_test
  SOURCES backward_bug_pool_test.cpp
  LIBRARIES jfa_attention_harness fmt::fmt
  LABELS simulator
  TIMEOUT 600)
