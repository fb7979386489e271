// A pairwise covering array over everything a forward call can vary: whichever two factors and whichever of
// their values, some case has both. Cases are grouped by kernel, of which there are few, since each has to be
// compiled.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/attention/harness.h"

namespace jfa::test {

/// What a kernel is specialised for, besides the target.
struct SuiteKernel {
  std::size_t dtype = 0;  // like all below an index into the factor's values
  std::size_t padded_dim = 0;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t alignment = 0;
  std::size_t groups = 0;
  bool broadcast_q = false;
};

/// Of a sequence within a case. With broadcast_q the query's length is the case's.
struct SuiteSequence {
  std::size_t query_length = 0;
  std::size_t key_length = 0;
};

/// kQueryLength and kKeyLength have one value a sequence, the others one a case.
enum Factor : std::size_t {
  kDtype,
  kHeadDim,
  kLeft,
  kRight,
  kAlignment,
  kGroups,
  kQueryMode,  // queries of every sequence's own, or broadcast_q with so many rows
  kKeyHeads,
  kQueryLayout,
  kKeyLayout,
  kValueLayout,
  kOutputLayout,
  kQueryOffsetWidth,  // none with broadcast_q
  kKeyOffsetWidth,
  kOutputOffset,  // absent, or of which width
  kScale,
  kLse,
  kSpareRows,  // rows of NaN behind the last offset
  kQueryLength,
  kKeyLength,
};
inline constexpr std::size_t kFactors = kKeyLength + 1;

enum Layout : std::size_t { kPacked, kFused, kHeadMajor, kPadded, kRowStrideZero };

inline constexpr std::array<DType, 2> kDtypes{DType::bf16, DType::fp16};
inline constexpr std::array<std::int64_t, 5> kPaddedDims{16, 32, 64, 96, 128};
inline constexpr std::array<std::int64_t, 7> kLengths{0, 1, 127, 128, 129, 257, 500};
/// Of a window; the last one is wider than every sequence.
inline constexpr std::array<std::optional<std::int64_t>, 6> kSides{std::nullopt, 0, 1, 31, 128, 512};
inline constexpr std::array<Alignment, 2> kAlignments{Alignment::top_left, Alignment::bottom_right};
inline constexpr std::array<std::int64_t, 5> kGroupSizes{1, 2, 3, 4, 8};
inline constexpr std::array<std::int64_t, 7> kBroadcastLengths{1, 30, 64, 100, 128, 192, 300};
inline constexpr std::array<std::optional<double>, 5> kScales{std::nullopt, 0.0, -0.3, 30.0, 1e-3};
inline constexpr std::int64_t kSpareRowCount = 5;

struct SuiteCase {
  std::size_t kernel = 0;
  std::array<std::size_t, kFactors> values{};  // but for kQueryLength and kKeyLength
  std::vector<SuiteSequence> sequences;
  std::uint64_t seed = 0;

  std::int64_t head_dim() const { return 8 * static_cast<std::int64_t>(values[kHeadDim] + 1); }
  bool broadcast_q() const { return values[kQueryMode] > 0; }
};

struct SuiteSize {
  std::size_t kernels = 40;           // at most
  std::size_t cases_of_a_kernel = 1;  // at least
  /// (query tile, key tile, head) triples of a case, at most.
  std::int64_t tiles = 32;
};

struct Suite {
  std::vector<SuiteKernel> kernels;
  std::vector<SuiteCase> cases;  // in the order of their kernels
};

/// Deterministic.
Suite make_suite(const SuiteSize& size);

/// Pairs of values of different factors that can meet, counted over the cases themselves, not as they were
/// made.
struct PairCount {
  std::size_t possible = 0;
  std::size_t covered = 0;
  std::string first_missing;  // in words
};
PairCount count_pairs(const Suite& suite);

/// Distinct kernels that the cases need.
std::size_t count_kernels(const Suite& suite);

/// "fp16 head_dim 72 left 31 ...", to find and repeat a case.
std::string describe(const SuiteCase& suite_case);

}  // namespace jfa::test
