// A backward in one pass by clusters of two CTAs of compute capability 10.x. The CTAs of a pair have a tile
// of keys each, and half of the rows of a tile of queries: their gradient. A step is a pair of key tiles and
// a tile of up to 2 * kOwnedRows queries, a chunk of kChunkRows at a time:
//
//   scores = keys * queries^T                    score gradients = values * output gradients^T
//   value gradient += probabilities * output gradients        both operands take the score gradients' columns
//   key gradient   += score gradients * queries
//   query gradient += score gradients^T * keys                once a step, over the keys of both CTAs
//
// The even CTA issues the products of both. Each CTA has half of what makes a product's columns: of queries
// and output gradients half the rows of a chunk (the columns of scores), and half the columns of all its rows
// (of gradients); of the keys of both CTAs half the columns. Rounded score gradients go to the CTA that has
// the queries' gradient, through the cluster's shared memory if it is the other one.
//
//   load   one thread loads tiles         attend   one thread a key: operands from scores
//   draw   one thread draws items         unload   one thread a row: gradients out of tensor memory
//   stats  LSE and delta of the queries   multiply one thread issues the products
//
// `Work` says what items are and what steps they consist of.
namespace jfa::kernel::two_cta {

using Config = config::TwoCta;
constexpr int kCtas = 2;
constexpr int kKeyStages = Config::Keys::kStages;
constexpr int kStages = Config::QueryRows::kStages;                     // chunks of queries in flight
constexpr int kOwnedRows = Config::RoundedScoreGrads::Stage::kColumns;  // queries whose gradient a CTA has
constexpr int kOwnedChunks = kOwnedRows / kChunkRows;
constexpr int kAttendThreads = Config::AttendWarps::kThreads;
constexpr u32 kPairWarps = kCtas * Config::AttendWarps::kCount;
static_assert(kAttendThreads == kTileRows && Config::UnloadWarps::kThreads == kTileRows);
static_assert(Config::AttendWarps::kFirst % 4 == 0 && Config::UnloadWarps::kFirst % 4 == 0);
static_assert(Config::QueryRows::Stage::Tile::kRows * kCtas == kChunkRows);

// What is to be known of a step.
struct Step {
  i32 key_row, key_rows;      // of the pair of key tiles: first row in the tensor, 0 … kKeyRows
  i32 key_position;           // of the first one in its sequence
  i32 live_keys;              // rows from the first on that are loaded
  i32 head;                   // of the query, of the tile's first row
  i32 query_rows;             // of the tile
  i32 query_position;         // of the tile's first row in its sequence
  i32 query_row, output_row;  // of the sequence's first query in the query's and the output's tensors
  i32 live_queries;           // queries of the sequence that are loaded, from its first on
  i32 part;                   // of the query gradient, if it is a sum of parts
  bool seen;                  // some query of the tile sees a key; else there is no product
  bool ends_keys;             // the last step of this pair of key tiles
  bool ends_queries;          // the last step of this tile of queries

