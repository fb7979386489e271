# The asynchronous memory of the simulator: tensor maps, mbarriers, TMA and bulk copies.
foreach(feature tensor_map mbarrier tma async_copy)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
