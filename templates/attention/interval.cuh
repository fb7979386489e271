// What a row sees of the other side: a short list of intervals, today of one.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// What one row sees, a query of the keys or a key of the queries. Kernels ask of it what they need, so that a
// list of more stays in here.
struct Intervals {
  i32 begin, end;  // of the only one

  __device__ static inline Intervals none() { return {0, 0}; }
  // The same, counted from `first` on.
  __device__ inline Intervals from(const i32& first) const { return {begin - first, end - first}; }
  __device__ inline bool contains(const i32& i) const { return i >= begin && i < end; }
  __device__ inline bool lacks(const i32& i) const { return i < begin || i >= end; }
  // Of all in [first, last).
  __device__ inline bool contains_all(i32 first, i32 last) const { return begin <= first && end >= last; }
  __device__ inline bool lacks_any(i32 first, i32 last) const { return begin > first || end < last; }
  __device__ inline Interval longest() const { return {begin, end}; }
};

}  // namespace jfa::kernel
