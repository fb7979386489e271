// The forward's tiles in flight: shared-memory rings of query tiles and of alternating key and value tiles,
// the thread that fills them, and the barriers by which the tensor core's side gives them back.
namespace jfa::kernel {

constexpr int kQueryStages = config::kQueryStages;
constexpr int kKeyValueStages = config::kKeyValueStages;

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

// Dynamic shared memory: tiles first, since they need the alignment, then the target's barriers.
constexpr u32 kTileBytes = tile_bytes(kTileRows);

template <class Control>
struct Shared {
  u32 query, key_value, output;  // shared addresses of the first tile of each
  Control* control;

  __device__ inline u32 query_tile(int stage) const { return query + stage * kTileBytes; }
  __device__ inline u32 key_value_tile(int stage) const { return key_value + stage * kTileBytes; }
};

template <class Control>
__device__ inline Shared<Control> carve(unsigned char* bytes) {
  constexpr u32 kAlignment = 1024;  // the repeat of the widest swizzle
  constexpr u32 kAllTilesBytes = kTileBytes * (kQueryStages + kKeyValueStages + 1);
  static_assert(kAlignment + kAllTilesBytes + sizeof(Control) <= config::kSharedBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = (start + kAlignment - 1) / kAlignment * kAlignment;
  Shared<Control> shared;
  shared.query = tiles;
  shared.key_value = shared.query + kQueryStages * kTileBytes;
  shared.output = shared.key_value + kKeyValueStages * kTileBytes;
  shared.control = reinterpret_cast<Control*>(bytes + (tiles - start) + kAllTilesBytes);
  return shared;
}

__device__ inline int key_tiles(const QueryTile& tile) {
  return (tile.key_count + kTileRows - 1) / kTileRows;
}

// The loading thread's whole life.
template <class Control>
__device__ inline void load(const Shared<Control>& shared, Pipeline& pipeline, const TensorMap* query,
                            const TensorMap* key, const TensorMap* value) {
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
    mbarrier_arrive_expect_tx(query_full, kTileBytes);
    load_tile<kTileRows, kTileRows>(shared.query_tile(queries.slot), query, item.head, tile.query_row,
                                    loaded_rows(tile), query_full);
    queries.advance();
    const int key_head = item.head / config::kGroups;
    for (int first = 0; first < tile.key_count; first += kTileRows) {
      for (const TensorMap* map : {key, value}) {
        tiles.wait_empty(pipeline.key_value_empty);
        u64* full = &pipeline.key_value_full[tiles.slot];
        mbarrier_arrive_expect_tx(full, kTileBytes);
        load_tile<kTileRows, kTileRows>(shared.key_value_tile(tiles.slot), map, key_head,
                                        tile.key_row + first, tile.key_count - first, full);
        tiles.advance();
      }
    }
  }
  // The consumers still signal these barriers: the CTA may not exit before they have.
  for (int i = 0; i < kQueryStages; ++i, queries.advance()) queries.wait_empty(pipeline.query_empty);
  for (int i = 0; i < kKeyValueStages; ++i, tiles.advance()) tiles.wait_empty(pipeline.key_value_empty);
}

}  // namespace jfa::kernel
