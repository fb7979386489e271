// All gradients in one pass for compute capability 9.0, of a query that the whole batch shares: its tile
// stays, tiles of keys come by once.
//
//   load     one thread loads tiles
//   draw     one thread draws items
//   stats    LSE and delta of the queries
//   store    one thread stores the gradients of keys and values
//   consume  warpgroups, 64 keys each: scores and their gradient, transposed, and the products of their keys.
//            The query's gradient: of a large tile half the rows each, from both warpgroups' keys; of a small
//            one all of them, from its own keys, summed at an item's end
namespace jfa::kernel::broadcast {

static_assert(Config::ConsumeWarps::kCount == kConsumerWarps && kSmallTileRows == kMmaRows);
using ScoreGradTile = Config::RoundedScoreGrads::Stage;

struct Control {
  Pipeline pipeline;
  alignas(16) QueryStats stats[kOutputGradRows];
};

// Which query rows this warpgroup's part of the gradient has, and from which keys.
template <int kRows>
struct Part {
  static constexpr bool kByRows = kRows > kConsumerRows;  // else by keys
  static constexpr int kKeys = kByRows ? kTileRows : kConsumerRows;

  // All warpgroups that a part of the gradient depends on.
  __device__ static inline void sync(int consumer) {
    if constexpr (kByRows) {
      sync_consumers();
    } else {
      bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
    }
  }
  __device__ static inline ScoreGradTile score_grads(ScoreGradTile score_grads, int consumer) {
    constexpr int kBoxesOfRows = kConsumerRows / ScoreGradTile::kBoxDim;
    return kByRows ? score_grads.from_box(consumer * kBoxesOfRows)
                   : score_grads.from_row(consumer * kConsumerRows);
  }
  __device__ static inline PairTile keys(PairTile keys, int consumer) {
    return kByRows ? keys : keys.from_row(consumer * kConsumerRows);
  }
};

// A tile that no query sees.
__device__ inline void stage_zeros(PairTile keys, PairTile values) {
  const float zeros[kGradientRegisters] = {};
  stage_gradient(keys, zeros, 1.0f);
  stage_gradient(values, zeros, 1.0f);
}

// One key tile; `half` is where this warpgroup's rows begin in any of its tiles.
template <int kRows>
__device__ inline void attend(QueriesTile<kRows> query, QueriesTile<kRows> output_grad,
                              ScoreGradTile score_grad, const PairTile (&pair)[2], u32 half,
                              const QueryStats* stats, const Seen& seen, const BroadcastArguments& arguments,
                              int consumer, float (&query_gradient)[kGradientRegisters]) {
  constexpr int kChunks = kRows / kStreamedRows;
  const PairTile own_pair[2] = {pair[0] + half, pair[1] + half};
  const bool masked = __any_sync(0xffffffff, seen.rows[0].lacks_any(0, arguments.query_rows) ||
                                                 seen.rows[1].lacks_any(0, arguments.query_rows));
  u32 probabilities[kRows / kMmaDepth][4];
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int first = chunk * kStreamedRows;
    float scores[kScoreRegisters], gradients[kScoreRegisters];
    u32 chunk_probabilities[kStreamedSteps][4], score_grads[kStreamedSteps][4];
    issue_scores(scores, gradients, own_pair, {query.from_row(first), output_grad.from_row(first)});
    exponentiate(
        scores, [&](int i) { return stats[first + fragment_column(i)].lse_log2; }, masked,
        [&](int i, int column) {
          const int position = (first + 8 * (i >> 2)) % arguments.slot_rows + fragment_column(i & 3, column);
          return seen.rows[fragment_row(i)].contains(position);
        },
        arguments.scale_log2);
    pack_fragment(scores, chunk_probabilities);
    differentiate(scores, gradients, [&](int i) { return stats[first + fragment_column(i)].delta; });
    pack_fragment(gradients, score_grads);
    stage_packed((score_grad + half).from_box(first / ScoreGradTile::kBoxDim), score_grads);
#pragma unroll
    for (int k = 0; k < kStreamedSteps; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) probabilities[kStreamedSteps * chunk + k][i] = chunk_probabilities[k][i];
    }
  }
  fence_proxy_async_shared();
  Part<kRows>::sync(consumer);

  // Of values, then of keys: in the same registers, since a third accumulator would not fit beside them.
  float gradient[kGradientRegisters];
  pin(query_gradient);
  wgmma_fence();
  mma_ab(gradient, probabilities, output_grad, false);
  wgmma_commit_group();
  // As mma_atb, but where the parts begin is computed at every step: there is no register to keep it in.
#pragma unroll
  for (int k = 0; k < Part<kRows>::kKeys / kMmaDepth; ++k) {
    wgmma_ss<true, true>(query_gradient,
                         descriptor_n_major(Part<kRows>::score_grads(score_grad, consumer), k),
                         descriptor_n_major(Part<kRows>::keys(pair[0], consumer), k), true);
  }
  wgmma_commit_group();
  wgmma_wait_group<1>();
  pin(gradient);
  stage_gradient(own_pair[1], gradient, 1.0f);  // only its own scores needed these values
  wgmma_fence();
  mma_ab<kRows>(gradient, score_grad + half, query);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  pin(query_gradient);
  pin(gradient);
  Part<kRows>::sync(consumer);  // nobody reads keys or score gradients any more
  stage_gradient(own_pair[0], gradient, arguments.scale);
}

