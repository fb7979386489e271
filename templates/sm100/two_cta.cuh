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
  i32 key_row, key_rows;      // of the pair of key tiles: first row in the tensor, 0 … kCtas * kTileRows
  i32 key_offset;             // place of the first one less that of the sequence's first query
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
  ColumnStats<kChunkRows> stats[kStages];
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

}  // namespace jfa::kernel::two_cta