  __device__ inline i32 chunks() const { return seen ? (query_rows + kChunkRows - 1) / kChunkRows : 0; }
};

template <int kStages_>
struct Slots {
  u64 full[kStages_], empty[kStages_];
};

template <class Tile>
struct Pipeline {
  ItemQueue<Tile> queue;
  // Of tiles: `full` counts in the even CTA, for both.
  Slots<kKeyStages> keys, values, key_columns;
  Slots<kStages> query_rows, query_columns;  // (query, output gradient) pairs
  Slots<kStages> stats;
  u64 scores_full;    // scores and their gradients are in tensor memory
  u64 products_done;  // all of a step's products
  // In the even CTA, arrivals of both:
  u64 scores_read;      // scores and their gradients have left tensor memory
  u64 operands_full;    // probabilities and rounded score gradients are in place
  u64 operands_read;    // those in tensor memory have been multiplied
  u64 tile_read;        // the gradients of a pair of key tiles have left tensor memory
  u64 query_grad_read;  // so has the query's
};

template <int kStages_>
__device__ inline void init_slots(Slots<kStages_>& slots, u32 full, u32 empty) {
  for (int i = 0; i < kStages_; ++i) {
    mbarrier_init(&slots.full[i], full);
    mbarrier_init(&slots.empty[i], empty);
  }
}

template <class Tile>
__device__ inline void init_pipeline(Pipeline<Tile>& pipeline) {
  constexpr u32 kItemConsumers = 3 + Config::AttendWarps::kCount + Config::UnloadWarps::kCount;
  // Load, stats and, in the even CTA, multiply.
  init_item_queue(pipeline.queue, kItemConsumers - (cluster_ctarank() == 0 ? 0 : 1));
  init_slots(pipeline.keys, 1, 1);
  init_slots(pipeline.values, 1, 1);
  init_slots(pipeline.key_columns, 1, 1);
  init_slots(pipeline.query_rows, 1, 1);
  init_slots(pipeline.query_columns, 1, 1);
  init_slots(pipeline.stats, 32, Config::AttendWarps::kCount);
  mbarrier_init(&pipeline.scores_full, 1);
  mbarrier_init(&pipeline.products_done, 1);
  mbarrier_init(&pipeline.scores_read, kPairWarps);
  mbarrier_init(&pipeline.operands_full, kPairWarps);
  mbarrier_init(&pipeline.operands_read, 1);
  mbarrier_init(&pipeline.tile_read, kPairWarps);
  mbarrier_init(&pipeline.query_grad_read, kPairWarps);
}

template <class Tile>
struct Control {
  Pipeline<Tile> pipeline;
  u32 tensor_memory;
  alignas(16) QueryStats stats[kStages][kChunkRows];
};

template <class Tile>
struct Shared {
  Config::Keys keys;
  Config::Values values;
  Config::KeyColumns key_columns;  // of all keys of the pair
  Config::RoundedScoreGrads score_grads;
  Config::QueryRows query_rows;
  Config::QueryColumns query_columns;
  Control<Tile>* control;
};

template <class Tile>
__device__ inline Shared<Tile> carve(unsigned char* bytes) {
  static_assert(sizeof(Control<Tile>) <= Config::Control::kBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = first_tile(start);
  return {Config::Keys::in(tiles),
          Config::Values::in(tiles),
          Config::KeyColumns::in(tiles),
          Config::RoundedScoreGrads::in(tiles),
          Config::QueryRows::in(tiles),
          Config::QueryColumns::in(tiles),
          reinterpret_cast<Control<Tile>*>(bytes + (tiles - start) + Config::Control::kBegin)};
}

// All of the warp arrive at a barrier of the even CTA, and bring what they wrote.
__device__ inline void arrive_at_leader(u64* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive_in_cluster(mapa(shared_address(barrier), 0));
}

// Calls visit(step) for all steps of all items, in order. take(queue, ring): one of take_item's kinds.
template <class Work, class Take, class Visit>
__device__ inline void for_each_step(ItemQueue<typename Work::Tile>& queue, const TwoCtaArguments& arguments,
                                     Take take, Visit visit) {
  Ring<kItemStages> items;
  for (;;) {
    const Item<typename Work::Tile> item = take(queue, items);
    if (item.head < 0) return;
    Work::for_each_step(item.tile, item.head, arguments, visit);
  }
}

// ---- Loads, by one thread of each CTA.

// Waits for a free slot and announces the bytes of both CTAs; the barrier to signal.
template <int kStages_>
__device__ inline u32 begin_load(Slots<kStages_>& slots, const Ring<kStages_>& ring, u32 bytes) {
  ring.wait_empty(slots.empty);
  u64* full = &slots.full[ring.slot];
  if (cluster_ctarank() == 0) mbarrier_arrive_expect_tx(full, kCtas * bytes);
  return address_in_leader(full);
}

struct Maps {
  const TensorMap *query, *query_columns, *key, *key_columns, *value, *output_grad, *output_grad_columns;
};

// `rows` rows of a sequence from row `first` on; columns from `column` on.
template <class Tile>
__device__ inline void load_keys(Tile tile, const TensorMap* map, i32 head, i32 first, i32 rows, i32 column,
                                 u32 full) {
  for (int box = 0; box < Tile::kBoxes; ++box) {
    for (int row = 0; row < Tile::kRows; row += kBoxRows) {
      cp_async_bulk_tensor_load_in_pair(
          tile.from_box(box).from_row(row).address, map,
          ragged_box(column + box * Tile::kBoxDim, head, first + row, rows - row), full);
    }
  }
}

// Rows of a step's tile of queries, from `first` on, of query and output gradient.
template <class Work, class Pair>
__device__ inline void load_queries(Pair pair, const TensorMap* query, const TensorMap* output_grad,
                                    const Step& step, const TwoCtaArguments& arguments, i32 first, i32 column,
                                    u32 full) {
  using Tile = typename Pair::Tile;
  for (int row = 0; row < Tile::kRows; row += arguments.box_rows) {
    const typename Work::Place place = Work::place_of(step, first + row, arguments);
    const i32 rows = place.valid ? step.live_queries - place.position : 0;
    for (int box = 0; box < Tile::kBoxes; ++box) {
      const i32 at = column + box * Tile::kBoxDim;
      cp_async_bulk_tensor_load_in_pair(pair[0].from_box(box).from_row(row).address, query,
                                        ragged_box(at, place.head, step.query_row + place.position, rows),
                                        full);
      cp_async_bulk_tensor_load_in_pair(pair[1].from_box(box).from_row(row).address, output_grad,
                                        ragged_box(at, place.head, step.output_row + place.position, rows),
                                        full);
    }
  }
}

template <class Work>
__device__ inline void load(const Shared<typename Work::Tile>& shared, const TwoCtaArguments& arguments,
                            const Maps& maps) {
  auto& pipeline = shared.control->pipeline;
  const i32 rank = static_cast<i32>(cluster_ctarank());
  constexpr i32 kColumns = Config::KeyColumns::Stage::kColumns;
  Ring<kKeyStages> keys;
  Ring<kStages> rows, columns;
  // The columns of a chunk go behind the rows of the next one, which are needed first.
  Step pending{};
  i32 pending_chunk = -1;
  const auto load_pending_columns = [&] {
    if (pending_chunk < 0) return;
    const auto pair = shared.query_columns[columns.slot];
    const u32 full = begin_load(pipeline.query_columns, columns, pair.kBytes);
    load_queries<Work>(pair, maps.query_columns, maps.output_grad_columns, pending, arguments,
                       pending_chunk * kChunkRows, rank * kColumns, full);
    columns.advance();
    pending_chunk = -1;
  };
  bool has_keys = false;
  for_each_step<Work>(pipeline.queue, arguments, take_item<typename Work::Tile>, [&](const Step& step) {
    if (step.seen) {
      const i32 key_head = step.head / config::kGroups;
      const i32 first = step.key_row + rank * kTileRows;
      const i32 live = step.live_keys - rank * kTileRows;
      const bool starts_keys = !has_keys;
      has_keys = true;
      if (starts_keys) {
        const auto key_tile = shared.keys[keys.slot];
        load_keys(key_tile, maps.key, key_head, first, live, 0,
                  begin_load(pipeline.keys, keys, key_tile.kBytes));
        const auto value_tile = shared.values[keys.slot];
        load_keys(value_tile, maps.value, key_head, first, live, 0,
                  begin_load(pipeline.values, keys, value_tile.kBytes));
      }
      for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
        const auto pair = shared.query_rows[rows.slot];
        const u32 full = begin_load(pipeline.query_rows, rows, pair.kBytes);
        load_queries<Work>(pair, maps.query, maps.output_grad, step, arguments,
                           chunk * kChunkRows + rank * pair[0].kRows, 0, full);
        rows.advance();
        load_pending_columns();
        pending = step;
        pending_chunk = chunk;
      }
      if (starts_keys) {
        const auto tile = shared.key_columns[keys.slot];
        load_keys(tile, maps.key_columns, key_head, step.key_row, step.live_keys, rank * kColumns,
                  begin_load(pipeline.key_columns, keys, tile.kBytes));
      }
    }
    // Who waits for this chunk's products may have to, before the next one comes.
    if (!step.seen || step.ends_keys) load_pending_columns();
    if (step.ends_keys && has_keys) {
      keys.advance();
      has_keys = false;
    }
  });
  // Products still signal these: the CTA may not exit before they have.
  drain(pipeline.keys.empty, keys);
  drain(pipeline.values.empty, keys);
  drain(pipeline.key_columns.empty, keys);
  drain(pipeline.query_rows.empty, rows);
  drain(pipeline.query_columns.empty, columns);
}

// LSE and delta of every row of a chunk, by one warp; rows without a query get what makes their probabilities
// 0.
template <class Work>
__device__ inline void load_stats(const Shared<typename Work::Tile>& shared,
                                  const TwoCtaArguments& arguments) {
  auto& pipeline = shared.control->pipeline;
  Ring<kStages> ring;
  const i32 lane = threadIdx.x % 32;
  for_each_step<Work>(
      pipeline.queue, arguments, take_item_by_warp<typename Work::Tile>, [&](const Step& step) {
        for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
          QueryStats stats[kChunkRows / 32];
#pragma unroll
          for (int i = 0; i < kChunkRows / 32; ++i) {
            const typename Work::Place place =
                Work::place_of(step, chunk * kChunkRows + lane + 32 * i, arguments);
            const bool valid = place.valid && place.position < step.live_queries;
            const i64 at =
                static_cast<i64>(place.head) * arguments.output_rows + step.output_row + place.position;
            stats[i] = {lse_log2_of(arguments.lse + at, valid), valid ? arguments.delta[at] : 0.0f};
          }
          ring.wait_empty(pipeline.stats.empty);
#pragma unroll
          for (int i = 0; i < kChunkRows / 32; ++i)
            shared.control->stats[ring.slot][lane + 32 * i] = stats[i];
          mbarrier_arrive(&pipeline.stats.full[ring.slot]);
          ring.advance();
        }
      });
}