template <int kRows>
__device__ inline void consume(const Shared<Control>& shared, const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const u32 half = box_bytes(consumer * kConsumerRows);
  Ring<kItemStages> items;
  Ring<1> queries;
  Ring<kOutputGradStages<kRows>> output_grads;
  Ring<kPairStages> pairs;
  float query_gradient[kGradientRegisters];
#pragma unroll
  for (float& value : query_gradient) value = 0.0f;
  for (;;) {
    const Item<KeyRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    if (run.first) queries.wait_full(pipeline.query_full);
    if (has_output_grad(run)) output_grads.wait_full(pipeline.output_grad_full);
    for (int first = 0; first < run.rows; first += kTileRows) {
      const PairTile pair[2] = {shared.pairs[pairs.slot][0], shared.pairs[pairs.slot][1]};
      pairs.wait_full(pipeline.pair_full);
      if (tile_is_seen(run, first, arguments.query_rows)) {
        Seen seen;
        for (int r = 0; r < 2; ++r) {
          const int key = first + consumer * kConsumerRows + fragment_first_row() + 8 * r;
          seen.rows[r] = queries_of_key(run, key, arguments.query_rows);
        }
        attend<kRows>(opaque(shared.template query_tile<kRows>()),
                      shared.template output_grad_tile<kRows>(output_grads.slot),
                      opaque(shared.score_grads[0]), pair, opaque(half),
                      shared.control->stats + output_grads.slot * kRows, seen, arguments, consumer,
                      query_gradient);
      } else {
        stage_zeros(pair[0] + half, pair[1] + half);
      }
      fence_proxy_async_shared();
      __syncwarp();
      release(pipeline.gradients_full, pairs.slot);
      pairs.advance();
    }
    if (has_output_grad(run)) {
      release(pipeline.output_grad_empty, output_grads.slot);
      output_grads.advance();
    }
    if (run.last) {
      release(pipeline.query_empty, queries.slot);
      queries.advance();
      if constexpr (!Part<kRows>::kByRows) {
        constexpr u32 kRegisterBytes = kWarpgroupThreads * sizeof(float);
        static_assert(kGradientRegisters * kRegisterBytes <= ScoreGradTile::kBytes);
        const u32 place = shared.score_grads.address + threadIdx.x % kWarpgroupThreads * sizeof(float);
        add_consumers(query_gradient, consumer, [&](int i) { return place + i * kRegisterBytes; });
      }
      const int first_row = Part<kRows>::kByRows ? consumer * kConsumerRows : 0;
      const i64 head_row =
          (static_cast<i64>(run.part) * arguments.query_heads + item.head * config::kGroups) *
          arguments.slot_rows;
      const float factor[2] = {arguments.scale, arguments.scale};
      if (Part<kRows>::kByRows || consumer == 0) {
        store_fragment(arguments.partial_query_grad + (head_row + first_row) * config::kPaddedDim,
                       query_gradient, factor, config::kGroups * arguments.slot_rows - first_row);
      }
#pragma unroll
      for (float& value : query_gradient) value = 0.0f;
    }
  }
}

// The whole CTA, with a tile of kRows query rows.
template <int kRows>
__device__ inline void run_roles(const Shared<Control>& shared, const TensorMap* query, const TensorMap* key,
                                 const TensorMap* value, const TensorMap* output_grad,
                                 const TensorMap* key_grad, const TensorMap* value_grad,
                                 const BroadcastArguments& arguments) {
  clear_spare_rows<kRows>(shared, arguments.slot_rows);
  __syncthreads();
  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dec<Config::LoadWarps::kRegisters>();
    const int warp = threadIdx.x / 32;
    if (warp == Config::LoadWarps::kFirst) {
      if (elect_sync()) load<kRows>(shared, arguments, query, key, value, output_grad);
    } else if (warp == Config::DrawWarps::kFirst) {
      if (elect_sync()) draw_parts(shared.control->pipeline.queue, arguments);
    } else if (warp == Config::StatsWarps::kFirst) {
      load_stats<kRows>(shared, arguments);
    } else {
      if (elect_sync()) store(shared, key_grad, value_grad);
    }
  } else {
    setmaxnreg_inc<Config::ConsumeWarps::kRegisters>();
    consume<kRows>(shared, arguments);
  }
}

}  // namespace jfa::kernel::broadcast

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Broadcast::kThreads,
                                             jfa::kernel::config::Broadcast::kCtas)
    jfa_backward_broadcast(const __grid_constant__ jfa::kernel::TensorMap query,
                           const __grid_constant__ jfa::kernel::TensorMap key,
                           const __grid_constant__ jfa::kernel::TensorMap value,
                           const __grid_constant__ jfa::kernel::TensorMap output_grad,
                           const __grid_constant__ jfa::kernel::TensorMap key_grad,
                           const __grid_constant__ jfa::kernel::TensorMap value_grad,
                           const __grid_constant__ jfa::kernel::BroadcastArguments arguments) {
  using namespace jfa::kernel;
  using namespace jfa::kernel::broadcast;
  extern __shared__ unsigned char shared_bytes[];
  const Shared<Control> shared = carve<Control>(shared_bytes);
  if (threadIdx.x == 0) {
    broadcast::init_pipeline(shared.control->pipeline, kConsumerWarps, kConsumerWarps, kConsumerWarps);
    fence_mbarrier_init();
  }
  if (config::kGroups * arguments.slot_rows <= kSmallTileRows) {
    run_roles<kSmallTileRows>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad, arguments);
  } else {
    run_roles<kLargeTileRows>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad, arguments);
  }
}
