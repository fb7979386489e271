// Matrix descriptors: where a product's operands lie in shared memory. The targets differ in kDescriptorMode
// only.
namespace jfa::kernel {

// Rows of eight form a core matrix; stride_bytes lies between core matrices along the swizzled rows,
// leading_bytes between columns of boxes (only read for operands whose rows are the K dimension).
__device__ inline u64 matrix_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return kDescriptorMode | static_cast<u64>((stride_bytes & 0x3ffff) >> 4) << 32 |
         static_cast<u64>((leading_bytes & 0x3ffff) >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// Queries and keys: rows are M or N, head_dim is K. Step `k` covers 16 elements of head_dim.
__device__ inline u64 descriptor_k_major(u32 tile, int k) {
  const u32 box = k * 16 / config::kBoxDim;
  const u32 within = k * 16 % config::kBoxDim * kElementBytes;
  return matrix_descriptor(tile + box * kBoxBytes + within, 16, 8 * config::kSwizzleBytes);
}

// Values: rows are K, head_dim is N. Step `k` covers 16 rows.
__device__ inline u64 descriptor_n_major(u32 tile, int k) {
  return matrix_descriptor(tile + k * 16 * config::kSwizzleBytes, kBoxBytes, 8 * config::kSwizzleBytes);
}

}  // namespace jfa::kernel
