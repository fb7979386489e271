// Matrix descriptors: where a product's operands lie in shared memory. The targets differ in
// descriptor_mode() only.
namespace jfa::kernel {

constexpr int kMmaDepth = 16;  // the K dimension of one instruction, of 16-bit elements
constexpr int kCoreMatrixRows = 8;

// Rows of eight form a core matrix; stride_bytes lies between core matrices along the swizzled rows,
// leading_bytes between columns of boxes (only read for operands whose rows are the K dimension). The operand
// begins `offset` bytes behind `tile`: added last, and to one word, so that the steps of a product share the
// rest of the arithmetic. Shared addresses have 18 bits, so that no carry leaves the address.
template <int kSwizzleBytes>
__device__ inline u64 matrix_descriptor(u32 tile, u32 offset, u32 leading_bytes, u32 stride_bytes) {
  const u32 low = (leading_bytes >> 4 << 16 | tile >> 4) + (offset >> 4);
  const u32 high = static_cast<u32>(descriptor_mode(kSwizzleBytes) >> 32) | stride_bytes >> 4;
  return static_cast<u64>(high) << 32 | low;
}

// An operand whose rows are M or N and whose columns are K: step `k` covers 16 columns.
template <class Tile>
__device__ inline u64 descriptor_k_major(Tile tile, int k) {
  const u32 box = k * kMmaDepth / Tile::kBoxDim;
  const u32 within = k * kMmaDepth % Tile::kBoxDim * kElementBytes;
  return matrix_descriptor<Tile::kSwizzleBytes>(tile.address, box * Tile::kBoxBytes + within, 16,
                                                kCoreMatrixRows * Tile::kSwizzleBytes);
}

// An operand whose rows are K and whose columns are N: step `k` covers 16 rows.
template <class Tile>
__device__ inline u64 descriptor_n_major(Tile tile, int k) {
  return matrix_descriptor<Tile::kSwizzleBytes>(tile.address, kMmaDepth * k * Tile::kSwizzleBytes,
                                                Tile::kBoxBytes, kCoreMatrixRows * Tile::kSwizzleBytes);
}

}  // namespace jfa::kernel
