# The simulator as a Hopper: wgmma and the register pool.
foreach(feature wgmma register_pool)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
