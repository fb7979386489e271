// What clusters of two CTAs do for a query that the whole batch shares: heads of a group lie one below the
// other in one tile of queries, in slots of arguments.slot_rows rows, and pairs of key tiles come by. An item
// is one part of the list of all pairs for one key head; the query's gradient stays over all of it.
namespace jfa::kernel::two_cta {

constexpr int kKeyRows = kCtas * kTileRows;  // of a pair of key tiles

struct Work {
  using Tile = KeyRun;

  // A row of the tile of queries: the head, and which query of the sequence it is.
  struct Place {
    i32 head, position;
    bool valid;
  };

  __device__ static inline Place place_of(const Step& step, i32 row, const TwoCtaArguments& arguments) {
    const i32 slot = row / arguments.slot_rows;
    return {step.head + slot, row % arguments.slot_rows, slot < config::kGroups};
  }
  __device__ static inline i32 sequence_queries(const Step&, const TwoCtaArguments& arguments) {
    return arguments.query_rows;
  }
  // Which of kPieceColumns of the tile's rows from `row` on a key sees that sees these queries: a bit each.
  __device__ static inline u32 seen_bits(const Intervals& seen, const Step&, i32 row,
                                         const TwoCtaArguments& arguments) {
    return seen_slot_bits(seen, row, arguments.slot_rows);
  }
  // Whether a key that sees these queries does not see all of a chunk's.
  __device__ static inline bool is_masked(const Intervals& seen, const Step&, i32,
                                          const TwoCtaArguments& arguments) {
    return seen.lacks_any(0, arguments.query_rows);
  }

  template <class Visit>
  __device__ static inline void for_each_step(const KeyRun& run, i32 key_head,
                                              const TwoCtaArguments& arguments, Visit visit) {
    Step step{};
    step.head = key_head * config::kGroups;
    step.query_rows = config::kGroups * arguments.slot_rows;
    step.output_row = run.output_row;
    step.part = run.part;
    if (run.rows == 0) {
      step.ends_queries = true;
      visit(step);
    }
    step.ends_keys = true;
    for (i32 first = 0; first < run.rows; first += kKeyRows) {
      const i32 left = run.rows - first;
      step.key_row = run.key_row + first;
      step.key_rows = min(kKeyRows, left);
      step.key_offset = run.key_position + first;
      step.live_keys = live_keys(step.key_offset, left, 0, arguments.query_rows);
      step.live_queries = live_queries(0, arguments.query_rows, step.key_offset, step.key_rows);
      step.seen = broadcast::tile_is_seen<kKeyRows>(run, first, arguments.query_rows);
      step.ends_queries = run.last && left <= kKeyRows;
      visit(step);
    }
  }

  // Items belong to a cluster by their place in the list: both CTAs draw the same ones.
  __device__ static inline void draw(ItemQueue<KeyRun>& queue, const TwoCtaArguments& arguments) {
    const i32 heads = arguments.query_heads / config::kGroups;
    const u32 items = arguments.header->key_tile_count == 0 ? 0 : static_cast<u32>(arguments.parts) * heads;
    Ring<kItemStages> ring;
    for (u32 index = blockIdx.x / kCtas; index < items; index += gridDim.x / kCtas)
      broadcast::draw_part<kKeyRows>(queue, ring, arguments, static_cast<i32>(index / heads),
                                     static_cast<i32>(index % heads));
    push_item(queue, ring, KeyRun{}, -1);
  }

  // `row`: of the tile of queries, this thread's.
  __device__ static inline void store_query_grad(const Step& step, i32 row, TensorMemory lane_memory,
                                                 bool empty, const TwoCtaArguments& arguments) {
    const i64 first = (static_cast<i64>(step.part) * arguments.query_heads + step.head) * arguments.slot_rows;
    store_row(arguments.partial_query_grad + (first + row) * config::kPaddedDim,
              Config::QueryGrad::in(lane_memory), arguments.scale, empty, row < step.query_rows);
  }
};

}  // namespace jfa::kernel::two_cta
