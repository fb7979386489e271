// Matrix descriptors: where a product's operands lie in shared memory. The targets differ in kDescriptorMode
// only.
namespace jfa::kernel {

// Rows of eight form a core matrix; stride_bytes lies between core matrices along the swizzled rows,
// leading_bytes between columns of boxes (only read for operands whose rows are the K dimension). The operand
// begins `offset` bytes behind `tile`: added last, and to one word, so that the steps of a product share the
// rest of the arithmetic. Shared addresses have 18 bits, so that no carry leaves the address.
__device__ inline u64 matrix_descriptor(u32 tile, u32 offset, u32 leading_bytes, u32 stride_bytes) {
  const u32 low = (leading_bytes >> 4 << 16 | tile >> 4) + (offset >> 4);
  const u32 high = static_cast<u32>(kDescriptorMode >> 32) | stride_bytes >> 4;
  return static_cast<u64>(high) << 32 | low;
}

// An operand whose rows are M or N and whose columns are K: step `k` covers 16 columns.
template <int kRows>
__device__ inline u64 descriptor_k_major(u32 tile, int k) {
  const u32 box = k * 16 / config::kBoxDim;
  const u32 within = k * 16 % config::kBoxDim * kElementBytes;
  return matrix_descriptor(tile, box * box_bytes(kRows) + within, 16, 8 * config::kSwizzleBytes);
}

// An operand whose rows are K and whose columns are N: step `k` covers 16 rows.
template <int kRows>
__device__ inline u64 descriptor_n_major(u32 tile, int k) {
  return matrix_descriptor(tile, box_bytes(16 * k), box_bytes(kRows), 8 * config::kSwizzleBytes);
}

}  // namespace jfa::kernel
