# The simulator's parts: one executable, since linking one for each takes longer than compiling them.
file(GLOB simulator_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} simulator/*_test.cpp)
jfa_add_test(simulator_test
  SOURCES
    ${simulator_tests}
    simulator/narrow_elements.cpp
    simulator/one_op.cpp
    simulator/product_kernel.cpp
    simulator/sparse_matrix.cpp
    simulator/tensor_program.cpp
    simulator/tma_support.cpp
  LIBRARIES jfa_conformance jfa_simulator jfa_sim_launch jfa_cuda_headers fmt::fmt nlohmann_json::nlohmann_json
  LABELS sim)
