// Accumulator fragments of wgmma: each thread of a warpgroup holds two of 64 rows, a quad of lanes shares
// them.
namespace jfa::kernel {

constexpr int kWarpgroupThreads = 128;

// First of this thread's two rows; the second is 8 below.
__device__ inline int fragment_first_row() {
  return threadIdx.x % kWarpgroupThreads / 32 * 16 + threadIdx.x % 32 / 4;
}

// Register i of an accumulator: which of the thread's two rows, and which column.
__device__ constexpr int fragment_row(int i) { return i >> 1 & 1; }
__device__ inline int fragment_column(int i, int lane_column) { return 8 * (i >> 2) + lane_column + (i & 1); }
__device__ inline int lane_column() { return threadIdx.x % 4 * 2; }
__device__ inline int fragment_column(int i) { return fragment_column(i, lane_column()); }

__device__ inline float quad_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// A fragment's registers in the order in which wgmma takes its left operand: step k covers columns 16k … 16k
// + 15.
template <int kRegisters>
__device__ inline void pack_fragment(const float (&p)[kRegisters], u32 (&packed)[kRegisters / 8][4]) {
#pragma unroll
  for (int i = 0; i < kRegisters / 2; ++i) packed[i / 4][i % 4] = cvt_rn_x2(p[2 * i], p[2 * i + 1]);
}

// Rounded rows, times a factor each, into a swizzled tile, from this warpgroup's first row on.
template <class Tile, int kRegisters>
__device__ inline void stage_fragment(Tile tile, const float (&d)[kRegisters], const float (&factor)[2]) {
  const u32 row = fragment_first_row();
#pragma unroll
  for (int i = 0; i < kRegisters; i += 2) {
    const int r = fragment_row(i);
    const int column = 8 * (i >> 2);
    const u32 box = tile.address + column / Tile::kBoxDim * Tile::kBoxBytes;
    const u32 offset = swizzled_offset(row + 8 * r, column % Tile::kBoxDim / 8) + threadIdx.x % 4 * 4;
    st_shared(box + offset, cvt_rn_x2(d[i] * factor[r], d[i + 1] * factor[r]));
  }
}

// The same of rows that are rounded already, as pack_fragment() left them.
template <class Tile, int kSteps>
__device__ inline void stage_packed(Tile tile, const u32 (&packed)[kSteps][4]) {
  const u32 row = fragment_first_row();
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) {
    const int column = 8 * (i >> 1);
    const u32 box = tile.address + column / Tile::kBoxDim * Tile::kBoxBytes;
    const u32 offset =
        swizzled_offset(row + 8 * fragment_row(2 * i), column % Tile::kBoxDim / 8) + threadIdx.x % 4 * 4;
    st_shared(box + offset, packed[i / 4][i % 4]);
  }
}

// fp32 rows, times a factor each, to global memory, or added to what lies there; rows from valid_rows on are
// left out.
template <bool kAdd = false, int kRegisters>
__device__ inline void store_fragment(float* rows, const float (&d)[kRegisters], const float (&factor)[2],
                                      int valid_rows) {
  const int row = fragment_first_row();
#pragma unroll
  for (int i = 0; i < kRegisters; i += 2) {
    const int r = fragment_row(i);
    if (row + 8 * r >= valid_rows) continue;
    float2* place = reinterpret_cast<float2*>(rows + (row + 8 * r) * config::kPaddedDim + fragment_column(i));
    // Rounded before they are added: fused, the sum would depend on which summand is stored first.
    float2 values = make_float2(__fmul_rn(d[i], factor[r]), __fmul_rn(d[i + 1], factor[r]));
    if (kAdd) values = make_float2(place->x + values.x, place->y + values.y);
    *place = values;
  }
}

}  // namespace jfa::kernel
