// Tiles and warps as types: element, shape, swizzle and place are in a tile's type, a value of it is an
// address. The configuration that follows is made of these.
namespace jfa::kernel {

enum class Element { bf16, fp16, fp32 };
__host__ __device__ constexpr int element_bytes(Element element) { return element == Element::fp32 ? 4 : 2; }

// Neighbouring warps with one task. kRegisters: a thread's, which the role sets itself; 0: the compiler's.
template <int kFirst_, int kCount_, int kRegisters_>
struct Warps {
  static constexpr int kFirst = kFirst_, kCount = kCount_, kEnd = kFirst + kCount;
  static constexpr int kThreads = 32 * kCount;
  static constexpr int kRegisters = kRegisters_;
};

// ---- Shared memory.

// Rows of elements: boxes, each a column block as wide as the swizzle, one after the other; in a box one
// swizzled row after the other. What begins at a later row or box has the same type, since it lies the same.
template <Element kElement, int kRows_, int kColumns_, int kSwizzleBytes_>
struct SharedTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kSwizzleBytes = kSwizzleBytes_;
  static constexpr int kBoxDim = kSwizzleBytes / element_bytes(kElement);
  static constexpr int kBoxes = kColumns / kBoxDim;
  static constexpr unsigned kBoxBytes = kRows * kSwizzleBytes;
  static constexpr unsigned kBytes = kBoxes * kBoxBytes;
  static_assert(kColumns % kBoxDim == 0);

  unsigned address;

  __device__ inline SharedTile from_row(int row) const {
    return {address + static_cast<unsigned>(row * kSwizzleBytes)};
  }
  __device__ inline SharedTile operator+(unsigned bytes) const { return {address + bytes}; }
  __device__ inline SharedTile from_box(int box) const { return {address + box * kBoxBytes}; }
  // The same place as tiles of fewer rows, or of fewer columns, from its first ones on.
  template <int kOtherRows>
  using WithRows = SharedTile<kElement, kOtherRows, kColumns, kSwizzleBytes>;
  template <int kOtherColumns>
  using WithColumns = SharedTile<kElement, kRows, kOtherColumns, kSwizzleBytes>;
};

// Two tiles that are loaded together.
template <class Tile_>
struct TilePair {
  using Tile = Tile_;
  static constexpr unsigned kBytes = 2 * Tile::kBytes;

  unsigned address;

  __device__ inline Tile operator[](int which) const { return {address + which * Tile::kBytes}; }
};

// kStages tiles or pairs, one after the other, from byte kBegin of shared memory on.
template <class Stage_, unsigned kBegin, int kStages_>
struct SharedTiles {
  using Stage = Stage_;
  static constexpr int kStages = kStages_;

  unsigned address;

  __device__ static inline SharedTiles in(unsigned shared) { return {shared + kBegin}; }
  __device__ inline Stage operator[](int stage) const { return {address + stage * Stage::kBytes}; }
};

// Bytes that only the kernel knows.
template <unsigned kBegin_, unsigned kBytes_>
struct SharedBytes {
  static constexpr unsigned kBegin = kBegin_, kBytes = kBytes_;
};

// ---- Tensor memory.

// Rows of elements, as many a column as fit its 32 bits; a row is a lane.
template <Element kElement, int kRows_, int kColumns_>
struct TensorTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kWidth = kColumns * element_bytes(kElement) / 4;  // columns of tensor memory

  unsigned address;

  // The address of a column of tensor memory.
  __device__ inline unsigned operator+(int column) const { return address + column; }
};

// kStages tiles, one beside the other, from column kBegin on.
template <class Tile_, unsigned kBegin_, int kStages_>
struct TensorTiles {
  using Tile = Tile_;
  static constexpr unsigned kBegin = kBegin_;
  static constexpr int kStages = kStages_;

  __device__ static inline Tile in(unsigned memory, int stage = 0) {
    return {memory + kBegin + stage * Tile::kWidth};
  }
};

}  // namespace jfa::kernel
