// What both gradient entries of compute capability 9.0 share: two consumer warpgroups, 64 rows of the
// stationary side each.
namespace jfa::kernel {

constexpr int kConsumers = 2;
constexpr int kConsumerRows = 64;
constexpr int kConsumerWarps = 4 * kConsumers;
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
    static_assert(kGradientRegisters * kRegisterBytes <= 2 * config::kBoxes * kSpareBytes);
    const u32 byte = i * kRegisterBytes;
    return pair + byte / kSpareBytes * box_bytes(kTileRows) + box_bytes(kConsumerRows) + byte % kSpareBytes +
           threadIdx.x % kWarpgroupThreads * sizeof(float);
  }
};

// scores = stationary[0] * streamed[0]^T and gradients = stationary[1] * streamed[1]^T of this warpgroup's
// rows and 64 rows of streamed tiles of kRows rows. Both are there after wait_scores().
template <int kRows = kStreamedRows>
__device__ inline void issue_scores(float (&scores)[kScoreRegisters], float (&gradients)[kScoreRegisters],
                                    const u32 (&stationary)[2], const u32 (&streamed)[2]) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < config::kPaddedDim / 16; ++k)
    wgmma_ss(scores, descriptor_k_major<kTileRows>(stationary[0], k),
             descriptor_k_major<kRows>(streamed[0], k), k > 0);
#pragma unroll
  for (int k = 0; k < config::kPaddedDim / 16; ++k)
    wgmma_ss(gradients, descriptor_k_major<kTileRows>(stationary[1], k),
             descriptor_k_major<kRows>(streamed[1], k), k > 0);
  wgmma_commit_group();
}
__device__ inline void wait_scores(float (&scores)[kScoreRegisters], float (&gradients)[kScoreRegisters]) {
  wgmma_wait_group<0>();
  pin(scores);
  pin(gradients);
}
template <int kRows = kStreamedRows>
__device__ inline void multiply_scores(float (&scores)[kScoreRegisters], float (&gradients)[kScoreRegisters],
                                       const u32 (&stationary)[2], const u32 (&streamed)[2]) {
  issue_scores<kRows>(scores, gradients, stationary, streamed);
  wait_scores(scores, gradients);
}

// accumulator += operand * streamed: rows of the streamed tile are K.
__device__ inline void multiply_streamed(float (&accumulator)[kGradientRegisters], const u32 (&operand)[4][4],
                                         u32 streamed) {
#pragma unroll
  for (int k = 0; k < kStreamedRows / 16; ++k)
    wgmma_rs(accumulator, operand[k], descriptor_n_major<kStreamedRows>(streamed, k), true);
}

// Scores of keys become probabilities, their gradients what the key gradient is made of; both are rounded for
// the products. `masked`: for some register of the warp, contains(register) is false.
template <class Contains>
__device__ inline void score_operands(const float (&scores)[kScoreRegisters],
                                      float (&gradients)[kScoreRegisters], const QueryStats* stats,
                                      bool masked, Contains contains, float scale_log2,
                                      u32 (&probabilities)[4][4], u32 (&score_grads)[4][4]) {
  float p[kScoreRegisters];
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i)
    p[i] = ex2_approx(fmaf(scores[i], scale_log2, -stats[fragment_column(i)].lse_log2));
  if (masked) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i)
      if (!contains(i)) p[i] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i)
    gradients[i] = p[i] * (gradients[i] - stats[fragment_column(i)].delta);
  pack_fragment(p, probabilities);
  pack_fragment(gradients, score_grads);
}

// What this thread's two rows see of the streamed tile that starts at `first`.
struct Seen {
  Interval rows[2];

  __device__ inline Seen from(int first) const {
    return {{{rows[0].begin - first, rows[0].end - first}, {rows[1].begin - first, rows[1].end - first}}};
  }
  __device__ inline bool all() const {
    return rows[0].begin <= 0 && rows[0].end >= kStreamedRows && rows[1].begin <= 0 &&
           rows[1].end >= kStreamedRows;
  }
  __device__ inline bool contains(int i) const {  // register i of a fragment
    const Interval& row = rows[fragment_row(i)];
    return fragment_column(i) >= row.begin && fragment_column(i) < row.end;
  }
};

// Rows of this warpgroup, times a factor, through its own rows of a stationary tile to global memory. Call
// between begin_store and end_store, by all threads of the warpgroup.
__device__ inline void begin_store(int consumer) {
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);  // all warps are done with the rows
}
__device__ inline void stage_gradient(u32 rows, const float (&gradient)[kGradientRegisters], float factor) {
  const float factors[2] = {factor, factor};
  stage_fragment<kTileRows>(rows, gradient, factors);
}
struct GradientStore {
  const TensorMap* map;
  u32 rows;  // where stage_gradient put them
};
template <int kStores>
__device__ inline void end_store(int consumer, int head, int first_row, int valid_rows,
                                 const GradientStore (&stores)[kStores]) {
  fence_proxy_async_shared();
  bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
  if (threadIdx.x % kWarpgroupThreads == 0) {
    for (const GradientStore& store : stores)
      store_tile<kTileRows, kConsumerRows>(store.map, head, first_row, valid_rows, store.rows);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read();
  }
  __syncwarp();
}

}  // namespace jfa::kernel
