# Kernels that other compilers made, in the simulator: witnesses/.
jfa_add_test(witnesses_test
  SOURCES witnesses/witnesses_test.cpp witnesses/witness.cpp
  LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt nlohmann_json::nlohmann_json
  LABELS simulator
  TIMEOUT 600)
