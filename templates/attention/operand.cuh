// How the tensor memory accelerator moves tiles of rows x head_dim elements, box by box.
namespace jfa::kernel {

using config::kElementBytes;
using config::kItemStages;
using config::kTileRows;

// Bytes of so many swizzled rows of a box.
__host__ __device__ constexpr u32 box_bytes(int rows) { return rows * config::kSwizzleBytes; }

// The swizzle permutes the 16-byte chunks of a row by address bits 7 and up.
constexpr int kRowsPerPermutation = 128 / config::kSwizzleBytes;
constexpr u32 kChunksPerRow = config::kSwizzleBytes / 16;

// Byte offset of 16-byte chunk `chunk` of row `row` within a box.
__device__ inline u32 swizzled_offset(u32 row, u32 chunk) {
  return row * config::kSwizzleBytes + ((chunk ^ (row / kRowsPerPermutation % kChunksPerRow)) * 16);
}

// As opaque() of an address.
template <Element kElement, int kRows, int kColumns, int kSwizzleBytes>
__device__ inline auto opaque(SharedTile<kElement, kRows, kColumns, kSwizzleBytes> tile) {
  return decltype(tile){opaque(tile.address)};
}

// Where tiles begin in dynamic shared memory that starts at `start`.
__device__ inline u32 first_tile(u32 start) {
  return (start + config::kTileAlignment - 1) / config::kTileAlignment * config::kTileAlignment;
}

// Ragged tensor maps: a sequence of `rows` rows that starts at row `first` of the packed tensor. Dimension 2
// has extent 2^30 and the two outer ones cancel it modulo 2^64, so row `rows` and beyond fall outside the
// tensor: loads give zeros, stores are dropped, and no neighbour is touched.
__device__ inline BoxCoordinates ragged_box(int column, int head, int first, int rows) {
  constexpr int kExtent = 1 << 30;
  return {column, head, kExtent - rows, first + rows, kExtent};
}

// Loads a tile by boxes of kBoxRows rows; the caller has announced Tile::kBytes on `barrier`.
template <int kBoxRows, class Tile>
__device__ inline void load_tile(Tile tile, const TensorMap* map, int head, int first, int rows,
                                 u64* barrier) {
#pragma unroll 1  // by one thread with few registers
  for (int box = 0; box < Tile::kBoxes; ++box) {
    for (int row = 0; row < Tile::kRows; row += kBoxRows) {
      cp_async_bulk_tensor_load(tile.from_box(box).from_row(row).address, map,
                                ragged_box(box * Tile::kBoxDim, head, first + row, rows - row), barrier);
    }
  }
}

// Stores the first rows of a tile, as many as the map's boxes have.
template <class Tile>
__device__ inline void store_tile(const TensorMap* map, int head, int first, int rows, Tile tile) {
  for (int box = 0; box < Tile::kBoxes; ++box) {
    cp_async_bulk_tensor_store(map, ragged_box(box * Tile::kBoxDim, head, first, rows),
                               tile.from_box(box).address);
  }
}

}  // namespace jfa::kernel
