# The simulator's parts: one executable, since linking one for each takes longer than compiling them.
file(GLOB simulator_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} simulator_*_test.cpp)
jfa_add_test(simulator_test
  SOURCES
    ${simulator_tests}
    simulator_narrow_elements.cpp
    simulator_one_op.cpp
    simulator_product_kernel.cpp
    simulator_sparse_matrix.cpp
    simulator_tensor_program.cpp
    simulator_tma_support.cpp
  LIBRARIES jfa_conformance jfa_simulator jfa_sim_launch jfa_cuda_headers fmt::fmt nlohmann_json::nlohmann_json
  LABELS sim)
