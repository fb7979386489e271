// Which rows of the other side a row sees through a window. A key's place is its position in its sequence, a
// query's too, or with kBottomRight that plus the keys less the queries of the sequence, so that the last
// query stands at the last key. The query at place p sees the keys at p - kLeft … p + kRight; seen from a key
// the sides change over. Negative: that side is unbounded.
//
// Beside places there are offsets: a place less that of the first row on the other side, which is where an
// answer counts from.
namespace jfa::kernel {

constexpr bool kAlignedAtEnds = config::kBottomRight;

// Where what rows at `offset` see of the other side's begins, kBack rows back but not before `first`, and
// where it ends.
template <i32 kBack>
__device__ inline i32 begin_of(i32 offset, i32 first) {
  return kBack < 0 ? first : max(offset - kBack, first);
}
template <i32 kAhead>
__device__ inline i32 end_of(i32 offset, i32 rows, i32 end) {
  return kAhead < 0 ? end : min(offset + rows + kAhead, end);
}

// ---- What some row of a tile sees. Empty if all that lies outside the sequence.

template <i32 kBack, i32 kAhead>
__device__ inline Interval tile_interval(i32 offset, i32 rows, i32 other_rows) {
  const i32 begin = begin_of<kBack>(offset, 0);
  const i32 end = end_of<kAhead>(offset, rows, other_rows);
  return {begin, max(begin, end)};
}
__device__ inline Interval keys_of_queries(i32 offset, i32 rows, i32 key_rows) {
  return tile_interval<config::kLeft, config::kRight>(offset, rows, key_rows);
}
__device__ inline Interval queries_of_keys(i32 offset, i32 rows, i32 query_rows) {
  return tile_interval<config::kRight, config::kLeft>(offset, rows, query_rows);
}

// ---- What one row sees of `count` rows.

__device__ inline Intervals keys_of_query(i32 offset, i32 count) {
  return {begin_of<config::kLeft>(offset, 0), end_of<config::kRight>(offset, 1, count)};
}
__device__ inline Intervals queries_of_key(i32 offset, i32 count) {
  return {begin_of<config::kRight>(offset, 0), end_of<config::kLeft>(offset, 1, count)};
}

// ---- Rows of a tile up to the last that sees any of `count` rows at `other_place`; 0 if none does. Places
// of queries are negative at most if they are aligned at the ends.

template <i32 kBack, i32 kAhead>
__device__ inline i32 live_rows(i32 place, i32 rows, i32 other_place, i32 count) {
  const i32 begin = begin_of<kBack>(other_place, kAlignedAtEnds ? place : 0);
  const i32 end = max(begin, end_of<kAhead>(other_place, count, place + rows));
  return count > 0 && begin < end ? max(end - place, 0) : 0;
}
__device__ inline i32 live_queries(i32 place, i32 rows, i32 key_place, i32 key_count) {
  return live_rows<config::kRight, config::kLeft>(place, rows, key_place, key_count);
}
__device__ inline i32 live_keys(i32 place, i32 rows, i32 query_place, i32 query_count) {
  return live_rows<config::kLeft, config::kRight>(place, rows, query_place, query_count);
}

// ---- The order of work.

// What the tile sees that sees most, of tiles of `rows` rows from `offset` on.
template <i32 kBack, i32 kAhead>
__device__ inline Interval most_seen(i32 offset, i32 rows, i32 other_rows) {
  i32 busiest = rows / 2;
  if constexpr (kBack < 0) {
    busiest = max(rows - kTileRows, 0);
  } else if constexpr (kBack != kAhead || kAlignedAtEnds) {
    // The first one whose way back does not end at the sequence's beginning.
    busiest = max(min(kBack - offset, rows - kTileRows), 0);
  }
  return tile_interval<kBack, kAhead>(offset + busiest, kTileRows, other_rows);
}
__device__ inline Interval most_keys(i32 offset, i32 query_rows, i32 key_rows) {
  return most_seen<config::kLeft, config::kRight>(offset, query_rows, key_rows);
}
__device__ inline Interval most_queries(i32 offset, i32 key_rows, i32 query_rows) {
  return most_seen<config::kRight, config::kLeft>(offset, key_rows, query_rows);
}

// Whether a sequence's tiles see the more the later they come.
constexpr bool kLaterQueriesSeeMore = config::kLeft < 0 && config::kRight >= 0;
constexpr bool kLaterKeysSeeMore = config::kRight < 0 && config::kLeft >= 0;

}  // namespace jfa::kernel
