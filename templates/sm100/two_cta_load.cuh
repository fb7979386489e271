// What comes from memory for clusters of two CTAs: tiles, by one thread of each CTA, and LSE and delta, by
// one warp.
namespace jfa::kernel::two_cta {

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

}  // namespace jfa::kernel::two_cta
