// The merge entry: rows whose keys were cut into parts are the average of the parts' rows, weighted by
// their sums of exp(score). Parts are summed in their order, so the result does not depend on who finished
// first.
extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Merge::kThreads,
                                             jfa::kernel::config::Merge::kCtas)
    jfa_merge(const __grid_constant__ jfa::kernel::MergeArguments a) {
  using namespace jfa::kernel;
  griddepcontrol_wait();
  constexpr i32 kColumns = 4;  // of one lane: 16 bytes of a part
  const i32 lane = threadIdx.x % 32;
  const i32 warps = gridDim.x * (blockDim.x / 32);
  const i32 rows = a.header->split_count * a.query_heads * kTileRows;
  for (i32 index = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; index < rows; index += warps) {
    const i32 row = index % kTileRows;
    const i32 head = index / kTileRows % a.query_heads;
    const SplitTile tile = a.split_tiles[index / kTileRows / a.query_heads];
    if (row >= tile.rows) continue;
    const i64 first = partial_row(tile.first_part, a.query_heads, head, row);
    const i64 part_rows = static_cast<i64>(a.query_heads) * kTileRows;
    // A lane for every part, 32 at a time.
    float maximum = kMinusInfinity;
    for (i32 p = lane; p < tile.parts; p += 32)
      maximum = fmaxf(maximum, a.partial_states[first + p * part_rows].reference);
    for (i32 distance = 16; distance > 0; distance /= 2)
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffff, maximum, distance));
    const float reference = maximum == kMinusInfinity ? 0.0f : maximum;
    float sum = 0.0f;
    float values[kColumns] = {};
    const bool active = lane * kColumns < a.head_dim;
    for (i32 begin = 0; begin < tile.parts; begin += 32) {
      const i32 count = min(32, tile.parts - begin);
      float weight = 0.0f;
      if (lane < count) {
        const PartialState state = a.partial_states[first + (begin + lane) * part_rows];
        weight = state.sum * ex2_approx(state.reference - reference);
      }
      sum += weight;
#pragma unroll 4
      for (i32 p = 0; p < count; ++p) {
        const float part_weight = __shfl_sync(0xffffffff, weight, p);
        if (active) {
          const float4 part = *reinterpret_cast<const float4*>(
              a.partial_output + (first + (begin + p) * part_rows) * config::kPaddedDim + lane * kColumns);
          values[0] += part_weight * part.x;
          values[1] += part_weight * part.y;
          values[2] += part_weight * part.z;
          values[3] += part_weight * part.w;
        }
      }
    }
    for (i32 distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
    const float inverse_sum = sum == 0.0f ? 0.0f : 1.0f / sum;
    if (active) {
      u32* output = reinterpret_cast<u32*>(static_cast<char*>(a.output) +
                                           kElementBytes * ((tile.output_row + row) * a.output_row_stride +
                                                            head * a.output_head_stride + lane * kColumns));
      output[0] = cvt_rn_x2(values[0] * inverse_sum, values[1] * inverse_sum);
      output[1] = cvt_rn_x2(values[2] * inverse_sum, values[3] * inverse_sum);
    }
    if (a.lse != nullptr && lane == 0) {
      a.lse[static_cast<i64>(head) * a.output_rows + tile.output_row + row] = log_sum_exp({maximum, sum});
    }
  }
}
