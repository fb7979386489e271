#include "simulator/tensor_core/mma_kernel_body.h"

namespace jfa::simulator {

#ifdef JFA_MMA_KERNELS_X86_64

MmaRowKernel mma_row_kernel_avx2(int elements);
MmaRowKernel mma_row_kernel_avx512(int elements);

std::span<const MmaRowKernelChoice> mma_row_kernels() {
  // CPUs with AVX512DQ have the rest of x86-64-v4, too, and those with FMA and BMI2 that of x86-64-v3.
  static const bool v4 = __builtin_cpu_supports("avx512dq") != 0;
  static const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  static constexpr MmaRowKernelChoice kAll[] = {mma_row_kernel_avx512, mma_row_kernel_avx2, row_kernel<4>};
  return std::span(kAll).subspan(v4 ? 0 : v3 ? 1 : 2);
}

#else

std::span<const MmaRowKernelChoice> mma_row_kernels() {
  static constexpr MmaRowKernelChoice kAll[] = {row_kernel<4>};
  return kAll;
}

#endif

MmaRowKernel mma_row_kernel(int elements) { return mma_row_kernels().front()(elements); }

}  // namespace jfa::simulator
