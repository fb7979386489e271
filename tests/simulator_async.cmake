# The asynchronous memory of the simulator: tensor maps, mbarriers, TMA and bulk copies.
foreach(feature tensor_map mbarrier tma_packed async_copy)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
foreach(feature tma tma_checks tma_cluster tensormap unchecked)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp simulator_tma_support.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
# What happened when, as jfa-sim writes it.
jfa_add_test(simulator_trace_test SOURCES simulator_trace_test.cpp
             LIBRARIES jfa_simulator jfa_sim_launch jfa_cuda_headers nlohmann_json::nlohmann_json LABELS sim)
