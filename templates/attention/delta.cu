// The delta entry: the part of the score gradient that a whole query row shares, sum(output * output_grad) -
// lse_grad. On the way it packs an output gradient whose strides the tensor memory accelerator does not take.
namespace jfa::kernel {

// One row of one head; row negative: none.
struct DeltaRow {
  i64 row, head;
};

// The index-th row that is wanted. Tiles count as whole ones.
__device__ inline DeltaRow delta_row(const DeltaArguments& a, i64 index) {
  const i64 head = index % a.query_heads;
  const i64 row = index / a.query_heads;
  if (a.query_tiles == nullptr) return {row < a.output_rows ? row : -1, head};
  if (row >= static_cast<i64>(a.header->delta_tile_count) * kTileRows) return {-1, head};
  const QueryTile& tile = a.query_tiles[row / kTileRows];
  const i32 within = static_cast<i32>(row % kTileRows);
  return {within < tile.rows ? tile.output_row + within : -1, head};
}

}  // namespace jfa::kernel

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Delta::kThreads,
                                             jfa::kernel::config::Delta::kCtas)
    jfa_delta(const __grid_constant__ jfa::kernel::DeltaArguments a) {
  using namespace jfa::kernel;
  constexpr i32 kColumns = 8;  // of one lane: 16 bytes
  constexpr i32 kLanes = 16;   // a row; a warp has two
  const i32 lane = threadIdx.x % kLanes;
  const i64 rows =
      a.query_heads * (a.query_tiles == nullptr ? static_cast<i64>(a.output_rows)
                                                : static_cast<i64>(a.header->delta_tile_count) * kTileRows);
  const i64 step = static_cast<i64>(gridDim.x) * (blockDim.x / kLanes);
  const i64 first = static_cast<i64>(blockIdx.x) * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  const i64 rounds = (rows + step - 1) / step;
  for (i64 round = 0; round < rounds; ++round) {
    const auto [row, head] = delta_row(a, first + round * step);
    const i32 column = lane * kColumns;
    float sum = 0.0f;
    if (row >= 0 && column < a.head_dim) {
      alignas(16) u16 output[kColumns];
      alignas(16) u16 output_grad[kColumns];
      *reinterpret_cast<uint4*>(output) =
          *reinterpret_cast<const uint4*>(static_cast<const u16*>(a.output) + row * a.output_row_stride +
                                          head * a.output_head_stride + column);
      const u16* source = static_cast<const u16*>(a.output_grad) + row * a.output_grad_row_stride +
                          head * a.output_grad_head_stride + column * a.output_grad_dim_stride;
      if (a.packed_output_grad == nullptr) {
        *reinterpret_cast<uint4*>(output_grad) = *reinterpret_cast<const uint4*>(source);
      } else {
#pragma unroll
        for (i32 i = 0; i < kColumns; ++i) output_grad[i] = source[i * a.output_grad_dim_stride];
        *reinterpret_cast<uint4*>(static_cast<u16*>(a.packed_output_grad) +
                                  (row * a.query_heads + head) * a.head_dim + column) =
            *reinterpret_cast<const uint4*>(output_grad);
      }
#pragma unroll
      for (i32 i = 0; i < kColumns; ++i) sum += to_float(output[i]) * to_float(output_grad[i]);
    }
#pragma unroll
    for (i32 distance = kLanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, distance);
    if (row >= 0 && lane == 0) {
      const i64 place = head * a.output_rows + row;
      a.delta[place] = a.lse_grad == nullptr ? sum : sum - a.lse_grad[place];
    }
  }
}
