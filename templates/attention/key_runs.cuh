// The list of all key tiles of a batch whose query is shared, cut into parts: an item is one part for one key
// head, passed on run by run.
namespace jfa::kernel::broadcast {

// Whether any query sees any of the run's keys from `first` on, up to a tile's.
template <i32 kRows = kTileRows>
__device__ inline bool tile_is_seen(const KeyRun& run, i32 first, i32 query_rows) {
  if (run.output_row < 0) return false;
  const Interval seen = queries_of_keys(run.key_position + first, min(kRows, run.rows - first), query_rows);
  return seen.end > seen.begin;
}

// What the run's `key`-th key sees.
__device__ inline Intervals queries_of_key(const KeyRun& run, i32 key, i32 query_rows) {
  return key < run.rows ? kernel::queries_of_key(run.key_position + key, query_rows) : Intervals::none();
}

// The sequence that holds a tile of the list of all key tiles. Arguments: of one of the entries.
template <class Arguments>
__device__ inline i32 sequence_of_tile(const Arguments& arguments, i32 tile) {
  i32 low = 0, high = arguments.header->key_sequence_count;
  while (high - low > 1) {
    const i32 middle = (low + high) / 2;
    (arguments.key_sequences[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

// One part for one head, run by run, of a list of tiles of kRows rows.
template <i32 kRows = kTileRows, class Arguments>
__device__ inline void draw_part(ItemQueue<KeyRun>& queue, Ring<kItemStages>& ring,
                                 const Arguments& arguments, i32 part, i32 head) {
  const i64 tiles = arguments.header->key_tile_count;
  const i32 begin = static_cast<i32>(tiles * part / arguments.parts);
  const i32 end = static_cast<i32>(tiles * (part + 1) / arguments.parts);
  if (begin == end) {
    push_item(queue, ring, KeyRun{0, 0, 0, -1, part, 1, 1, 0}, head);
    return;
  }
  i32 sequence = sequence_of_tile(arguments, begin);
  for (i32 tile = begin; tile < end; ++sequence) {
    const KeySequence s = arguments.key_sequences[sequence];
    const i32 position = (tile - s.first_tile) * kRows;
    const i32 tiles_left = min(end - tile, (s.key_rows - position + kRows - 1) / kRows);
    const KeyRun run = {s.key_row + position,
                        min(tiles_left * kRows, s.key_rows - position),
                        position,
                        s.output_row,
                        part,
                        tile == begin,
                        tile + tiles_left == end,
                        0};
    push_item(queue, ring, run, head);
    tile += tiles_left;
  }
}

}  // namespace jfa::kernel::broadcast