// ---- Products, by one thread of the even CTA: scores one chunk ahead of the others.

// A chunk whose scores have been issued and whose other products have not.
struct PendingChunk {
  Ring<kKeyStages> keys;
  bool starts_keys, ends_keys;        // the first, the last chunk of the pair of key tiles
  bool ends_step, starts_query_grad;  // the query gradient's product follows, and starts it
};

template <class Tile>
class Products {
 public:
  __device__ inline Products(const Shared<Tile>& shared, TensorMemory memory)
      : shared_(shared), pipeline_(shared.control->pipeline), memory_(memory) {}

  // One step's; one without chunks ends what the steps before have begun.
  __device__ inline void step(const Step& step) {
    for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
      const bool last = chunk == step.chunks() - 1;
      scores({keys_, !has_keys_, last && step.ends_keys, last, !has_query_grad_});
      has_keys_ = true;
    }
    if (step.seen) has_query_grad_ = true;
    if (!step.seen) {
      flush();
      if (step.ends_keys && has_keys_) {
        tcgen05_commit_to_pair(&pipeline_.keys.empty[keys_.slot]);
        tcgen05_commit_to_pair(&pipeline_.values.empty[keys_.slot]);
        tcgen05_commit_to_pair(&pipeline_.key_columns.empty[keys_.slot]);
      }
    }
    if (step.ends_keys && has_keys_) {
      keys_.advance();
      has_keys_ = false;
    }
    if (step.ends_queries) has_query_grad_ = false;
  }

  __device__ inline void end() {
    flush();
    operands_read_.wait_outstanding();  // the CTA may not exit before it is signalled
  }

 private:
  __device__ inline void scores(const PendingChunk& next) {
    const int slot = next.keys.slot;
    if (next.starts_keys) next.keys.wait_full(pipeline_.keys.full);
    rows_.wait_full(pipeline_.query_rows.full);
    scores_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    const auto rows = shared_.query_rows[rows_.slot];
    mma_abt<kCtas>(Config::Scores::in(memory_), shared_.keys[slot], rows[0], kChunkRows);
    if (next.ends_keys) tcgen05_commit_to_pair(&pipeline_.keys.empty[slot]);
    if (any_pending_) multiply_keys();
    if (next.starts_keys) next.keys.wait_full(pipeline_.values.full);
    // Their operands lie where the score gradients go.
    operands_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    mma_abt<kCtas>(Config::ScoreGrads::in(memory_), shared_.values[slot], rows[1], kChunkRows);
    tcgen05_commit_to_pair(&pipeline_.scores_full);
    scores_read_.begin();
    tcgen05_commit_to_pair(&pipeline_.query_rows.empty[rows_.slot]);
    if (next.ends_keys) tcgen05_commit_to_pair(&pipeline_.values.empty[slot]);
    rows_.advance();
    if (any_pending_) multiply_queries();
    pending_ = next;
    any_pending_ = true;
  }

  __device__ inline void flush() {
    if (!any_pending_) return;
    multiply_keys();
    multiply_queries();
  }

  __device__ inline void multiply_keys() {
    columns_.wait_full(pipeline_.query_columns.full);
    operands_full_.wait();
    if (pending_.starts_keys) {
      tile_read_.wait_outstanding();
      tile_read_.begin();
    }
    tcgen05_fence_after_thread_sync();
    const auto columns = shared_.query_columns[columns_.slot];
    constexpr int kPieces = kChunkRows / fused::kPieceColumns;
    for (int piece = 0; piece < kPieces; ++piece) {
      const int row = piece * fused::kPieceColumns;
      const bool first = pending_.starts_keys && piece == 0;
      mma_ab<kCtas>(Config::ValueGrad::in(memory_), Config::Operands::in(memory_, 2 * piece),
                    columns[1].from_row(row), first);
      mma_ab<kCtas>(Config::KeyGrad::in(memory_), Config::Operands::in(memory_, 2 * piece + 1),
                    columns[0].from_row(row), first);
    }
    tcgen05_commit<kCtas>(&pipeline_.operands_read);
    operands_read_.begin();
    tcgen05_commit_to_pair(&pipeline_.query_columns.empty[columns_.slot]);
    columns_.advance();
  }

  __device__ inline void multiply_queries() {
    any_pending_ = false;
    if (!pending_.ends_step) return;
    const int slot = pending_.keys.slot;
    pending_.keys.wait_full(pipeline_.key_columns.full);
    if (pending_.starts_query_grad) {
      query_grad_read_.wait_outstanding();
      query_grad_read_.begin();
      tcgen05_fence_after_thread_sync();
    }
    mma_atb<kCtas>(Config::QueryGrad::in(memory_), shared_.score_grads[0], shared_.key_columns[slot],
                   !pending_.starts_query_grad);
    tcgen05_commit_to_pair(&pipeline_.products_done);
    if (pending_.ends_keys) tcgen05_commit_to_pair(&pipeline_.key_columns.empty[slot]);
  }

  using Waits = fused::WaitsOf<true>;
  const Shared<Tile>& shared_;
  Pipeline<Tile>& pipeline_;
  const TensorMemory memory_;
  PendingChunk pending_{};
  bool any_pending_ = false;
  bool has_keys_ = false;        // the pair of key tiles has had products,
  bool has_query_grad_ = false;  // so has the query gradient
  Ring<kKeyStages> keys_;
  Ring<kStages> rows_, columns_;
  Waits scores_read_{&pipeline_.scores_read};
  Waits operands_full_{&pipeline_.operands_full};
  Waits operands_read_{&pipeline_.operands_read};
  Waits tile_read_{&pipeline_.tile_read};
  Waits query_grad_read_{&pipeline_.query_grad_read};
};

