// The lists that a backward's prepare entries make for clusters of two CTAs, on the simulator.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/launcher.h"
#include "runtime/tuned.h"
#include "templates/attention/backward_parameters.h"
#include "tests/reference/problems.h"

namespace jfa::test {
namespace {

using kernel::KeySequence;
using kernel::KeyTile;
using kernel::QueryTile;
using Lengths = std::vector<std::int64_t>;

constexpr int kTileRows = 128;

const LoadedKernels& kernels(Device& device, bool broadcast_q, const Visibility& visibility = {}) {
  KernelSpec spec;
  spec.visibility = visibility;
  spec.pass = Pass::backward;
  spec.padded_dim = 32;
  spec.broadcast_q = broadcast_q;
  spec.target = device.impl().target;
  const Result<const LoadedKernels*> found = resolve(device.impl(), {spec});
  REQUIRE_MESSAGE(found.ok(), found.status().message(), found.status().detail());
  return **found;
}

template <class Element>
Element* allocated(Device& device, std::size_t count) {
  const std::uint64_t address = device.allocate(count * sizeof(Element)).value();
  device.fill(address, 0xff, count * sizeof(Element)).or_throw();
  return reinterpret_cast<Element*>(address);
}

template <class Element>
std::vector<Element> downloaded(Device& device, const Element* from, std::size_t count) {
  std::vector<Element> list(count);
  device.download(list.data(), reinterpret_cast<std::uint64_t>(from), count * sizeof(Element)).or_throw();
  return list;
}

const void* uploaded(Device& device, const std::vector<std::int64_t>& values) {
  auto* to = allocated<std::int64_t>(device, values.size());
  device.upload(reinterpret_cast<std::uint64_t>(to), values.data(), values.size() * sizeof(std::int64_t))
      .or_throw();
  return to;
}

// What both prepare entries read; the rows behind the last sequence are nobody's.
kernel::PrepareArguments offsets(Device& device, const Lengths& query_lengths, const Lengths& key_lengths) {
  kernel::PrepareArguments arguments{};
  const auto total = [](const Lengths& lengths) {
    return static_cast<int>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  };
  arguments.query_offset = uploaded(device, offsets_of(query_lengths));
  arguments.key_offset = uploaded(device, offsets_of(key_lengths));
  arguments.query_offset_is_64 = arguments.key_offset_is_64 = 1;
  arguments.batch = static_cast<int>(key_lengths.size());
  arguments.query_rows = arguments.output_rows = total(query_lengths) + 10;
  arguments.key_rows = total(key_lengths) + 10;
  arguments.query_heads = 1;
  arguments.header = allocated<kernel::WorkspaceHeader>(device, 1);
  return arguments;
}

template <class Arguments>
void launch(Device& device, const LoadedKernels& loaded, const char* entry, Arguments& arguments) {
  const ContextGuard guard(device.impl().driver, device.impl().context);
  void* pointers[] = {&arguments};
  const Launcher launcher(device.impl(), loaded, nullptr, nullptr);
  launcher.launch(loaded.entry(entry), 1, pointers).or_throw();
  device.synchronize().or_throw();
}

struct Lists {
  kernel::WorkspaceHeader header;
  std::vector<KeyTile> key_tiles, short_tiles, two_cta_tiles;
  std::vector<QueryTile> delta_tiles;
};

// With sequences of [least, most] keys for clusters of two CTAs.
Lists lists(const Lengths& query_lengths, const Lengths& key_lengths, int least, int most,
            const Visibility& visibility = {}) {
  Device device = Device::open("sim:sm_100a").value();
  constexpr std::size_t kRoom = 64;
  kernel::BackwardPrepareArguments arguments{};
  arguments.common = offsets(device, query_lengths, key_lengths);
  arguments.common.tiles = allocated<QueryTile>(device, kRoom);
  arguments.key_tiles = allocated<KeyTile>(device, kRoom);
  arguments.query_runs = allocated<kernel::QueryRun>(device, kRoom);
  arguments.short_tiles = allocated<KeyTile>(device, kRoom);
  arguments.two_cta_tiles = allocated<KeyTile>(device, kRoom);
  arguments.two_cta_least_keys = least;
  arguments.two_cta_most_keys = most;
  launch(device, kernels(device, false, visibility), "jfa_prepare_backward", arguments);
  Lists lists;
  lists.header = downloaded(device, arguments.common.header, 1)[0];
  const auto list = [&](const auto* from, int count) {
    return downloaded(device, from, static_cast<std::size_t>(count));
  };
  lists.key_tiles = list(arguments.key_tiles, lists.header.key_tile_count);
  lists.short_tiles = list(arguments.short_tiles, lists.header.short_tile_count);
  lists.two_cta_tiles = list(arguments.two_cta_tiles, lists.header.two_cta_tile_count);
  lists.delta_tiles = list(arguments.common.tiles, lists.header.delta_tile_count);
  return lists;
}

// How often each output row is in a tile of [first, last).
std::vector<int> covered(const std::vector<QueryTile>& tiles, int first, int last, std::int64_t rows) {
  std::vector<int> times(static_cast<std::size_t>(rows));
  for (int i = first; i < last; ++i)
    for (int row = 0; row < tiles[static_cast<std::size_t>(i)].rows; ++row)
      ++times[static_cast<std::size_t>(tiles[static_cast<std::size_t>(i)].output_row + row)];
  return times;
}

// The lists of sequences of up to 600 queries and 300 keys: every sequence is on one, by its number of keys.
void check_lists(int least, int most) {
  CAPTURE(least);
  const Lengths queries = {5, 600, 40, 0, 20, 90, 130, 7, 300, 140};
  const Lengths keys = {129, 256, 128, 200, 257, 0, 300, 1, 200, 255};
  const std::vector<std::int64_t> query_rows = offsets_of(queries), key_rows = offsets_of(keys);
  const Lists found = lists(queries, keys, least, most);
  std::size_t pairs = 0, short_ones = 0;
  // 10 rows behind the last sequence on either side, which go to the short list, are delta's of no one.
  std::vector<int> wanted(static_cast<std::size_t>(query_rows.back() + 10)), runs = wanted;
  for (std::size_t b = 0; b < keys.size(); ++b) {
    CAPTURE(b);
    const auto is_it = [&](const KeyTile& tile) {
      return tile.key_row == key_rows[b] && tile.rows == keys[b] && tile.key_position == 0 &&
             tile.query_row == query_rows[b] && tile.output_row == query_rows[b] &&
             tile.query_position == 0 && tile.query_count == queries[b];
    };
    const bool both = queries[b] > 0 && keys[b] > 0;
    const bool is_pair = both && keys[b] >= least && keys[b] <= most;
    const bool is_short = both && !is_pair && keys[b] <= kTileRows;
    CHECK(std::ranges::count_if(found.two_cta_tiles, is_it) == (is_pair ? 1 : 0));
    CHECK(std::ranges::count_if(found.short_tiles, is_it) == (is_short ? 1 : 0));
    pairs += is_pair;
    short_ones += is_short;
    const bool is_run = both && !is_pair && !is_short;
    for (std::int64_t row = query_rows[b]; row < query_rows[b + 1]; ++row) {
      wanted[static_cast<std::size_t>(row)] = is_pair || is_run;
      runs[static_cast<std::size_t>(row)] = is_run;
    }
  }
  CHECK(found.two_cta_tiles.size() == pairs);
  // Beside sequences: 200 keys without queries, 90 queries without keys, and nobody's rows.
  CHECK(found.short_tiles.size() == short_ones + 2 + 1 + 1 + 1);
  CHECK(std::ranges::is_sorted(found.two_cta_tiles, std::ranges::greater(),
                               [](const KeyTile& tile) { return (tile.query_count + 15) / 16; }));
  // Of the runs first, so that query tiles and runs have the same places; then of the pairs.
  const std::int64_t rows = query_rows.back() + 10;
  CHECK(covered(found.delta_tiles, 0, found.header.query_run_count, rows) == runs);
  CHECK(covered(found.delta_tiles, 0, found.header.delta_tile_count, rows) == wanted);
}

TEST_CASE("sequences go to the list of pairs by the number of their keys, and their queries to delta's") {
  check_lists(129, 256);
  check_lists(1, 256);
  check_lists(1, 0);  // none
}

// Of both lists by length: (first row, rows, first row of the other side, rows there).
using Range = std::array<int, 4>;
std::vector<Range> key_ranges(const Lists& lists) {
  std::vector<Range> ranges;
  for (const KeyTile& tile : lists.key_tiles)
    ranges.push_back({tile.key_row, tile.rows, tile.query_row, tile.query_count});
  return ranges;
}
std::vector<Range> query_ranges(const Lists& lists) {
  std::vector<Range> ranges;
  for (const QueryTile& tile : lists.delta_tiles)
    ranges.push_back({tile.query_row, tile.rows, tile.key_row, tile.key_count});
  return ranges;
}

TEST_CASE("of a causal sequence the tiles that see most come first, and none has what it does not see") {
  const Lists found = lists({300}, {400}, 1, 0, {std::nullopt, 0});
  CHECK(query_ranges(found) == std::vector<Range>{{256, 44, 0, 300}, {128, 128, 0, 256}, {0, 128, 0, 128}});
  CHECK(key_ranges(found) ==
        std::vector<Range>{{0, 128, 0, 300}, {128, 128, 128, 172}, {256, 128, 256, 44}, {384, 16, 384, 0}});
}

TEST_CASE("rows that see nothing before ends that are aligned are sequences of their own") {
  // 280 queries stand before the first key less 20; 230 keys before the first query's place less 30.
  const Lists found = lists({500, 140}, {200, 400}, 1, 0, {30, 20, Alignment::bottom_right});
  CHECK(std::ranges::count_if(found.short_tiles, [](const KeyTile& tile) { return tile.rows == 0; }) ==
        3 + 1);
  std::vector<Range> keys = key_ranges(found), queries = query_ranges(found);
  std::ranges::sort(keys);
  std::ranges::sort(queries);
  // The sequences that are left: 220 queries from row 280 on, the first at place -20, and all 200 keys; 140
  // queries from row 500 on, the first at place 30, and 170 keys from row 200 + 230 on.
  CHECK(keys ==
        std::vector<Range>{
            {0, 128, 280, 178}, {128, 72, 280 + 128, 92}, {430, 128, 500, 128}, {558, 42, 500 + 78, 62}});
  CHECK(queries ==
        std::vector<Range>{
            {280, 128, 0, 128}, {408, 92, 78, 122}, {500, 128, 430, 170}, {628, 12, 430 + 128, 42}});
}

TEST_CASE("a shared query's key tiles are listed by one CTA's rows, or a pair's") {
  Device device = Device::open("sim:sm_100a").value();
  const Lengths keys = {100, 0, 256, 257, 513};
  for (const int tile_rows : {128, 256}) {
    CAPTURE(tile_rows);
    kernel::BroadcastPrepareArguments arguments{};
    arguments.common = offsets(device, {}, keys);
    arguments.common.output_rows = 1000;
    arguments.key_sequences = allocated<KeySequence>(device, keys.size() + 2);
    arguments.tile_rows = tile_rows;
    launch(device, kernels(device, true), "jfa_prepare_broadcast", arguments);
    const kernel::WorkspaceHeader header = downloaded(device, arguments.common.header, 1)[0];
    REQUIRE(header.key_sequence_count == 5);  // the one without keys is left out; nobody's rows come last
    int tiles = 0, key_row = 0;
    std::size_t b = 0;
    for (const KeySequence& s : downloaded(device, arguments.key_sequences, 5)) {
      const int rows[] = {100, 256, 257, 513, 10};
      CHECK(s.key_rows == rows[b]);
      CHECK(s.key_row == key_row);
      CHECK(s.first_tile == tiles);
      tiles += (s.key_rows + tile_rows - 1) / tile_rows;
      key_row += rows[b++];
    }
    CHECK(header.key_tile_count == tiles);
    CHECK(tiles == (tile_rows == 128 ? 1 + 2 + 3 + 5 + 1 : 1 + 1 + 2 + 3 + 1));
    CHECK(header.longest_key_rows == 513);
  }
}

}  // namespace
}  // namespace jfa::test
