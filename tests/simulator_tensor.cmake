# The simulator's tensor core, tensor memory and driver table.
foreach(feature mma mma_scaled tensor_memory tensor_pair driver driver_kernel)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
jfa_add_test(simulator_tensor_wait_test SOURCES simulator_tensor_wait_test.cpp
             LIBRARIES jfa_simulator_one_op LABELS sim)
# tcgen05 in kernels around one product.
foreach(feature tcgen05 tcgen05_checks tensor_transfer)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp simulator_product_kernel.cpp
               LIBRARIES jfa_simulator jfa_cuda_headers fmt::fmt LABELS sim)
endforeach()
# Kernels around single instructions.
if(TARGET jfa_conformance)
  foreach(feature block_scale mma_ws mma_sparse mma_sparse_narrow tensor_copy)
    jfa_add_test(simulator_${feature}_test
                 SOURCES simulator_${feature}_test.cpp simulator_tensor_program.cpp simulator_narrow_elements.cpp
                 LIBRARIES jfa_conformance fmt::fmt LABELS sim)
  endforeach()
  foreach(feature mma_sp wgmma_sp)
    jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp simulator_sparse_matrix.cpp
                 LIBRARIES jfa_conformance fmt::fmt LABELS sim)
  endforeach()
endif()