// ---- Operands, by one thread a key.

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
  __device__ inline void put(int piece, const u32 (&probabilities)[kRowChunk],
                             const u32 (&rounded)[kRowChunk]) {
    tcgen05_st_x16(Config::Operands::in(lane_memory, 2 * piece).address, probabilities);
    tcgen05_st_x16(Config::Operands::in(lane_memory, 2 * piece + 1).address, rounded);
    if (piece == 0) free();
    const int column = piece * fused::kPieceColumns;
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
        const Interval seen = key < step.key_rows
                                  ? visible(step.key_position + key, Work::sequence_queries(step, arguments))
                                  : Interval{0, 0};
        for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
          const bool masked = __any_sync(0xffffffff, Work::is_masked(seen, step, chunk, arguments));
          i32 position = Work::place_of(step, chunk * kChunkRows, arguments).position;
          ring.wait_full(pipeline.stats.full);
          const QueryStats* stats = shared.control->stats[ring.slot];
          const auto operands = [&](int column, float score, float grad, float& p, float& g) {
            const QueryStats query = stats[column];
            p = ex2_approx(fmaf(score, arguments.scale_log2, -query.lse_log2));
            g = p * (grad - query.delta);
            if (!masked) return;
            if (position < seen.begin || position >= seen.end) p = g = 0.0f;
            position = Work::next_position(position, arguments);
          };
          const auto free = [&] {
            if (chunk == 0) products_done.wait_outstanding();
          };
          using Place = PairOperands<decltype(free), Pipeline<typename Work::Tile>>;
          constexpr int kChunkBoxes = kChunkRows / Config::RoundedScoreGrads::Stage::kBoxDim;
          fused::score_operands<Config>(
              scores_full, lane_memory, operands,
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

// The rounded row to global memory, as many columns as the tensor has: a multiple of 8.
template <class Accumulator>
__device__ inline void store_rounded_row(u16* destination, Accumulator memory, float factor, bool empty,
                                         bool store, int head_dim) {
#pragma unroll 1
  for (int column = 0; column < config::kPaddedDim; column += kRowChunk) {
    float values[kRowChunk];
    load_row(values, memory + column, factor, empty);
#pragma unroll
    for (int i = 0; i < kRowChunk; i += 8) {
      if (!store || column + i >= head_dim) continue;
      *reinterpret_cast<uint4*>(destination + column + i) =
          make_uint4(cvt_rn_x2(values[i], values[i + 1]), cvt_rn_x2(values[i + 2], values[i + 3]),
                     cvt_rn_x2(values[i + 4], values[i + 5]), cvt_rn_x2(values[i + 6], values[i + 7]));
    }
  }
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
          const bool store = in_pair < step.key_rows;
          store_rounded_row(row_of(arguments.value_grad, key_row, arguments.value_grad_row_stride, head,
                                   arguments.value_grad_head_stride),
                            Config::ValueGrad::in(lane_memory), 1.0f, keys_empty, store, arguments.head_dim);
          store_rounded_row(row_of(arguments.key_grad, key_row, arguments.key_grad_row_stride, head,
                                   arguments.key_grad_head_stride),
                            Config::KeyGrad::in(lane_memory), arguments.scale, keys_empty, store,
                            arguments.head_dim);
          if (!keys_empty) {
            tcgen05_fence_before_thread_sync();
            arrive_at_leader(&pipeline.tile_read);
          }
          keys_empty = true;
        }
      });
}

