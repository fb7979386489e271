// The loading side of the gradients of keys and values: a tile of keys stays, the queries that see it stream
// past through all heads of its group.
namespace jfa::kernel::keys {

template <class Control>
__device__ inline void load(const BackwardShared<Control>& shared, const TensorMap* query,
                            const TensorMap* key, const TensorMap* value, const TensorMap* output_grad) {
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  for (;;) {
    const Item<KeyTile> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    stationary.wait_empty(pipeline.stationary_empty);
    load_pair(shared.stationary[stationary.slot], {{key, value}, {tile.key_row, tile.key_row}}, item.head,
              loaded_keys(tile), &pipeline.stationary_full[stationary.slot]);
    stationary.advance();
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        streamed.wait_empty(pipeline.streamed_empty);
        load_pair(shared.streamed[streamed.slot],
                  {{query, output_grad}, {tile.query_row + first, tile.output_row + first}},
                  item.head * config::kGroups + g, tile.query_count - first,
                  &pipeline.streamed_full[streamed.slot]);
        streamed.advance();
      }
    }
  }
  drain(pipeline.streamed_empty, streamed);
}

// Rows of LSE and delta start anywhere, so a warp fetches them.
template <class Control>
__device__ inline void load_stats(const BackwardShared<Control>& shared, const BackwardArguments& arguments) {
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kStreamedStages> streamed;
  const int lane = threadIdx.x % 32;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    for (int g = 0; g < config::kGroups; ++g) {
      const i64 row =
          static_cast<i64>(item.head * config::kGroups + g) * arguments.output_rows + tile.output_row;
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        QueryStats stats[kStreamedRows / 32];
        for (int i = 0; i < kStreamedRows / 32; ++i) {
          const int query = first + lane + 32 * i;
          const bool valid = query < tile.query_count;
          stats[i] = {lse_log2_of(arguments.lse + row + query, valid),
                      valid ? arguments.delta[row + query] : 0.0f};
        }
        streamed.wait_empty(pipeline.streamed_empty);
        for (int i = 0; i < kStreamedRows / 32; ++i)
          shared.control->stats[streamed.slot][lane + 32 * i] = stats[i];
        mbarrier_arrive(&pipeline.streamed_full[streamed.slot]);
        streamed.advance();
      }
    }
  }
}

}  // namespace jfa::kernel::keys
