// The prepare entry of a backward whose shared query fits one tile: one CTA lists the sequences that have
// keys in the batch's order, so that any part of the list of all key tiles is the same in every run. Keys
// that no sequence owns, before the first one and behind the last, come last and are seen by no query.
namespace jfa::kernel {

constexpr i32 kPrepareWarps = config::PrepareBroadcast::AllWarps::kCount;

// Sequences in the upper half, their key tiles of `tile_rows` in the lower one: one scan places both.
__device__ inline u64 places_taken(i32 key_rows, i32 tile_rows) {
  return key_rows == 0 ? 0 : u64{1} << 32 | static_cast<u32>((key_rows + tile_rows - 1) / tile_rows);
}

// Sum of `value` over the threads before this one; over all of them in the last thread's `total`. By the
// whole CTA; warp_sums: shared memory.
__device__ inline u64 exclusive_scan(u64 value, u64 (&warp_sums)[kPrepareWarps]) {
  const i32 lane = threadIdx.x % 32;
  const i32 warp = threadIdx.x / 32;
  u64 sum = value;
#pragma unroll
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const u64 before = __shfl_up_sync(0xffffffff, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  for (i32 i = 0; i < warp; ++i) sum += warp_sums[i];
  return sum - value;
}

__device__ inline Sequence key_sequence(const PrepareArguments& a, i32 b) {
  if (b < a.batch) return load_sequence(a, b);
  const OwnedRows keys = owned_rows(a.key_offset, a.key_offset_is_64, a.batch);
  if (b == a.batch) return {0, 0, 0, keys.begin, -1};
  return {0, 0, keys.end, a.key_rows - keys.end, -1};
}

}  // namespace jfa::kernel

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::PrepareBroadcast::kThreads,
                                             jfa::kernel::config::PrepareBroadcast::kCtas)
    jfa_prepare_broadcast(const __grid_constant__ jfa::kernel::BroadcastPrepareArguments arguments) {
  using namespace jfa::kernel;
  const PrepareArguments& a = arguments.common;
  __shared__ u64 first_bad;
  __shared__ u64 warp_sums[kPrepareWarps];
  __shared__ i32 longest_key_rows;
  if (threadIdx.x == 0) longest_key_rows = 0;
  if (!offsets_are_good(a, &first_bad)) return;

  const i32 sequences = a.batch + 2;
  const i32 threads = static_cast<i32>(blockDim.x);
  const i32 each = (sequences + threads - 1) / threads;
  const i32 begin = min(static_cast<i32>(threadIdx.x) * each, sequences);
  const i32 end = min(begin + each, sequences);
  u64 taken = 0;
  i32 longest = 0;
  for (i32 b = begin; b < end; ++b) {
    const Sequence s = key_sequence(a, b);
    taken += places_taken(s.key_rows, arguments.tile_rows);
    if (b < a.batch) longest = max(longest, s.key_rows);
  }
  if (longest > 0) atomicMax(&longest_key_rows, longest);
  u64 place = exclusive_scan(taken, warp_sums);
  for (i32 b = begin; b < end; ++b) {
    const Sequence s = key_sequence(a, b);
    if (s.key_rows == 0) continue;
    arguments.key_sequences[place >> 32] = {s.key_row, s.key_rows, s.output_row, static_cast<i32>(place)};
    place += places_taken(s.key_rows, arguments.tile_rows);
  }
  if (threadIdx.x == threads - 1) {
    a.header->key_sequence_count = static_cast<i32>(place >> 32);
    a.header->key_tile_count = static_cast<i32>(place);
    a.header->longest_key_rows = longest_key_rows;
  }
}
