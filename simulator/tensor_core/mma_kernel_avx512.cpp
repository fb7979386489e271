#include "simulator/tensor_core/mma_kernel_body.h"

namespace jfa::simulator {

MmaRowKernel mma_row_kernel_avx512(int elements);
MmaRowKernel mma_row_kernel_avx512(int elements) { return row_kernel<16>(elements); }

}  // namespace jfa::simulator
