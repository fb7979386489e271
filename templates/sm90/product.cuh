// Products of tiles by wgmma, issued by a whole warpgroup that has 64 rows of the result: d (+)= a * b. A
// letter `t` transposes what it follows: rows of b are N in mma_abt, and K otherwise. A thread has half as
// many registers of d as d has columns, which are the first ones of b. Groups are the caller's.
namespace jfa::kernel {

constexpr int kMmaRows = 64;

// The same tile, for the compiler one that all lanes have alike: its descriptors then live in uniform
// registers, from where wgmma takes them, and need no move each.
template <class Tile>
__device__ inline Tile uniform(Tile tile) {
  return {__shfl_sync(0xffffffff, tile.address, 0)};
}

template <int kRegisters, class A, class B>
__device__ inline void mma_abt(float (&d)[kRegisters], A a, B b) {
  static_assert(2 * kRegisters <= B::kRows && A::kColumns == B::kColumns);
  a = uniform(a);
  b = uniform(b);
#pragma unroll
  for (int k = 0; k < A::kColumns / kMmaDepth; ++k)
    wgmma_ss(d, descriptor_k_major(a, k), descriptor_k_major(b, k), k > 0);
}

// a in registers, as pack_fragment() leaves it.
template <int kRegisters, int kSteps, class B>
__device__ inline void mma_ab(float (&d)[kRegisters], const u32 (&a)[kSteps][4], B b, bool accumulate) {
  static_assert(2 * kRegisters <= B::kColumns && kSteps * kMmaDepth <= B::kRows);
  b = uniform(b);
#pragma unroll
  for (int k = 0; k < kSteps; ++k) wgmma_rs(d, a[k], descriptor_n_major(b, k), accumulate || k > 0);
}

// kDepth: of the columns of a, and the rows of b, so many.
template <int kDepth, int kRegisters, class A, class B>
__device__ inline void mma_ab(float (&d)[kRegisters], A a, B b) {
  static_assert(2 * kRegisters <= B::kColumns && kDepth <= A::kColumns && kDepth <= B::kRows);
  a = uniform(a);
  b = uniform(b);
#pragma unroll
  for (int k = 0; k < kDepth / kMmaDepth; ++k)
    wgmma_ss<false, true>(d, descriptor_k_major(a, k), descriptor_n_major(b, k), k > 0);
}

template <int kRegisters, class A, class B>
__device__ inline void mma_atb(float (&d)[kRegisters], A a, B b) {
  static_assert(2 * kRegisters <= B::kColumns && A::kRows == B::kRows);
  a = uniform(a);
  b = uniform(b);
#pragma unroll
  for (int k = 0; k < A::kRows / kMmaDepth; ++k)
    wgmma_ss<true, true>(d, descriptor_n_major(a, k), descriptor_n_major(b, k), k > 0);
}

}  // namespace jfa::kernel
