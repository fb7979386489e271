// What both gradient entries of compute capability 9.0 share: two consumer warpgroups, 64 rows of the
// stationary side each.
namespace jfa::kernel {

constexpr int kConsumerWarps = config::Keys::ConsumeWarps::kCount;
constexpr int kConsumers = 32 * kConsumerWarps / kWarpgroupThreads;
constexpr int kConsumerRows = kTileRows / kConsumers;
static_assert(config::Queries::ConsumeWarps::kCount == kConsumerWarps && kConsumerRows == kMmaRows);
// A streamed tile, a chunk and a box are the same here.
static_assert(kBoxRows == kConsumerRows && kStreamedRows == kBoxRows && kChunkRows == kBoxRows);
using StationaryTile = config::Keys::Stationary::Stage::Tile;
using StreamedTile = config::Keys::Streamed::Stage::Tile;
constexpr int kStreamedSteps = kStreamedRows / kMmaDepth;  // of a product whose K are streamed rows
constexpr int kGradientRegisters = config::kPaddedDim / 2;
constexpr int kScoreRegisters = kStreamedRows / 2;

// Named barriers; 0 is __syncthreads.
constexpr int kStagingBarrier = 1;  // + consumer
constexpr int kBothBarrier = kStagingBarrier + kConsumers;

__device__ inline void sync_consumers() { bar_sync(kBothBarrier, kConsumers * kWarpgroupThreads); }

// What a consumer warpgroup computes of an item: half of the stationary rows with all streamed tiles, or, of
// at most 64 rows, all of them with every other streamed tile. Who takes the even ones depends on the items
// before, but the sum of the two results does not.
struct Share {
  int first_row;
  bool split;  // the streamed tiles

  __device__ inline bool has(int turn, int consumer) const { return !split || turn == consumer; }
};
__device__ inline Share share_of(int rows, int consumer) {
  const bool split = rows <= kConsumerRows;
  return {split ? 0 : consumer * kConsumerRows, split};
}

// Both consumers' gradient becomes consumer 0's. place(i): the shared address for this thread's register i, 4
// bytes, that nobody reads any more once both have come here.
template <class Place>
__device__ inline void add_consumers(float (&gradient)[kGradientRegisters], int consumer, Place place) {
  sync_consumers();
  if (consumer == 1) {
#pragma unroll
    for (int i = 0; i < kGradientRegisters; ++i) st_shared(place(i), gradient[i]);
  }
  sync_consumers();
  if (consumer == 0) {
#pragma unroll
    for (int i = 0; i < kGradientRegisters; ++i) gradient[i] += ld_shared(place(i));
  }
  sync_consumers();
}

// Place for add_consumers() in the rows below those of a split pair of stationary tiles.
struct SpareRows {
  u32 pair;

  __device__ inline u32 operator()(int i) const {
    constexpr u32 kSpareBytes = box_bytes(kTileRows - kConsumerRows);  // of one column block
    constexpr u32 kRegisterBytes = kWarpgroupThreads * sizeof(float);
    static_assert(kSpareBytes % kRegisterBytes == 0);
    static_assert(kGradientRegisters * kRegisterBytes <= 2 * StationaryTile::kBoxes * kSpareBytes);
    const u32 byte = i * kRegisterBytes;
    return pair + byte / kSpareBytes * box_bytes(kTileRows) + box_bytes(kConsumerRows) + byte % kSpareBytes +
           threadIdx.x % kWarpgroupThreads * sizeof(float);
  }
};

// scores = stationary[0] * streamed[0]^T and gradients = stationary[1] * streamed[1]^T of this warpgroup's
// rows and kStreamedRows rows of tiles that may have more: a group each, since scores are needed first.
template <class Tile>
__device__ inline void issue_scores(float (&scores)[kScoreRegisters], float (&gradients)[kScoreRegisters],
                                    const StationaryTile (&stationary)[2], const Tile (&streamed)[2]) {
  wgmma_fence();
  mma_abt(scores, stationary[0], streamed[0]);
  wgmma_commit_group();
  mma_abt(gradients, stationary[1], streamed[1]);
  wgmma_commit_group();
}

// What this thread's two rows see of the streamed tile that starts at `first`.
struct Seen {
  Intervals rows[2];

  __device__ inline Seen from(int first) const { return {{rows[0].from(first), rows[1].from(first)}}; }
  __device__ inline bool all() const {
    return rows[0].contains_all(0, kStreamedRows) && rows[1].contains_all(0, kStreamedRows);
  }
  __device__ inline bool contains(int i, int lane_column) const {  // register i of a fragment
    return rows[fragment_row(i)].contains(fragment_column(i, lane_column));
  }
};

// Sets registers of a fragment to 0 for which contains(register, lane's column) is false; `masked`: there are
// some in this warp.
template <class Contains>
__device__ inline void mask(float (&p)[kScoreRegisters], bool masked, Contains contains) {
  if (!masked) return;
  const int column = opaque(lane_column());  // or all is computed before the branch, and for every tile
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i)
    if (!contains(i, column)) p[i] = 0.0f;
}

// Waits for the first group of issue_scores(), and makes the scores probabilities. lse_log2(i): of register
// i; masked, contains: as in mask().
template <class LseLog2, class Contains>
__device__ inline void exponentiate(float (&scores)[kScoreRegisters], LseLog2 lse_log2, bool masked,
                                    Contains contains, float scale_log2) {
  wgmma_wait_group<1>();
  pin(scores);
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) scores[i] = ex2_approx(fmaf(scores[i], scale_log2, -lse_log2(i)));
  mask(scores, masked, contains);
}

// Waits for the second group, behind which there are kLater, and makes gradients of probabilities gradients
// of scores. delta(i): of register i.
template <int kLater = 0, class Delta>
__device__ inline void differentiate(const float (&probabilities)[kScoreRegisters],
                                     float (&gradients)[kScoreRegisters], Delta delta) {
  wgmma_wait_group<kLater>();
  pin(gradients);
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) gradients[i] = probabilities[i] * (gradients[i] - delta(i));
}

// accumulator += operand * streamed: rows of the streamed tile are K. A group of its own.
__device__ inline void multiply_streamed(float (&accumulator)[kGradientRegisters],
                                         const u32 (&operand)[kStreamedSteps][4], StreamedTile streamed) {
  pin(accumulator);
  wgmma_fence();
  mma_ab(accumulator, operand, streamed, true);
  wgmma_commit_group();
}

// Rows of this warpgroup, times a factor, through its own rows of a stationary tile to global memory. Call
// between begin_store and end_store, by all threads of the warpgroup.
__device__ inline void begin_store(int consumer) {
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);  // all warps are done with the rows
}
__device__ inline void stage_gradient(StationaryTile rows, const float (&gradient)[kGradientRegisters],
                                      float factor) {
  const float factors[2] = {factor, factor};
  stage_fragment(rows, gradient, factors);
}
struct GradientStore {
  const TensorMap* map;
  StationaryTile rows;  // where stage_gradient put them
};
template <int kStores>
__device__ inline void end_store(int consumer, int head, int first_row, int valid_rows,
                                 const GradientStore (&stores)[kStores]) {
  fence_proxy_async_shared();
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
  if (threadIdx.x % kWarpgroupThreads == 0) {
    for (const GradientStore& store : stores) store_tile(store.map, head, first_row, valid_rows, store.rows);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read();
  }
  __syncwarp();
}

}  // namespace jfa::kernel
