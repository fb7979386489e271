// The consumers of the forward entry for compute capability 9.0: who has which rows and keys of an item, and
// what they do with a result.
namespace jfa::kernel {

using Config = config::Forward;
constexpr int kConsumerWarps = Config::ConsumeWarps::kCount;
constexpr int kConsumers = 32 * kConsumerWarps / kWarpgroupThreads;
constexpr int kConsumerRows = kTileRows / kConsumers;
static_assert(kConsumerRows == kMmaRows);
constexpr int kOutputRegisters = config::kPaddedDim / 2;

// Named barriers; 0 is __syncthreads.
constexpr int kStagingBarrier = 1;  // + consumer
constexpr int kMergeBarrier = kStagingBarrier + kConsumers;
constexpr int kTurnBarrier = kMergeBarrier + 1;  // + consumer

struct Control {
  Pipeline pipeline;
  RowState merged[kConsumerRows];  // of the second consumer's rows
};

// One consumer warpgroup's part of an item. A tile of at most kConsumerRows rows is both consumers': each
// takes every other key tile, and the first merges the two results.
struct Share {
  int first_row;   // of the query tile
  int first_tile;  // of the key tiles, and then every `step`-th
  int step;
  int count;  // key tiles of the item

  __device__ inline bool live() const { return first_tile < count; }
  __device__ inline bool keys_are_split() const { return step > 1 && count > 1; }
};

__device__ inline Share share_of(const QueryTile& tile, int consumer) {
  const int count = key_tiles(tile);
  if (tile.rows > kConsumerRows) return {consumer * kConsumerRows, 0, 1, count};
  return {0, consumer, kConsumers, count};
}

// The key tiles that every row of a share sees whole; none if the scale asks for the general way anyhow.
__device__ inline Interval whole_tiles(const QueryTile& tile, const Share& share, float scale_log2) {
  if (!(scale_log2 > 0.0f)) return {0, 0};
  const int offset = tile.query_position + share.first_row - tile.key_position;
  const int last_row = min(kConsumerRows, tile.rows - share.first_row) - 1;
  const Interval first = keys_of_query(offset, tile.key_count).longest();
  const Interval last = keys_of_query(offset + last_row, tile.key_count).longest();
  return {(max(first.begin, last.begin) + kTileRows - 1) / kTileRows, min(first.end, last.end) / kTileRows};
}

// The consumers take turns at issuing products, so that what one issues runs while the other computes
// exponentials. Both take as many.
__device__ inline void wait_for_turn(int consumer) {
  bar_sync(kTurnBarrier + consumer, kConsumers * kWarpgroupThreads);
}
__device__ inline void pass_turn(int consumer) {
  bar_arrive(kTurnBarrier + (consumer + 1) % kConsumers, kConsumers * kWarpgroupThreads);
}

// Adds the second consumer's result to the first's. Both call it; the staging tile carries the accumulator.
__device__ inline void merge(const Shared<Control>& shared, int consumer, float (&output)[kOutputRegisters],
                             RowState (&rows)[2]) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int row = fragment_first_row();
  RowState* states = shared.control->merged;
  const u32 staging = shared.output.address + thread * 4;
  bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);  // the staging tile is free
  if (consumer == 1) {
#pragma unroll
    for (int i = 0; i < kOutputRegisters; ++i) st_shared(staging + i * kWarpgroupThreads * 4, output[i]);
    if (thread % 4 == 0) {
      states[row] = rows[0];
      states[row + 8] = rows[1];
    }
  }
  bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);
  if (consumer == 1) {
    // Its half of the staging tile is its own again once the first consumer has read it.
    bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);
    return;
  }
  float mine[2], theirs[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const RowState other = states[row + 8 * r];
    const float reference = fmaxf(rows[r].reference, other.reference);
    const float finite = reference == kMinusInfinity ? 0.0f : reference;
    mine[r] = ex2_approx(rows[r].reference - finite);
    theirs[r] = ex2_approx(other.reference - finite);
    rows[r] = {reference, rows[r].sum * mine[r] + other.sum * theirs[r]};
  }
#pragma unroll
  for (int i = 0; i < kOutputRegisters; ++i) {
    const float other = ld_shared(staging + i * kWarpgroupThreads * 4);
    output[i] = output[i] * mine[fragment_row(i)] + other * theirs[fragment_row(i)];
  }
  bar_arrive(kMergeBarrier, kConsumers * kWarpgroupThreads);
}

// Stores a consumer's rows of an item.
__device__ inline void store(const Shared<Control>& shared, const TensorMap* output_map,
                             const ForwardArguments& arguments, int consumer, const Item<QueryTile>& item,
                             const Share& share, float (&output)[kOutputRegisters], RowState (&rows)[2]) {
  // Each consumer has a tile of its own rows.
  using StagingTile = Config::Output::Stage::WithRows<kConsumerRows>;
  const StagingTile staging = {shared.output.address + consumer * StagingTile::kBytes};
  const QueryTile& tile = item.tile;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const bool leader = thread == 0;
  if (leader) cp_async_bulk_wait_group_read();
  if (share.keys_are_split()) merge(shared, consumer, output, rows);
  const int first_row = consumer * kConsumerRows;
  const int valid_rows = tile.rows - first_row;
  if (valid_rows <= 0) return;
  float inverse_sum[2];
  for (int r = 0; r < 2; ++r) inverse_sum[r] = rows[r].sum == 0.0f ? 0.0f : 1.0f / rows[r].sum;
  const int row = fragment_first_row();
  if (tile.part >= 0) {
    const i64 partial = partial_row(tile.part, arguments.query_heads, item.head, first_row);
    store_fragment(arguments.partial_output + partial * config::kPaddedDim, output, inverse_sum, valid_rows);
    if (thread % 4 == 0) {
      for (int r = 0; r < 2; ++r)
        if (row + 8 * r < valid_rows)
          arguments.partial_states[partial + row + 8 * r] = partial_state(rows[r]);
    }
    return;
  }
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
  stage_fragment(staging, output, inverse_sum);
  fence_proxy_async_shared();
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
  if (leader) {
    store_tile(output_map, item.head, tile.output_row + first_row, valid_rows, staging);
    cp_async_bulk_commit_group();
  }
  if (arguments.lse != nullptr && thread % 4 == 0) {
    float* lse =
        arguments.lse + static_cast<i64>(item.head) * arguments.output_rows + tile.output_row + first_row;
    for (int r = 0; r < 2; ++r)
      if (row + 8 * r < valid_rows) lse[row + 8 * r] = log_sum_exp(rows[r]);
  }
}

}  // namespace jfa::kernel
