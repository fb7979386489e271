// Accumulators in tensor memory, one thread a row.
namespace jfa::kernel {

// Neighbouring columns of this thread's row of kRowColumns, loaded at once: as many as divide it, 64 or less
// if `kWide`, else 32 or less, which is less code.
template <int kRowColumns_, bool kWide = false>
struct RowPiece {
  static constexpr int kRowColumns = kRowColumns_;
  static constexpr int kColumns = kWide && kRowColumns % 64 == 0 ? 64 : kRowColumns % 32 == 0 ? 32 : 16;
  static constexpr int kLoadColumns = kColumns < 32 ? kColumns : 32;
  float values[kColumns / kLoadColumns][kLoadColumns];

  __device__ inline float& operator[](int column) {
    return values[column / kLoadColumns][column % kLoadColumns];
  }

  __device__ inline void load(TensorMemory row) {
#pragma unroll
    for (int column = 0; column < kColumns; column += kLoadColumns)
      tcgen05_ld(values[column / kLoadColumns], row + column);
    tcgen05_wait_ld();
#pragma unroll
    for (int column = 0; column < kColumns; column += kLoadColumns) pin(values[column / kLoadColumns]);
  }

  __device__ inline void clear() {
    const float zero = __uint_as_float(opaque(0));  // not set before a branch that leads here
#pragma unroll
    for (int i = 0; i < kColumns; ++i) (*this)[i] = zero;
  }

  __device__ inline void scale(float factor) {
    const FloatPair factors = pack(factor);
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      float &low = (*this)[i], &high = (*this)[i + 1];
      unpack(mul_rn_x2(pack(low, high), factors), low, high);
    }
  }

  __device__ inline void store(TensorMemory row) {
#pragma unroll
    for (int column = 0; column < kColumns; column += kLoadColumns)
      tcgen05_st(row + column, values[column / kLoadColumns]);
  }
};

// Calls visit(column, piece) with all columns of this thread's row, times a factor; zeros if nothing was
// accumulated.
template <class Piece, class Accumulator, class Visit>
__device__ inline void for_each_piece(Accumulator row, float factor, bool empty, Visit visit) {
#pragma unroll 1
  for (int column = 0; column < Piece::kRowColumns; column += Piece::kColumns) {
    Piece piece;
    if (empty) {
      piece.clear();
    } else {
      piece.load(row + column);
      piece.scale(factor);
    }
    visit(column, piece);
  }
}

// The rounded row to its place in a swizzled tile. All lanes load, as tensor memory wants; those with a row
// store.
template <class Tile, class Accumulator>
__device__ inline void stage_row(Tile tile, Accumulator memory, u32 row, float factor, bool empty,
                                 bool store = true) {
  using Piece = RowPiece<Accumulator::kColumns, true>;
  for_each_piece<Piece>(memory, factor, empty, [&](int first, Piece& piece) {
    if (!store) return;
    // Chunks of a piece differ in bits that are 0 in its first one's place in the row.
    static_assert(Tile::kBoxDim % Piece::kColumns == 0);
    const u32 place = tile.address + first / Tile::kBoxDim * Tile::kBoxBytes +
                      swizzled_offset(row, first % Tile::kBoxDim / 8);
#pragma unroll
    for (int i = 0; i < Piece::kColumns; i += 8) {
      st_shared_v4(place ^ (i / 8 * 16), cvt_rn_x2(piece[i], piece[i + 1]),
                   cvt_rn_x2(piece[i + 2], piece[i + 3]), cvt_rn_x2(piece[i + 4], piece[i + 5]),
                   cvt_rn_x2(piece[i + 6], piece[i + 7]));
    }
  });
}

// The row in fp32 to global memory.
template <class Accumulator>
__device__ inline void store_row(float* destination, Accumulator memory, float factor, bool empty,
                                 bool store) {
  using Piece = RowPiece<config::kPaddedDim>;
  for_each_piece<Piece>(memory, factor, empty, [&](int first, Piece& piece) {
    if (!store) return;
#pragma unroll
    for (int i = 0; i < Piece::kColumns; i += 4)
      *reinterpret_cast<float4*>(destination + first + i) =
          make_float4(piece[i], piece[i + 1], piece[i + 2], piece[i + 3]);
  });
}

// Which of 32 columns from `first` on a row sees: a bit each.
__device__ inline u32 seen_bits(const Intervals& seen, int first) {
  return bmsk_clamp(0, max(seen.end - first, 0)) & ~bmsk_clamp(0, max(seen.begin - first, 0));
}

// The same of columns that are rows of a tile of slots, one below the other, where the interval is of each.
__device__ inline u32 seen_slot_bits(const Intervals& seen, int first, int slot_rows) {
  u32 bits = 0;
#pragma unroll 1
  for (int g = 0; g < config::kGroups; ++g) bits |= seen_bits(seen, first - g * slot_rows);
  return bits;
}

}  // namespace jfa::kernel
