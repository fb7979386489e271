// A backward's tiles in flight. One side is stationary, a pair of tiles of kTileRows rows per item; pairs of
// tiles of the other side, kStreamedRows rows each, stream past it. The gradient of the stationary side
// leaves through its own tiles, which nobody reads any more.
namespace jfa::kernel {

using config::kBoxRows;  // of every tensor map but those of a shared query's slots
using config::kChunkRows;
using config::kStreamedRows;
constexpr int kStationaryStages = config::Keys::Stationary::kStages;
constexpr int kStreamedStages = config::Keys::Streamed::kStages;
static_assert(config::Queries::Stationary::kStages == kStationaryStages);
static_assert(config::Queries::Streamed::kStages == kStreamedStages);

template <class Tile>
struct BackwardPipeline {
  ItemQueue<Tile> queue;
  u64 stationary_full[kStationaryStages];
  u64 stationary_empty[kStationaryStages];
  u64 streamed_full[kStreamedStages];
  u64 streamed_empty[kStreamedStages];
};

// streamed_fillers: arrivals beside the loading thread's that make a streamed pair complete.
template <class Tile>
__device__ inline void init_pipeline(BackwardPipeline<Tile>& pipeline, u32 item_consumers, u32 tile_consumers,
                                     u32 streamed_fillers) {
  init_item_queue(pipeline.queue, item_consumers);
  for (int i = 0; i < kStationaryStages; ++i) {
    mbarrier_init(&pipeline.stationary_full[i], 1);
    mbarrier_init(&pipeline.stationary_empty[i], tile_consumers);
  }
  for (int i = 0; i < kStreamedStages; ++i) {
    mbarrier_init(&pipeline.streamed_full[i], 1 + streamed_fillers);
    mbarrier_init(&pipeline.streamed_empty[i], tile_consumers);
  }
}

// Control::Config: config::Keys or config::Queries.
template <class Control>
struct BackwardShared {
  using Config = typename Control::Config;
  // Pairs are (key, value) or (query, output gradient).
  typename Config::Stationary stationary;
  typename Config::Streamed streamed;
  Control* control;
};

template <class Control>
__device__ inline BackwardShared<Control> carve_backward(unsigned char* bytes) {
  using Config = typename Control::Config;
  static_assert(sizeof(Control) <= Config::Control::kBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = first_tile(start);
  return {Config::Stationary::in(tiles), Config::Streamed::in(tiles),
          reinterpret_cast<Control*>(bytes + (tiles - start) + Config::Control::kBegin)};
}

// What the loading thread fetches of two tensors that go together.
struct PairSource {
  const TensorMap* map[2];
  i32 row[2];
};

template <class Pair>
__device__ inline void load_pair(Pair pair, const PairSource& source, int head, int rows, u64* full) {
  mbarrier_arrive_expect_tx(full, Pair::kBytes);
  for (int which = 0; which < 2; ++which)
    load_tile<kBoxRows>(pair[which], source.map[which], head, source.row[which], rows, full);
}

// Products still signal these barriers when their commits come in: the CTA may not exit before they have.
template <int kStages>
__device__ inline void drain(u64* empty, Ring<kStages> ring) {
  for (int i = 0; i < kStages; ++i, ring.advance()) ring.wait_empty(empty);
}

// As loaded_rows() of a query tile.
__device__ inline i32 loaded_keys(const KeyTile& tile) {
  return live_keys(tile.key_position, tile.rows, tile.query_position, tile.query_count);
}

// What a key-side product needs of a query.
struct QueryStats {
  float lse_log2, delta;
};

constexpr float kLog2E = 1.44269504088896341f;
// Largest relative error of an LSE in units of log2: five roundings, from the scores it was made of to here.
constexpr float kLseError = 5.0f / (1 << 24);
// From here on that is more than a few factors of 2 in a probability.
constexpr float kVagueLse = 1 << 24;

// LSE in units of log2. A row that takes no part in any gradient has one that makes its probabilities 0. One
// that is vague is taken for as large as it may be, so that no probability passes 1, nor a gradient all
// bounds.
__device__ inline float lse_log2_of(const float* lse, bool valid) {
  const float value = valid ? *lse : kMinusInfinity;
  const float log2 = value * kLog2E;
  const float upper = fmaf(fabsf(log2), fabsf(log2) < kVagueLse ? 0.0f : kLseError, log2);
  return value == kMinusInfinity ? -kMinusInfinity : upper;
}

}  // namespace jfa::kernel
