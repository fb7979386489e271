// What threads of clusters of two CTAs do with tensor memory: operands from scores, one thread a key, and
// gradients out of it, one thread a row.
namespace jfa::kernel::two_cta {

// Where they go: those in tensor memory over score gradients that have been read, two of whose columns make
// one; those of the query's gradient to the CTA that has it. free() returns once nobody reads what lies
// there.
template <class Free, class Pipeline>
struct PairOperands {
  Pipeline& pipeline;
  TensorMemory lane_memory;
  Config::RoundedScoreGrads::Stage score_grads;  // of the chunk, in this CTA
  u32 key;                                       // in the pair
  u32 owner;                                     // rank of the CTA that has the chunk's gradient
  Free free;

  __device__ inline void scores_read() {
    tcgen05_fence_before_thread_sync();
    arrive_at_leader(&pipeline.scores_read);
  }
  __device__ inline void put(int piece, const RoundedPiece& probabilities, const RoundedPiece& rounded) {
    tcgen05_st_x16(Config::Operands::in(lane_memory, 2 * piece).address, probabilities);
    tcgen05_st_x16(Config::Operands::in(lane_memory, 2 * piece + 1).address, rounded);
    if (piece == 0) free();
    const int column = piece * kPieceColumns;
    if (owner == cluster_ctarank()) {
      fused::stage_score_grads(
          score_grads, key, column, rounded,
          [](u32 address, u32 a, u32 b, u32 c, u32 d) { st_shared_v4(address, a, b, c, d); });
    } else {
      const Config::RoundedScoreGrads::Stage in_owner{mapa(score_grads.address, owner)};
      fused::stage_score_grads(in_owner, key, column, rounded, [](u32 address, u32 a, u32 b, u32 c, u32 d) {
        st_cluster_v4(address, a, b, c, d);
      });
    }
  }
  __device__ inline void done() {
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    fence_proxy_async_cluster();
    arrive_at_leader(&pipeline.operands_full);
  }
};

template <class Work>
__device__ inline void attend(const Shared<typename Work::Tile>& shared, TensorMemory memory,
                              const TwoCtaArguments& arguments) {
  auto& pipeline = shared.control->pipeline;
  const int row = threadIdx.x % kAttendThreads;
  const i32 key = static_cast<i32>(cluster_ctarank()) * kTileRows + row;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kStages> ring;
  fused::Waits scores_full{&pipeline.scores_full};
  fused::Waits products_done{&pipeline.products_done};
  for_each_step<Work>(
      pipeline.queue, arguments, take_item_by_warp<typename Work::Tile>, [&](const Step& step) {
        const Intervals seen = key < step.key_rows ? queries_of_key(step.key_offset + key,
                                                                    Work::sequence_queries(step, arguments))
                                                   : Intervals::none();
        for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
          const bool masked = __any_sync(0xffffffff, Work::is_masked(seen, step, chunk, arguments));
          ring.wait_full(pipeline.stats.full);
          const auto free = [&] {
            if (chunk == 0) products_done.wait_outstanding();
          };
          using Place = PairOperands<decltype(free), Pipeline<typename Work::Tile>>;
          constexpr int kChunkBoxes = kChunkRows / Config::RoundedScoreGrads::Stage::kBoxDim;
          fused::score_operands<Config>(
              scores_full, lane_memory, arguments.scale_log2,
              StatsOfColumns(shared.control->stats[ring.slot]), masked,
              [&](int piece) {
                return Work::seen_bits(seen, step, chunk * kChunkRows + piece * kPieceColumns, arguments);
              },
              Place{pipeline, lane_memory, shared.score_grads[0].from_box(chunk % kOwnedChunks * kChunkBoxes),
                    static_cast<u32>(key), static_cast<u32>(chunk / kOwnedChunks), free});
          __syncwarp();  // all lanes are done with the statistics
          release(pipeline.stats.empty, ring.slot);
          ring.advance();
        }
        if (step.seen) products_done.begin();
      });
}

// ---- Gradients leave tensor memory, one thread a row.

__device__ inline u16* row_of(void* tensor, i64 row, i64 row_stride, i64 head, i64 head_stride) {
  return static_cast<u16*>(tensor) + row * row_stride + head * head_stride;
}

// The rounded row to global memory, as many columns as the tensor has: a multiple of 8. A row that sees
// nothing is not `live` and gets zeros: masked products leave 0 * NaN there if some row of the step holds
// NaN, and a pair's steps go farther than a tile, behind the last row that sees anything.
template <class Accumulator>
__device__ inline void store_rounded_row(u16* destination, Accumulator memory, float factor, bool empty,
                                         bool live, bool store, int head_dim) {
  using Piece = RowPiece<config::kPaddedDim, true>;
  for_each_piece<Piece>(memory, factor, empty, [&](int first, Piece& piece) {
#pragma unroll
    for (int i = 0; i < Piece::kColumns; i += 8) {
      if (!store || first + i >= head_dim) continue;
      const uint4 rounded =
          make_uint4(cvt_rn_x2(piece[i], piece[i + 1]), cvt_rn_x2(piece[i + 2], piece[i + 3]),
                     cvt_rn_x2(piece[i + 4], piece[i + 5]), cvt_rn_x2(piece[i + 6], piece[i + 7]));
      *reinterpret_cast<uint4*>(destination + first + i) = live ? rounded : make_uint4(0, 0, 0, 0);
    }
  });
}

template <class Work>
__device__ inline void unload(const Shared<typename Work::Tile>& shared, TensorMemory memory,
                              const TwoCtaArguments& arguments) {
  auto& pipeline = shared.control->pipeline;
  const int row = threadIdx.x % kAttendThreads;
  const i32 in_pair = static_cast<i32>(cluster_ctarank()) * kTileRows + row;
  const TensorMemory lane_memory = lanes_of(memory, row);
  fused::Waits products_done{&pipeline.products_done};
  bool keys_empty = true, queries_empty = true;  // nothing has been accumulated
  for_each_step<Work>(
      pipeline.queue, arguments, take_item_by_warp<typename Work::Tile>, [&](const Step& step) {
        if (step.seen) {
          products_done.wait();
          tcgen05_fence_after_thread_sync();
          keys_empty = queries_empty = false;
        }
        if (step.ends_queries) {
          Work::store_query_grad(step, in_pair, lane_memory, queries_empty, arguments);
          if (!queries_empty) {
            tcgen05_fence_before_thread_sync();
            arrive_at_leader(&pipeline.query_grad_read);
          }
          queries_empty = true;
        }
        if (step.ends_keys) {
          const i32 head = step.head / config::kGroups;
          const i64 key_row = step.key_row + in_pair;
          const bool live = in_pair < step.live_keys;
          const bool store = in_pair < step.key_rows;
          store_rounded_row(row_of(arguments.value_grad, key_row, arguments.value_grad_row_stride, head,
                                   arguments.value_grad_head_stride),
                            Config::ValueGrad::in(lane_memory), 1.0f, keys_empty, live, store,
                            arguments.head_dim);
          store_rounded_row(row_of(arguments.key_grad, key_row, arguments.key_grad_row_stride, head,
                                   arguments.key_grad_head_stride),
                            Config::KeyGrad::in(lane_memory), arguments.scale, keys_empty, live, store,
                            arguments.head_dim);
          if (!keys_empty) {
            tcgen05_fence_before_thread_sync();
            arrive_at_leader(&pipeline.tile_read);
          }
          keys_empty = true;
        }
      });
}

}  // namespace jfa::kernel::two_cta
