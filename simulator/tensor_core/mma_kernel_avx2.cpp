#include "simulator/tensor_core/mma_kernel_body.h"

namespace jfa::simulator {

MmaRowKernel mma_row_kernel_avx2(int elements);
MmaRowKernel mma_row_kernel_avx2(int elements) { return row_kernel<8>(elements); }

}  // namespace jfa::simulator