// ---- The whole CTA.

// What no chunk writes is read with the rest.
__device__ inline void clear_score_grads(Config::RoundedScoreGrads::Stage score_grads) {
  for (int byte = threadIdx.x * 16; byte < score_grads.kBytes; byte += blockDim.x * 16)
    st_shared_v4(score_grads.address + byte, 0, 0, 0, 0);
  fence_proxy_async_shared();
}

template <class Work>
__device__ inline void run(const Shared<typename Work::Tile>& shared, const TwoCtaArguments& arguments,
                           const Maps& maps) {
  auto& pipeline = shared.control->pipeline;
  TensorMemory* const address = &shared.control->tensor_memory;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init_pipeline(pipeline);
    fence_mbarrier_init();
  }
  clear_score_grads(shared.score_grads[0]);
  barrier_cluster();  // the peer runs, and its barriers are there
  if (warp == Config::DrawWarps::kFirst) {
    tcgen05_alloc<kCtas>(address, config::kTensorMemoryColumns);
    tcgen05_relinquish_alloc_permit<kCtas>();
  }
  __syncthreads();
  const TensorMemory memory = *address;
  if (warp == Config::LoadWarps::kFirst) {
    if (elect_sync()) load<Work>(shared, arguments, maps);
  } else if (warp == Config::DrawWarps::kFirst) {
    if (elect_sync()) Work::draw(pipeline.queue, arguments);
  } else if (warp == Config::StatsWarps::kFirst) {
    load_stats<Work>(shared, arguments);
  } else if (warp == Config::MultiplyWarps::kFirst) {
    if (cluster_ctarank() == 0 && elect_sync()) {
      Products<typename Work::Tile> products(shared, memory);
      for_each_step<Work>(pipeline.queue, arguments, take_item<typename Work::Tile>,
                          [&](const Step& step) { products.step(step); });
      products.end();
    }
  } else if (warp < Config::AttendWarps::kEnd) {
    attend<Work>(shared, memory, arguments);
  } else {
    unload<Work>(shared, memory, arguments);
  }
  __syncwarp();
  tcgen05_fence_before_thread_sync();
  barrier_cluster();  // neither CTA signals the other any more
  if (warp == Config::DrawWarps::kFirst) tcgen05_dealloc<kCtas>(memory, config::kTensorMemoryColumns);
}

}  // namespace jfa::kernel::two_cta
