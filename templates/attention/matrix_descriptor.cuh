// Matrix descriptors: where a product's operands lie in shared memory. The targets differ in kDescriptorMode
// only.
namespace jfa::kernel {

// Rows of eight form a core matrix; stride_bytes lies between core matrices along the swizzled rows,
// leading_bytes between columns of boxes (only read for operands whose rows are the K dimension).
__device__ inline u64 matrix_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return kDescriptorMode | static_cast<u64>((stride_bytes & 0x3ffff) >> 4) << 32 |
         static_cast<u64>((leading_bytes & 0x3ffff) >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// An operand whose rows are M or N and whose columns are K: step `k` covers 16 columns.
template <int kRows>
__device__ inline u64 descriptor_k_major(u32 tile, int k) {
  const u32 box = k * 16 / config::kBoxDim;
  const u32 within = k * 16 % config::kBoxDim * kElementBytes;
  return matrix_descriptor(tile + box * box_bytes(kRows) + within, 16, 8 * config::kSwizzleBytes);
}

// An operand whose rows are K and whose columns are N: step `k` covers 16 rows.
template <int kRows>
__device__ inline u64 descriptor_n_major(u32 tile, int k) {
  return matrix_descriptor(tile + box_bytes(16 * k), box_bytes(kRows), 8 * config::kSwizzleBytes);
}

}  // namespace jfa::kernel
