# Mutants of our own kernels: what the checkers must find.
add_library(jfa_forward_recording STATIC forward_recording.cpp launch_recorder.cpp)
target_link_libraries(jfa_forward_recording
  PRIVATE jfa_options jfa_runtime jfa_generator jfa_cuda_headers fmt::fmt
  PUBLIC jfa_test_problems jfa_simulator jfa::jfa)
