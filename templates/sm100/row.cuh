// Accumulators in tensor memory, one thread a row.
namespace jfa::kernel {

constexpr int kRowChunk = 16;  // columns that tcgen05_ld_x16 loads

// Some columns of this thread's row, times a factor; zeros if nothing was accumulated.
__device__ inline void load_row(float (&values)[kRowChunk], TensorMemory row, float factor, bool empty) {
  if (empty) {
#pragma unroll
    for (float& value : values) value = 0.0f;
    return;
  }
  tcgen05_ld_x16(values, row);
  tcgen05_wait_ld();
  pin(values);
#pragma unroll
  for (float& value : values) value *= factor;
}

// The rounded row to its place in a swizzled tile. All lanes load, as tensor memory wants; those with a row
// store.
template <class Tile, class Accumulator>
__device__ inline void stage_row(Tile tile, Accumulator memory, u32 row, float factor, bool empty,
                                 bool store = true) {
#pragma unroll 1
  for (int column = 0; column < Accumulator::kColumns; column += kRowChunk) {
    float values[kRowChunk];
    load_row(values, memory + column, factor, empty);
    if (!store) continue;
    u32 packed[kRowChunk / 2];
#pragma unroll
    for (int i = 0; i < kRowChunk / 2; ++i) packed[i] = cvt_rn_x2(values[2 * i], values[2 * i + 1]);
    const u32 box = tile.address + column / Tile::kBoxDim * Tile::kBoxBytes;
    const u32 chunk = column % Tile::kBoxDim / 8;
    st_shared_v4(box + swizzled_offset(row, chunk), packed[0], packed[1], packed[2], packed[3]);
    st_shared_v4(box + swizzled_offset(row, chunk + 1), packed[4], packed[5], packed[6], packed[7]);
  }
}

// The row in fp32 to global memory.
template <class Accumulator>
__device__ inline void store_row(float* destination, Accumulator memory, float factor, bool empty,
                                 bool store) {
#pragma unroll 1
  for (int column = 0; column < config::kPaddedDim; column += kRowChunk) {
    float values[kRowChunk];
    load_row(values, memory + column, factor, empty);
    if (store) {
#pragma unroll
      for (int i = 0; i < kRowChunk; i += 4)
        *reinterpret_cast<float4*>(destination + column + i) =
            make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
    }
  }
}

}  // namespace jfa::kernel
