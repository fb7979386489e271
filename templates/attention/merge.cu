// The merge entry: rows whose keys were cut into parts are the average of the parts' rows, weighted by
// exp(LSE). Parts are summed in their order, so the result does not depend on who finished first.
extern "C" __global__ void __launch_bounds__(256)
    jfa_merge(const __grid_constant__ jfa::kernel::MergeArguments a) {
  using namespace jfa::kernel;
  constexpr i32 kColumns = 4;  // of one lane: 16 bytes of a part
  const i32 lane = threadIdx.x % 32;
  const i32 warps = gridDim.x * (blockDim.x / 32);
  const i32 rows = a.header->split_count * a.query_heads * kTileRows;
  for (i32 index = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; index < rows; index += warps) {
    const i32 row = index % kTileRows;
    const i32 head = index / kTileRows % a.query_heads;
    const SplitTile tile = a.split_tiles[index / kTileRows / a.query_heads];
    if (row >= tile.rows) continue;
    float maximum = kMinusInfinity;
    for (i32 p = 0; p < tile.parts; ++p)
      maximum = fmaxf(maximum, a.partial_lse[partial_row(tile.first_part + p, a.query_heads, head, row)]);
    const float reference = maximum == kMinusInfinity ? 0.0f : maximum;
    float sum = 0.0f;
    float values[kColumns] = {};
    const bool active = lane * kColumns < a.head_dim;
    for (i32 p = 0; p < tile.parts; ++p) {
      const i64 source = partial_row(tile.first_part + p, a.query_heads, head, row);
      const float weight = ex2_approx((a.partial_lse[source] - reference) * kLog2E);
      sum += weight;
      if (active) {
        const float4 part = *reinterpret_cast<const float4*>(a.partial_output + source * config::kPaddedDim +
                                                             lane * kColumns);
        values[0] += weight * part.x;
        values[1] += weight * part.y;
        values[2] += weight * part.z;
        values[3] += weight * part.w;
      }
    }
    const float inverse_sum = sum == 0.0f ? 0.0f : 1.0f / sum;
    if (active) {
      u32* output = reinterpret_cast<u32*>(static_cast<char*>(a.output) +
                                           kElementBytes * ((tile.output_row + row) * a.output_row_stride +
                                                            head * a.output_head_stride + lane * kColumns));
      output[0] = cvt_rn_x2(values[0] * inverse_sum, values[1] * inverse_sum);
      output[1] = cvt_rn_x2(values[2] * inverse_sum, values[3] * inverse_sum);
    }
    if (a.lse != nullptr && lane == 0) {
      a.lse[static_cast<i64>(head) * a.output_rows + tile.output_row + row] =
          sum == 0.0f ? kMinusInfinity : maximum + lg2_approx(sum) * kLn2;
    }
  }
}
