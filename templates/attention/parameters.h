// What the host hands to the kernels. One text for both sides: the runtime includes it, and the generator
// emits it. Hence: no include, no host type, fixed-width fields by their plain C++ names.
#pragma once

namespace jfa::kernel {

using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// A CUtensorMap: opaque, made by cuTensorMapEncodeTiled.
struct alignas(128) TensorMap {
  u64 opaque[16];
};

// Rows of one query tile and the keys they see. The work list is a list of these; every head runs it.
struct alignas(16) QueryTile {
  i32 query_row;       // first row in the query tensor
  i32 output_row;      // first row in the output and LSE tensors
  i32 rows;            // 1 … tile rows
  i32 query_position;  // place of the first row among the keys of its sequence (interval_window.cuh)
  i32 key_row;         // first key any row sees, in the key tensor
  i32 key_position;    // the same key's index within its sequence
  i32 key_count;       // keys from there that some row of the tile sees; may be 0
  i32 part;            // negative: the whole result; else the partial result of these keys only
};

// The softmax of a part of a row's keys, in units of log2: the sum of 2^(score - reference).
struct alignas(8) PartialState {
  float reference, sum;
};

// A query tile whose keys were cut into parts, for the merge entry.
struct alignas(16) SplitTile {
  i32 output_row;
  i32 rows;
  i32 first_part;
  i32 parts;
};

// The head of the workspace. The prepare entry writes it, status() reads it.
struct WorkspaceHeader {
  i32 bad_offset_name;     // 0 none, else OffsetName
  i32 tile_count;          // query tiles in the list; 0 after a bad offset
  i64 bad_offset_index;    // first bad index
  i64 bad_offset_value;    // the value found there
  u32 next_item;           // queue of (tile, head) items
  i32 split_count;         // query tiles that the merge entry finishes
  i32 key_tile_count;      // backward: tiles of the key-stationary entry
  u32 next_key_item;       // backward: queue of (key tile, key head) items
  i32 query_run_count;     // backward: runs of the query-stationary entry; next_item is their queue
  i32 key_sequence_count;  // backward of a shared query in one pass: sequences with keys, key_tile_count
                           // tiles
  i32 short_tile_count;    // backward: tiles of the entry for short sequences
  u32 next_short_item;     // backward: queue of its (tile, key head) items
  i32 longest_key_rows;    // backward of a shared query in one pass: of all sequences
  i32 two_cta_tile_count;  // backward: tiles of the entry of CTA pairs
  i32 delta_tile_count;    // backward: query tiles whose rows need delta, those of the runs first
  u32 reserved[15];
};
static_assert(sizeof(WorkspaceHeader) == 128);

enum OffsetName : i32 { kNoOffset = 0, kQueryOffset = 1, kKeyOffset = 2, kOutputOffset = 3 };

// What the host hears of a bad offset without asking: one a stream, in host memory that the device writes.
// The first one stays until the host has taken it.
struct OffsetReport {
  u32 state;  // a ReportState
  i32 name;   // OffsetName
  i64 index;
  i64 value;
};

enum ReportState : u32 { kNoReport = 0, kReportBegun = 1, kReported = 2, kReportTaken = 3 };

struct PrepareArguments {
  const void* query_offset;  // null with broadcast_q
  const void* key_offset;
  const void* output_offset;  // null: the query's offsets, or b * query_rows with broadcast_q
  i32 query_offset_is_64;
  i32 key_offset_is_64;
  i32 output_offset_is_64;
  i32 batch;
  i32 query_rows;   // rows of the query tensor (with broadcast_q: q_len)
  i32 key_rows;     // rows of the key tensor
  i32 output_rows;  // rows of the output tensor
  i32 query_heads;
  i32 part_capacity;  // 0: keys are never cut into parts
  i32 reserved;
  WorkspaceHeader* header;
  QueryTile* tiles;
  SplitTile* split_tiles;
  OffsetReport* report;  // null: nobody listens
};

struct ForwardArguments {
  WorkspaceHeader* header;
  const QueryTile* tiles;
  float* lse;                    // [query_heads, output_rows] or null
  float* partial_output;         // [part, query_heads, tile rows, padded_dim]
  PartialState* partial_states;  // [part, query_heads, tile rows]
  float scale_log2;              // scale * log2(e)
  i32 query_heads;
  i32 output_rows;
  i32 reserved;
};

struct MergeArguments {
  const WorkspaceHeader* header;
  const SplitTile* split_tiles;
  const float* partial_output;
  const PartialState* partial_states;
  void* output;            // [output_rows, query_heads, head_dim], 16-bit elements
  i64 output_row_stride;   // in elements
  i64 output_head_stride;  // in elements
  float* lse;              // [query_heads, output_rows] or null
  i32 query_heads;
  i32 output_rows;
  i32 head_dim;
  i32 reserved;
};

}  // namespace jfa::kernel
