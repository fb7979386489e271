// How a tile of rows x head_dim elements lies in shared memory: one box after the other, each a column block
// as wide as the swizzle, one swizzled row after the other.
namespace jfa::kernel {

constexpr int kElementBytes = 2;
constexpr int kTileRows = 128;  // of a query or key tile, as the work list counts them

// Bytes of one column block, and of a whole tile, of `rows` rows.
__host__ __device__ constexpr u32 box_bytes(int rows) { return rows * config::kSwizzleBytes; }
__host__ __device__ constexpr u32 tile_bytes(int rows) { return box_bytes(rows) * config::kBoxes; }

// The swizzle permutes the 16-byte chunks of a row by address bits 7 and up.
constexpr int kRowsPerPermutation = 128 / config::kSwizzleBytes;
constexpr u32 kChunksPerRow = config::kSwizzleBytes / 16;

// Byte offset of 16-byte chunk `chunk` of row `row` within a box.
__device__ inline u32 swizzled_offset(u32 row, u32 chunk) {
  return row * config::kSwizzleBytes + ((chunk ^ (row / kRowsPerPermutation % kChunksPerRow)) * 16);
}

// Ragged tensor maps: a sequence of `rows` rows that starts at row `first` of the packed tensor. Dimension 2
// has extent 2^30 and the two outer ones cancel it modulo 2^64, so row `rows` and beyond fall outside the
// tensor: loads give zeros, stores are dropped, and no neighbour is touched.
__device__ inline BoxCoordinates ragged_box(int column, int head, int first, int rows) {
  constexpr int kExtent = 1 << 30;
  return {column, head, kExtent - rows, first + rows, kExtent};
}

// Loads a tile of kRows rows by boxes of kBoxRows; the caller has announced tile_bytes(kRows) on `barrier`.
template <int kRows, int kBoxRows>
__device__ inline void load_tile(u32 tile, const TensorMap* map, int head, int first, int rows,
                                 u64* barrier) {
#pragma unroll 1  // by one thread with few registers
  for (int box = 0; box < config::kBoxes; ++box) {
    for (int row = 0; row < kRows; row += kBoxRows) {
      cp_async_bulk_tensor_load(tile + box * box_bytes(kRows) + box_bytes(row), map,
                                ragged_box(box * config::kBoxDim, head, first + row, rows - row), barrier);
    }
  }
}

// Stores the first kBoxRows rows of a tile of kRows rows.
template <int kRows, int kBoxRows>
__device__ inline void store_tile(const TensorMap* map, int head, int first, int rows, u32 tile) {
  for (int box = 0; box < config::kBoxes; ++box) {
    cp_async_bulk_tensor_store(map, ragged_box(box * config::kBoxDim, head, first, rows),
                               tile + box * box_bytes(kRows));
  }
}

}  // namespace jfa::kernel
