# Mutants of our own kernels: what the checkers must find.
add_library(jfa_attention_recording STATIC attention/recording.cpp attention/launch_recorder.cpp)
target_link_libraries(jfa_attention_recording
  PRIVATE jfa_options jfa_runtime jfa_generator jfa_cuda_headers fmt::fmt
  PUBLIC jfa_test_problems jfa_simulator jfa_library)

jfa_add_test(mutation_test
  SOURCES attention/mutation_test.cpp
  LIBRARIES jfa_attention_recording jfa_mutation_campaign fmt::fmt
  LABELS simulator
  TIMEOUT 600)

jfa_add_test(two_cta_hazards_test
  SOURCES attention/two_cta_hazards_test.cpp
  LIBRARIES jfa_attention_recording jfa_mutation_campaign jfa_runtime jfa_generator jfa_cache
  LABELS simulator
  TIMEOUT 600)
