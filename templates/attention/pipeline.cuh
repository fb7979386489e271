// The forward's tiles in flight: shared-memory rings of query tiles and of alternating key and value tiles,
// the thread that fills them, and the barriers by which the tensor core's side gives them back.
namespace jfa::kernel {

constexpr int kQueryStages = config::Forward::Queries::kStages;
constexpr int kKeyValueStages = config::Forward::KeysAndValues::kStages;

struct Pipeline {
  ItemQueue<QueryTile> queue;
  u64 query_full[kQueryStages];
  u64 query_empty[kQueryStages];
  u64 key_value_full[kKeyValueStages];
  u64 key_value_empty[kKeyValueStages];
};

// item_consumers: roles that take items; tile_consumers: arrivals that give a tile back.
__device__ inline void init_pipeline(Pipeline& pipeline, u32 item_consumers, u32 tile_consumers) {
  init_item_queue(pipeline.queue, item_consumers);
  for (int i = 0; i < kQueryStages; ++i) {
    mbarrier_init(&pipeline.query_full[i], 1);
    mbarrier_init(&pipeline.query_empty[i], tile_consumers);
  }
  for (int i = 0; i < kKeyValueStages; ++i) {
    mbarrier_init(&pipeline.key_value_full[i], 1);
    mbarrier_init(&pipeline.key_value_empty[i], tile_consumers);
  }
}

// Dynamic shared memory: tiles and the target's barriers.
template <class Control>
struct Shared {
  config::Forward::Queries queries;
  config::Forward::KeysAndValues keys_and_values;
  config::Forward::Output output;
  Control* control;
};

template <class Control>
__device__ inline Shared<Control> carve(unsigned char* bytes) {
  using Config = config::Forward;
  static_assert(sizeof(Control) <= Config::Control::kBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = first_tile(start);
  return {Config::Queries::in(tiles), Config::KeysAndValues::in(tiles), Config::Output::in(tiles),
          reinterpret_cast<Control*>(bytes + (tiles - start) + Config::Control::kBegin)};
}

__device__ inline int key_tiles(const QueryTile& tile) {
  return (tile.key_count + kTileRows - 1) / kTileRows;
}

// The loading thread's whole life.
template <class Control>
__device__ inline void load(const Shared<Control>& shared, Pipeline& pipeline, const TensorMap* query,
                            const TensorMap* key, const TensorMap* value) {
  using Config = config::Forward;
  Ring<kItemStages> items;
  Ring<kQueryStages> queries;
  Ring<kKeyValueStages> tiles;
  for (;;) {
    const Item<QueryTile> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const QueryTile& tile = item.tile;
    if (tile.key_count == 0) continue;
    queries.wait_empty(pipeline.query_empty);
    u64* query_full = &pipeline.query_full[queries.slot];
    mbarrier_arrive_expect_tx(query_full, Config::Queries::Stage::kBytes);
    load_tile<kTileRows>(shared.queries[queries.slot], query, item.head, tile.query_row, loaded_rows(tile),
                         query_full);
    queries.advance();
    const int key_head = item.head / config::kGroups;
    for (int first = 0; first < tile.key_count; first += kTileRows) {
      for (const TensorMap* map : {key, value}) {
        tiles.wait_empty(pipeline.key_value_empty);
        u64* full = &pipeline.key_value_full[tiles.slot];
        mbarrier_arrive_expect_tx(full, Config::KeysAndValues::Stage::kBytes);
        load_tile<kTileRows>(shared.keys_and_values[tiles.slot], map, key_head, tile.key_row + first,
                             tile.key_count - first, full);
        tiles.advance();
      }
    }
  }
  // The consumers still signal these barriers: the CTA may not exit before they have.
  for (int i = 0; i < kQueryStages; ++i, queries.advance()) queries.wait_empty(pipeline.query_empty);
  for (int i = 0; i < kKeyValueStages; ++i, tiles.advance()) tiles.wait_empty(pipeline.key_value_empty);
}

}  // namespace jfa::kernel
