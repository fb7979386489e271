// The loading side of the query's gradient: a tile of queries stays, the keys it sees stream past. A query
// that the whole batch shares stays for all sequences of a part.
namespace jfa::kernel::queries {

// A run's tile that sees no key adds nothing. One that is a whole run by itself still needs a place to stage
// zeros.
__device__ inline bool skipped(const QueryRun& run, const QueryTile& tile) {
  return run.part >= 0 && tile.key_count == 0;
}

template <class Control>
__device__ inline void load(const BackwardShared<Control>& shared, const BackwardArguments& arguments,
                            const TensorMap* query, const TensorMap* key, const TensorMap* value,
                            const TensorMap* output_grad) {
  BackwardPipeline<QueryRun>& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  for (;;) {
    const Item<QueryRun> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const QueryRun& run = item.tile;
    for (int i = 0; i < run.tiles; ++i) {
      const QueryTile tile = arguments.query_tiles[run.first_tile + i * run.tile_step];
      if (skipped(run, tile)) continue;
      stationary.wait_empty(pipeline.stationary_empty);
      load_pair(shared.stationary[stationary.slot], {{query, output_grad}, {tile.query_row, tile.output_row}},
                item.head, loaded_rows(tile), &pipeline.stationary_full[stationary.slot]);
      stationary.advance();
      for (int first = 0; first < tile.key_count; first += kStreamedRows) {
        streamed.wait_empty(pipeline.streamed_empty);
        load_pair(shared.streamed[streamed.slot],
                  {{key, value}, {tile.key_row + first, tile.key_row + first}}, item.head / config::kGroups,
                  tile.key_count - first, &pipeline.streamed_full[streamed.slot]);
        streamed.advance();
      }
    }
  }
  // Unless it is a part of a sum, the gradient's threads give the stationary tiles back themselves.
  if constexpr (config::kBroadcastQuery) drain(pipeline.stationary_empty, stationary);
  drain(pipeline.streamed_empty, streamed);
}

}  // namespace jfa::kernel::queries
