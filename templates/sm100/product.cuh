// Products of tiles by tcgen05.mma, issued by one thread: d (+)= a * b. Whatever is left out of a name's
// letters is as it lies, `t` is transposed: rows of b are K in mma_ab and mma_atb, and N in mma_abt.
//
// kCtas 2: of a pair of CTAs. Each has its rows of d and a, and its half of what makes the columns of d: half
// of b's rows in mma_abt, of its columns in the others; all at the same places in both.
namespace jfa::kernel {

// `n`: columns of d that are computed, rows of b that are read.
template <int kCtas = 1, class D, class A, class B>
__device__ inline void mma_abt(D d, A a, B b, int n, bool accumulate = false) {
  static_assert(D::kRows == A::kRows && A::kColumns == B::kColumns);
  for (int k = 0; k < A::kColumns / kMmaDepth; ++k) {
    tcgen05_mma_ss<kCtas>(d.address, descriptor_k_major(a, k), descriptor_k_major(b, k),
                          instruction_descriptor(n, false, false, kCtas * kTileRows), accumulate || k > 0);
  }
}

// a in tensor memory. `first`: this product starts d. By reference, to be read where it is used.
template <int kCtas = 1, class D, Element kElement, int kRows, int kColumns, class B>
__device__ inline void mma_ab(D d, TensorTile<kElement, kRows, kColumns> a, B b, const bool& first) {
  static_assert(D::kRows == kRows && D::kColumns == kCtas * B::kColumns && kColumns <= B::kRows);
  const u32 instruction = instruction_descriptor(D::kColumns, true, false, kCtas * kTileRows);
  for (int k = 0; k < kColumns / kMmaDepth; ++k) {
    tcgen05_mma_ts<kCtas>(d.address, a + k * (kMmaDepth * kElementBytes / 4), descriptor_n_major(b, k),
                          instruction, !first || k > 0);
  }
}

// The same of the first `depth` columns of a, and rows of a stage of `b`.
template <class D, class A, class Tiles>
__device__ inline void mma_ab(D d, A a, const Tiles& b, int stage, int depth, const bool& first) {
  using B = typename Tiles::Stage;
  static_assert(D::kRows == A::kRows && D::kColumns == B::kColumns && A::kColumns <= B::kRows);
#pragma unroll 1  // less code; a step's issue hides behind the tensor core and the threads that wait for it
  for (int k = 0; k < depth / kMmaDepth; ++k) {
    tcgen05_mma_ts(d.address, a + k * (kMmaDepth * kElementBytes / 4), descriptor_n_major(b[stage], k),
                   instruction_descriptor(B::kColumns, true), !first || k > 0);
  }
}

// a in shared memory.
template <class D, Element kElement, int kRows, int kColumns, int kSwizzleBytes, class B>
__device__ inline void mma_ab(D d, SharedTile<kElement, kRows, kColumns, kSwizzleBytes> a, B b,
                              bool accumulate) {
  static_assert(D::kRows == kRows && D::kColumns == B::kColumns && kColumns <= B::kRows);
  const u32 instruction = instruction_descriptor(B::kColumns, true);
  for (int k = 0; k < kColumns / kMmaDepth; ++k) {
    tcgen05_mma_ss(d.address, descriptor_k_major(a, k), descriptor_n_major(b, k), instruction,
                   accumulate || k > 0);
  }
}

template <int kCtas = 1, class D, class A, class B>
__device__ inline void mma_atb(D d, A a, B b, bool accumulate) {
  static_assert(D::kRows == A::kColumns && D::kColumns == kCtas * B::kColumns && A::kRows == B::kRows);
  const u32 instruction = instruction_descriptor(D::kColumns, true, true, kCtas * A::kColumns);
  for (int k = 0; k < A::kRows / kMmaDepth; ++k) {
    tcgen05_mma_ss<kCtas>(d.address, descriptor_n_major(a, k), descriptor_n_major(b, k), instruction,
                          accumulate || k > 0);
  }
}

// This warp's part of tensor memory, for the thread of a row.
__device__ inline TensorMemory lanes_of(TensorMemory memory, int row) {
  return memory + (static_cast<u32>(row / 32 * 32) << 16);
}

}  // namespace jfa::kernel
