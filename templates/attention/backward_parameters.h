// What the host hands to the entries of a backward, beyond parameters.h; the same rules hold.
#pragma once

#include "templates/attention/parameters.h"

namespace jfa::kernel {

// Rows of one key tile and the queries that see them; for the entry of short sequences all queries, and also
// tiles of either side alone.
struct alignas(16) KeyTile {
  i32 key_row;         // first row in the key tensor
  i32 rows;            // 1 … tile rows; 0: queries without keys
  i32 key_position;    // index of the first row within its sequence
  i32 query_row;       // first query that sees any row, in the query tensor
  i32 output_row;      // the same query in the output, LSE and delta tensors
  i32 query_position;  // the same query's place among the keys of its sequence
  i32 query_count;     // queries from there that see some row of the tile; may be 0
  i32 reserved;
};

// Query tiles that share their query rows: one, or with broadcast_q the tile of every sequence of a part.
struct alignas(16) QueryRun {
  i32 first_tile;  // of the query tiles
  i32 tile_step;
  i32 tiles;
  i32 part;  // negative: the gradient is complete; else it is one of the parts that are summed in order
};

// One sequence's keys, for the entry whose queries the whole batch shares; in the batch's order, those
// without keys left out.
struct alignas(16) KeySequence {
  i32 key_row;     // first row in the key tensor
  i32 key_rows;    // 1 …
  i32 output_row;  // of the shared queries in the output, LSE and delta tensors; negative: no sequence
  i32 first_tile;  // place of the first key tile in the list of all key tiles
};

// Consecutive key tiles of one sequence that belong to the same part of the list of all key tiles.
struct alignas(16) KeyRun {
  i32 key_row;       // first row in the key tensor
  i32 rows;          // 0: the part has no tiles
  i32 key_position;  // index of the first row within its sequence
  i32 output_row;    // as in KeySequence
  i32 part;
  i32 first, last;  // of its part: 0 or 1
  i32 reserved;
};

struct BackwardPrepareArguments {
  PrepareArguments common;
  KeyTile* key_tiles;
  QueryRun* query_runs;
  KeyTile* short_tiles;    // of sequences whose keys fit one tile, with all their queries
  KeyTile* two_cta_tiles;  // of sequences for the entry of CTA pairs, with all their keys and queries
  i32 query_parts;         // with broadcast_q: parts of the batch
  // Sequences of so many keys go to that entry, those outside or without queries do not; most 0: none.
  i32 two_cta_least_keys, two_cta_most_keys;
  i32 reserved;
};

struct BroadcastPrepareArguments {
  PrepareArguments common;
  KeySequence* key_sequences;
  i32 tile_rows;  // of the key tiles that are listed: one CTA's or a pair's
  i32 reserved;
};

struct DeltaArguments {
  const void* output;       // [output_rows, query_heads, head_dim], 16-bit elements; strides in elements
  const void* output_grad;  // the same shape
  void*
      packed_output_grad;  // [output_rows, query_heads, head_dim] packed, or null: output_grad is fit for TMA
  const float* lse_grad;   // [query_heads, output_rows] or null
  float* delta;            // [query_heads, output_rows]
  i64 output_row_stride;
  i64 output_head_stride;
  i64 output_grad_row_stride;
  i64 output_grad_head_stride;
  i64 output_grad_dim_stride;
  const WorkspaceHeader* header;
  const QueryTile* query_tiles;  // the rows that are wanted: header->delta_tile_count tiles; null: all rows
  i32 query_heads;
  i32 output_rows;
  i32 head_dim;
  i32 reserved;
};

struct BackwardArguments {
  WorkspaceHeader* header;
  const KeyTile* key_tiles;
  const QueryTile* query_tiles;
  const QueryRun* query_runs;
  const float* lse;           // [query_heads, output_rows], natural logarithm
  const float* delta;         // [query_heads, output_rows]
  float* partial_query_grad;  // [part, query_heads, partial_rows, padded_dim], with broadcast_q
  float scale;
  float scale_log2;  // scale * log2(e)
  i32 query_heads;
  i32 output_rows;
  i32 partial_rows;  // query rows rounded up to whole tiles
  i32 reserved;
};

struct ShortArguments {
  WorkspaceHeader* header;
  const KeyTile* tiles;
  const float* lse;       // [query_heads, output_rows], natural logarithm
  const float* lse_grad;  // [query_heads, output_rows] or null
  float scale;
  float scale_log2;  // scale * log2(e)
  i32 query_heads;
  i32 output_rows;
};

struct BroadcastArguments {
  WorkspaceHeader* header;
  const KeySequence* key_sequences;
  const float* lse;           // [query_heads, output_rows], natural logarithm
  const float* delta;         // [query_heads, output_rows]
  float* partial_query_grad;  // [part, query_heads, slot_rows, padded_dim]
  float scale;
  float scale_log2;  // scale * log2(e)
  i32 query_heads;
  i32 query_rows;  // of the shared query
  i32 output_rows;
  i32 slot_rows;  // query_rows rounded up to 8: what a head takes of the tile that its group shares
  i32 parts;      // of the list of all key tiles
  i32 reserved;
};

// Of the entry of CTA pairs; what only one of its two forms needs is null or 0 in the other.
struct TwoCtaArguments {
  WorkspaceHeader* header;
  const KeySequence* key_sequences;  // with broadcast_q
  const KeyTile* tiles;              // without
  const float* lse;                  // [query_heads, output_rows], natural logarithm
  const float* delta;                // [query_heads, output_rows]
  float* partial_query_grad;         // with broadcast_q: [part, query_heads, slot_rows, padded_dim]
  void* query_grad;                  // without: 16-bit elements, as the next two; strides in elements
  void* key_grad;
  void* value_grad;
  i64 query_grad_row_stride, query_grad_head_stride;
  i64 key_grad_row_stride, key_grad_head_stride;
  i64 value_grad_row_stride, value_grad_head_stride;
  float scale;
  float scale_log2;  // scale * log2(e)
  i32 query_heads;
  i32 query_rows;  // of the query tensor: of the shared query with broadcast_q
  i32 output_rows;
  i32 slot_rows;  // with broadcast_q: query_rows rounded up to 8
  i32 parts;      // with broadcast_q: of the list of all key tiles, a pair's each
  i32 box_rows;   // of the tensor maps of the query's side: 8, 16 or 32; no box has rows of two slots
  i32 head_dim;
  i32 reserved;
};

struct SumArguments {
  const WorkspaceHeader* header;
  const float* partial_query_grad;
  void* query_grad;  // [query_rows, query_heads, head_dim], 16-bit elements; strides in elements
  i64 row_stride;
  i64 head_stride;
  i32 parts;
  i32 query_heads;
  i32 query_rows;
  i32 partial_rows;
  i32 head_dim;
  i32 reserved;
};

}  // namespace jfa::kernel
