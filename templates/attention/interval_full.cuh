// Without a window every query sees all keys of its sequence. The functions are those of interval_window.cuh,
// which says what they are asked.
namespace jfa::kernel {

constexpr bool kAlignedAtEnds = false;
constexpr bool kLaterQueriesSeeMore = false, kLaterKeysSeeMore = false;

__device__ inline Interval keys_of_queries(i32 /*offset*/, i32 /*rows*/, i32 key_rows) {
  return {0, key_rows};
}
__device__ inline Interval queries_of_keys(i32 /*offset*/, i32 /*rows*/, i32 query_rows) {
  return {0, query_rows};
}

__device__ inline Intervals keys_of_query(i32 /*offset*/, i32 count) { return {0, count}; }
__device__ inline Intervals queries_of_key(i32 /*offset*/, i32 count) { return {0, count}; }

__device__ inline i32 live_queries(i32 /*place*/, i32 rows, i32 /*key_place*/, i32 key_count) {
  return key_count > 0 ? rows : 0;
}
__device__ inline i32 live_keys(i32 /*place*/, i32 rows, i32 /*query_place*/, i32 query_count) {
  return query_count > 0 ? rows : 0;
}

__device__ inline Interval most_keys(i32 /*offset*/, i32 /*query_rows*/, i32 key_rows) {
  return {0, key_rows};
}
__device__ inline Interval most_queries(i32 /*offset*/, i32 /*key_rows*/, i32 query_rows) {
  return {0, query_rows};
}

}  // namespace jfa::kernel
