// Every number of a kernel: tiles, stages, what lies where in shared and tensor memory, warps and their
// registers. The emitted source has them from here and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "generator/layout.h"
#include "generator/spec.h"
#include "generator/tuning.h"

namespace jfa {

/// A product of [m, k] and [k, n].
struct TileProduct {
  std::string name;
  int m = 0, n = 0, k = 0;
};

inline constexpr int kWarpThreads = 32;

/// Neighbouring warps with one task; roles follow one another in the order of an entry's list.
struct WarpRole {
  std::string type;  // its name in the emitted source: "Softmax"
  std::string task;
  int warps = 1;
  int registers = 0;  // a thread's, set by the role itself; 0: those that the compiler gives every thread
};

/// A ring whose slots are filled ahead.
struct StageCount {
  std::string name;
  int count = 0;
  int least = 1;  // with fewer its roles would wait for one another for ever
};

/// One __global__ function of the emitted source.
struct EntryPlan {
  /// kPersistent: as many CTAs as fit the device at once, each with the target's tensor memory. kStreaming:
  /// as many as fit, without.
  enum class Grid { kOneCta, kPersistent, kStreaming };
  std::string name;    // "jfa_forward"
  std::string config;  // name of its numbers in the emitted source: "Forward"
  Grid grid = Grid::kOneCta;
  int ctas = 1;     // that a multiprocessor must be able to hold at once
  int cluster = 1;  // CTAs that work together, placed side by side; the grid is a multiple of it
  std::vector<WarpRole> roles = {};
  std::vector<StageCount> stages = {};
  std::vector<Region> shared_map = {};          // dynamic shared memory, in bytes
  std::vector<Region> tensor_map = {};          // in columns
  std::vector<TileProduct> tile_products = {};  // what the tensor core does for one streamed tile
  int threads = 0;                              // of all roles
  int shared_bytes = 0;                         // of the map, with what its alignment may take
};

/// How one operand is cut for the tensor-map engine: boxes of box_dim columns, in a swizzle as wide.
struct OperandPlan {
  int box_dim = 64;         // columns of a box: 16, 32 or 64
  int swizzle_bytes = 128;  // 32, 64 or 128
};

/// When the keys of a forward's query tiles are cut into parts. Constants of a kernel, so that results do not
/// depend on the device.
struct SplitPlan {
  int items = 0;             // launches of at most so many (tile, head) items cut long key ranges,
  int long_items = 0;        // of at most so many if sequences are long on average:
  int long_key_tiles = 0;    // from so many key tiles on
  int parts = 0;             // about so many parts in all,
  int least_part_tiles = 0;  // of at least so many key tiles each
};

struct ForwardPlan {
  SplitPlan split;
  std::optional<int> polynomial_pairs;  // of 16 pairs of exponentials, where a target has the choice
  EntryPlan prepare;
  EntryPlan main;
  EntryPlan merge;  // launched only if WorkspaceMap::part_capacity is not 0
};

/// All gradients in one pass, of a query that the whole batch shares and whose heads of a group fit one tile.
struct BroadcastPlan {
  int query_tile = 128;        // rows
  int small_tile = 64;         // rows of the tile that is taken if they are enough
  int output_grad_rows = 128;  // of output gradient in flight
  EntryPlan main;
};

/// All gradients in one pass, of sequences whose keys fit one tile.
struct ShortPlan {
  EntryPlan main;
};

/// All gradients in one pass by clusters of two CTAs, each with a tile of keys and half of a query tile's
/// gradient: of a shared query whose heads of a group fit query_rows, or of sequences whose keys fit
/// key_rows.
struct TwoCtaPlan {
  int key_rows = 256;    // of the pair
  int query_rows = 256;  // of a tile of queries, half of its gradient in each CTA
  OperandPlan columns;   // how the right operands of gradient products are cut, of which each CTA has half
  bool on = false;       // for all that fits, even where another entry would serve; the knob two_cta is 2
  EntryPlan main;
};

struct BackwardPlan {
  int streamed_tile = 64;  // rows of the tiles that stream past the stationary ones, in keys and queries
  int chunk_rows = 64;     // the same in the entries in one pass
  // With broadcast_q, items of the query gradient, each of a part of the batch: so many that every
  // multiprocessor has work. Constants for the same reason as a forward's.
  int query_grad_items = 0;  // of the queries' entry, about
  int broadcast_items = 0;   // of the entry in one pass, that the workspace has room for
  EntryPlan prepare;
  EntryPlan delta;
  EntryPlan keys;                              // gradients of keys and values
  EntryPlan queries;                           // gradient of queries
  EntryPlan sum;                               // with broadcast_q: sums the parts of the query gradient
  std::optional<ShortPlan> short_keys;         // without broadcast_q: the other entries get the rest
  std::optional<BroadcastPlan> broadcast;      // with broadcast_q: instead of prepare, keys and queries
  std::optional<TwoCtaPlan> two_cta;           // with broadcast_q as broadcast, without as short_keys
  std::optional<EntryPlan> prepare_broadcast;  // with broadcast_q: for broadcast and two_cta, if any is there
};

/// A piece of the emitted source: a template, or with `columns` the text that is generated for wgmma products
/// of so many columns.
struct Fragment {
  std::string_view path;
  int columns = 0;

  Fragment(const char* path) : path(path) {}
  Fragment(std::string_view path, int columns) : path(path), columns(columns) {}
  bool operator==(const Fragment&) const = default;
};

struct KernelPlan {
  KernelSpec spec;
  Tuning tuning;                  // what differs from the defaults
  std::vector<ChosenKnob> knobs;  // all, with their values
  int query_tile = 128;           // rows
  int key_tile = 128;             // rows
  int item_stages = 2;            // work items that a CTA draws ahead
  int output_box_rows = 128;      // rows of one box of the output's tensor map
  OperandPlan operand;
  int tensor_memory_columns = 0;  // 0: the target has none
  std::variant<ForwardPlan, BackwardPlan> entries;
  std::vector<Fragment> fragments;  // in the order in which they are emitted

  const ForwardPlan& forward() const { return std::get<ForwardPlan>(entries); }
  const BackwardPlan& backward() const { return std::get<BackwardPlan>(entries); }
};

/// The plan of a specialisation. Errors: of the tuning, naming knob and value; kUnsupported naming the entry
/// and the number that is too large or too small for the target.
Result<KernelPlan> plan(const KernelSpec& spec, const Tuning& tuning = {});

/// What plan() checks last: that every entry fits the target and its maps make sense. For whoever changes a
/// plan by hand.
Status check_fit(const KernelPlan& plan);

/// All entries of the emitted source, in the order of their launch.
std::vector<const EntryPlan*> entries_of(const KernelPlan& plan);

/// "forward-bf16-d128-sm_100f", and what is unusual about its tuning.
std::string name(const KernelPlan& plan);

/// Cycles that the tensor core of one multiprocessor takes at its full 16-bit rate for tile_products: the sum
/// of 2 m n k over the floating-point operations of a cycle; too small an m counts as the target's least.
int tensor_core_cycles(const EntryPlan& entry, Target target);

/// The plan as JSON, for `jfa emit --format plan`.
std::string describe(const KernelPlan& plan);

}  // namespace jfa
