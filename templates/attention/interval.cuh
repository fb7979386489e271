// What a row sees of the other side: a short list of intervals, today of one.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// What one row sees, a query of the keys or a key of the queries. Kernels ask of it what they need, so that a
// list of more stays in here.
struct Intervals {
  Interval only;

  __device__ static inline Intervals none() { return {{0, 0}}; }
  // The same, counted from `first` on.
  __device__ inline Intervals from(i32 first) const { return {{only.begin - first, only.end - first}}; }
  __device__ inline bool contains(i32 i) const { return i >= only.begin && i < only.end; }
  // Whether all of [begin, end) is in one of the intervals.
  __device__ inline bool all(i32 begin, i32 end) const { return only.begin <= begin && only.end >= end; }
  __device__ inline Interval longest() const { return only; }
};

}  // namespace jfa::kernel
