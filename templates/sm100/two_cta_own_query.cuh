// What clusters of two CTAs do for sequences whose keys fit the pair: their keys stay, the queries come by
// through all heads of their group, a tile after the other. The pair's keys are all keys, so that a tile's
// gradient is complete after one product. An item is one sequence for one key head.
namespace jfa::kernel::two_cta {

constexpr int kQueryRows = kCtas * kOwnedRows;  // of a tile of queries

struct Work {
  using Tile = KeyTile;

  // A row of the tile of queries: the head, and which query of the sequence it is.
  struct Place {
    i32 head, position;
    bool valid;
  };

  __device__ static inline Place place_of(const Step& step, i32 row, const TwoCtaArguments&) {
    return {step.head, step.query_position + row, true};
  }
  __device__ static inline i32 sequence_queries(const Step& step, const TwoCtaArguments&) {
    return step.live_queries;
  }
  // Which of kPieceColumns of the tile's rows from `row` on a key sees that sees these queries: a bit each.
  __device__ static inline u32 seen_bits(const Intervals& seen, const Step& step, i32 row,
                                         const TwoCtaArguments&) {
    return kernel::seen_bits(seen, step.query_position + row);
  }
  // Whether a key that sees these queries does not see all of a chunk's.
  __device__ static inline bool is_masked(const Intervals& seen, const Step& step, i32 chunk,
                                          const TwoCtaArguments&) {
    const i32 first = step.query_position + chunk * kChunkRows;
    return seen.lacks_any(first, min(first + kChunkRows, step.live_queries));
  }

  template <class Visit>
  __device__ static inline void for_each_step(const KeyTile& tile, i32 key_head, const TwoCtaArguments&,
                                              Visit visit) {
    Step step{};
    step.key_row = tile.key_row;
    step.key_rows = tile.rows;
    const i32 query_place = kAlignedAtEnds ? tile.query_position : 0;
    step.key_offset = -query_place;
    step.live_keys = live_keys(0, tile.rows, query_place, tile.query_count);
    step.query_row = tile.query_row;
    step.output_row = tile.output_row;
    step.live_queries = live_queries(query_place, tile.query_count, 0, tile.rows);
    step.ends_queries = true;
    for (i32 g = 0; g < config::kGroups; ++g) {
      step.head = key_head * config::kGroups + g;
      for (i32 first = 0; first < tile.query_count; first += kQueryRows) {
        const i32 left = tile.query_count - first;
        step.query_position = first;
        step.query_rows = min(kQueryRows, left);
        step.seen = first < step.live_queries;
        step.ends_keys = g == config::kGroups - 1 && left <= kQueryRows;
        visit(step);
      }
    }
  }

  // Items belong to a cluster by their place in the list: both CTAs draw the same ones.
  __device__ static inline void draw(ItemQueue<KeyTile>& queue, const TwoCtaArguments& arguments) {
    const i32 heads = arguments.query_heads / config::kGroups;
    const u32 items = static_cast<u32>(arguments.header->two_cta_tile_count) * heads;
    Ring<kItemStages> ring;
    for (u32 index = blockIdx.x / kCtas; index < items; index += gridDim.x / kCtas)
      push_item(queue, ring, arguments.tiles[index / heads], static_cast<i32>(index % heads));
    push_item(queue, ring, KeyTile{}, -1);
  }

  // `row`: of the tile of queries, this thread's.
  __device__ static inline void store_query_grad(const Step& step, i32 row, TensorMemory lane_memory,
                                                 bool empty, const TwoCtaArguments& arguments) {
    const i32 position = step.query_position + row;
    const i64 query = step.query_row + position;
    store_rounded_row(row_of(arguments.query_grad, query, arguments.query_grad_row_stride, step.head,
                             arguments.query_grad_head_stride),
                      Config::QueryGrad::in(lane_memory), arguments.scale, empty,
                      position < step.live_queries, row < step.query_rows, arguments.head_dim);
  }
};

}  // namespace jfa::kernel::two_cta
