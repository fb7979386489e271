// Offsets, which only a prepare entry reads: lengths are never needed on the host.
namespace jfa::kernel {

__device__ inline i64 load_offset(const void* offsets, bool is_64, i32 index) {
  return is_64 ? static_cast<const i64*>(offsets)[index] : static_cast<const i32*>(offsets)[index];
}

// Offsets as a verdict: `name` and index in one number, so that the smallest is the first bad one.
__device__ inline void report_bad(u64* first_bad, OffsetName name, i32 index) {
  atomicMin(first_bad, static_cast<u64>(name) << 32 | static_cast<u32>(index));
}

// Offsets must not be negative, never decrease, and stay within the tensor. Rows before the first and behind
// the last one are nobody's.
__device__ inline void check_offsets(u64* first_bad, OffsetName name, const void* offsets, bool is_64,
                                     i32 batch, i32 rows) {
  for (i32 i = threadIdx.x; i <= batch; i += blockDim.x) {
    const i64 value = load_offset(offsets, is_64, i);
    const i64 least = i == 0 ? 0 : load_offset(offsets, is_64, i - 1);
    if (value < least || value > rows) report_bad(first_bad, name, i);
  }
}

struct Sequence {
  i32 query_row, query_rows, key_row, key_rows, output_row;
  i32 query_place;  // of the first query among the keys
};

__device__ inline Sequence load_sequence(const PrepareArguments& a, i32 b) {
  Sequence s;
  s.key_row = static_cast<i32>(load_offset(a.key_offset, a.key_offset_is_64, b));
  s.key_rows = static_cast<i32>(load_offset(a.key_offset, a.key_offset_is_64, b + 1)) - s.key_row;
  if constexpr (config::kBroadcastQuery) {
    s.query_row = 0;
    s.query_rows = a.query_rows;
    s.output_row = b * a.query_rows;
  } else {
    s.query_row = static_cast<i32>(load_offset(a.query_offset, a.query_offset_is_64, b));
    s.query_rows = static_cast<i32>(load_offset(a.query_offset, a.query_offset_is_64, b + 1)) - s.query_row;
    s.output_row = s.query_row;
  }
  if (a.output_offset != nullptr)
    s.output_row = static_cast<i32>(load_offset(a.output_offset, a.output_offset_is_64, b));
  s.query_place = kAlignedAtEnds ? s.key_rows - s.query_rows : 0;
  return s;
}

// Rows from the first sequence's first to the last one's last; those outside are nobody's.
struct OwnedRows {
  i32 begin, end;
};

__device__ inline OwnedRows owned_rows(const void* offsets, bool is_64, i32 batch) {
  return {static_cast<i32>(load_offset(offsets, is_64, 0)),
          static_cast<i32>(load_offset(offsets, is_64, batch))};
}

// Sequence b's output rows must hold its query rows without reaching into the next sequence's.
__device__ inline void check_output_offsets(u64* first_bad, const PrepareArguments& a) {
  for (i32 i = threadIdx.x; i <= a.batch; i += blockDim.x) {
    const i64 value = load_offset(a.output_offset, a.output_offset_is_64, i);
    i64 least = 0;
    if (i > 0) {
      least = load_offset(a.output_offset, a.output_offset_is_64, i - 1);
      if constexpr (config::kBroadcastQuery) {
        least += a.query_rows;
      } else {
        least += load_offset(a.query_offset, a.query_offset_is_64, i) -
                 load_offset(a.query_offset, a.query_offset_is_64, i - 1);
      }
    }
    if (value < least || value > a.output_rows) report_bad(first_bad, kOutputOffset, i);
  }
}

// Several streams may share a report, but no two write one: the host, which takes what is there, only touches
// it then.
__device__ inline void tell_host(OffsetReport* report, OffsetName name, i32 index, i64 value) {
  if (ld_relaxed_sys(&report->state) != kNoReport) return;
  if (atomicCAS(&report->state, u32{kNoReport}, u32{kReportBegun}) != kNoReport) return;
  report->name = name;
  report->index = index;
  report->value = value;
  st_release_sys(&report->state, kReported);
}

// Checks all offsets by the whole CTA. On a bad one the header and the report say which, the work lists are
// empty, and the result is false. first_bad: shared memory.
__device__ inline bool offsets_are_good(const PrepareArguments& a, u64* first_bad) {
  constexpr u64 kNoneBad = ~u64{0};
  if (threadIdx.x == 0) {
    *first_bad = kNoneBad;
    *a.header = {};
  }
  __syncthreads();
  if constexpr (!config::kBroadcastQuery) {
    check_offsets(first_bad, kQueryOffset, a.query_offset, a.query_offset_is_64, a.batch, a.query_rows);
  }
  check_offsets(first_bad, kKeyOffset, a.key_offset, a.key_offset_is_64, a.batch, a.key_rows);
  if (a.output_offset != nullptr) check_output_offsets(first_bad, a);
  __syncthreads();
  if (*first_bad == kNoneBad) return true;
  if (threadIdx.x == 0) {
    const OffsetName name = static_cast<OffsetName>(*first_bad >> 32);
    const i32 index = static_cast<i32>(*first_bad);
    const void* offsets = name == kQueryOffset ? a.query_offset
                          : name == kKeyOffset ? a.key_offset
                                               : a.output_offset;
    const bool is_64 = name == kQueryOffset ? a.query_offset_is_64
                       : name == kKeyOffset ? a.key_offset_is_64
                                            : a.output_offset_is_64;
    a.header->bad_offset_name = name;
    a.header->bad_offset_index = index;
    const i64 value = load_offset(offsets, is_64, index);
    a.header->bad_offset_value = value;
    if (a.report != nullptr) tell_host(a.report, name, index, value);
  }
  return false;
}

}  // namespace jfa::kernel
