// The sum entry: the shared query's gradient is the sum of its parts, in their order, rounded once.
extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Sum::kThreads,
                                             jfa::kernel::config::Sum::kCtas)
    jfa_sum_query_grad(const __grid_constant__ jfa::kernel::SumArguments a) {
  using namespace jfa::kernel;
  if (a.header->bad_offset_name != kNoOffset) return;  // there are no parts
  constexpr i32 kColumns = 2;
  const i32 pairs = a.head_dim / kColumns;
  const i64 total = static_cast<i64>(a.query_rows) * a.query_heads * pairs;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i32 column = static_cast<i32>(i % pairs) * kColumns;
    const i64 head = i / pairs % a.query_heads;
    const i64 row = i / pairs / a.query_heads;
    const float* part = a.partial_query_grad + (head * a.partial_rows + row) * config::kPaddedDim + column;
    const i64 part_step = static_cast<i64>(a.query_heads) * a.partial_rows * config::kPaddedDim;
    float low = 0.0f, high = 0.0f;
    for (i32 p = 0; p < a.parts; ++p) {
      const float2 values = *reinterpret_cast<const float2*>(part + p * part_step);
      low += values.x;
      high += values.y;
    }
    *reinterpret_cast<u32*>(static_cast<char*>(a.query_grad) +
                            kElementBytes * (row * a.row_stride + head * a.head_stride + column)) =
        cvt_rn_x2(low, high);
  }
}
