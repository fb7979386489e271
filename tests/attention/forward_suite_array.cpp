#include "tests/attention/forward_suite_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace jfa::test {
namespace {

constexpr std::size_t kUnset = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostValues = 16;
constexpr std::int64_t kTileRows = 128;
constexpr std::size_t kMostSequences = 5;
constexpr int kCandidates = 40;  // of which the best becomes the next case

constexpr std::array<const char*, kFactors> kNames{
    "dtype",        "head_dim",      "left",         "right",        "alignment",
    "groups",       "query_mode",    "key_heads",    "query_layout", "key_layout",
    "value_layout", "output_layout", "query_offset", "key_offset",   "output_offset",
    "scale",        "lse",           "spare_rows",   "query_length", "key_length"};
constexpr std::array<std::size_t, kFactors> kValueCounts{kDtypes.size(),
                                                         16,
                                                         kSides.size(),
                                                         kSides.size(),
                                                         kAlignments.size(),
                                                         kGroupSizes.size(),
                                                         kBroadcastLengths.size() + 1,
                                                         2,
                                                         5,
                                                         5,
                                                         5,
                                                         4,
                                                         2,
                                                         2,
                                                         3,
                                                         kScales.size(),
                                                         2,
                                                         2,
                                                         kLengths.size(),
                                                         kLengths.size()};
// Factors that neither the kernel nor the sequences decide.
constexpr std::array kFreeFactors{
    kKeyHeads,       kQueryLayout,  kKeyLayout, kValueLayout, kOutputLayout, kQueryOffsetWidth,
    kKeyOffsetWidth, kOutputOffset, kScale,     kLse,         kSpareRows};

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(bits_.bits() % count); }
  template <class List>
  void shuffle(List& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  Normal bits_;
};

std::size_t padded_of(std::size_t head_dim) {
  const auto dim = 8 * static_cast<std::int64_t>(head_dim + 1);
  std::size_t padded = 0;
  while (kPaddedDims[padded] < dim) ++padded;
  return padded;
}

struct Pair {
  std::size_t factor_a, value_a, factor_b, value_b;
};

// Whether two values can meet at all.
bool possible(const Pair& pair) {
  const auto has = [&](Factor factor) { return pair.factor_a == factor || pair.factor_b == factor; };
  const bool broadcast =
      (pair.factor_a == kQueryMode && pair.value_a > 0) || (pair.factor_b == kQueryMode && pair.value_b > 0);
  const bool at_ends =
      (pair.factor_a == kAlignment && pair.value_a > 0) || (pair.factor_b == kAlignment && pair.value_b > 0);
  return !(broadcast && (has(kQueryLength) || has(kQueryOffsetWidth) || at_ends));
}

// Which pairs have been met.
class PairTable {
 public:
  PairTable() : met_(kFactors * kFactors * kMostValues * kMostValues) {}

  bool is_new(std::size_t a, std::size_t u, std::size_t b, std::size_t v) const {
    return !met_[a < b ? index(a, u, b, v) : index(b, v, a, u)];
  }
  void meet(std::size_t a, std::size_t u, std::size_t b, std::size_t v) {
    met_[a < b ? index(a, u, b, v) : index(b, v, a, u)] = true;
  }
  template <class Visit>
  static void for_each_possible(const Visit& visit) {
    for (std::size_t a = 0; a < kFactors; ++a) {
      for (std::size_t b = a + 1; b < kFactors; ++b) {
        for (std::size_t u = 0; u < kValueCounts[a]; ++u) {
          for (std::size_t v = 0; v < kValueCounts[b]; ++v) {
            if (const Pair pair{a, u, b, v}; possible(pair)) visit(pair);
          }
        }
      }
    }
  }
  std::vector<Pair> missing() const {
    std::vector<Pair> pairs;
    for_each_possible([&](const Pair& p) {
      if (is_new(p.factor_a, p.value_a, p.factor_b, p.value_b)) pairs.push_back(p);
    });
    return pairs;
  }

 private:
  static std::size_t index(std::size_t a, std::size_t u, std::size_t b, std::size_t v) {
    return ((a * kFactors + b) * kMostValues + u) * kMostValues + v;
  }
  std::vector<bool> met_;
};

bool applies(const SuiteCase& c, std::size_t factor) {
  return c.values[factor] != kUnset && factor != kQueryLength && factor != kKeyLength &&
         !(factor == kQueryOffsetWidth && c.broadcast_q());
}

std::int64_t query_rows(const SuiteCase& c, const SuiteSequence& s) {
  return c.broadcast_q() ? kBroadcastLengths[c.values[kQueryMode] - 1] : kLengths[s.query_length];
}

// Enough queries and keys that a wrong tile, stride, mask or scale would show.
bool is_telling(const SuiteCase& c, const SuiteSequence& s) {
  constexpr std::int64_t kMany = 127;
  return (c.broadcast_q() || query_rows(c, s) >= kMany) && kLengths[s.key_length] >= kMany;
}
bool is_telling(const SuiteCase& c) {
  return std::any_of(c.sequences.begin(), c.sequences.end(),
                     [&](const SuiteSequence& s) { return is_telling(c, s); });
}

// Calls visit(factor, value) for the lengths of a sequence that matter: how many keys there are shows only
// with a query, and the other way round.
template <class Visit>
void for_each_length(const SuiteCase& c, const SuiteSequence& s, const Visit& visit) {
  const bool has_query = query_rows(c, s) > 0;
  const bool has_key = kLengths[s.key_length] > 0;
  if (has_query || !has_key) visit(kKeyLength, s.key_length);
  if (!c.broadcast_q() && (has_key || !has_query)) visit(kQueryLength, s.query_length);
}

// Calls visit(a, u, b, v) for every pair of the case, some of them twice.
template <class Visit>
void for_each_pair(const SuiteCase& c, const Visit& visit) {
  for (const SuiteSequence& s : c.sequences) {
    for_each_length(c, s, [&](Factor length, std::size_t value) {
      for (std::size_t a = 0; a < kQueryLength; ++a) {
        if (applies(c, a)) visit(a, c.values[a], length, value);
      }
    });
    if (!c.broadcast_q()) visit(kQueryLength, s.query_length, kKeyLength, s.key_length);
  }
  if (!is_telling(c)) return;
  for (std::size_t a = 0; a < kQueryLength; ++a) {
    if (!applies(c, a)) continue;
    for (std::size_t b = a + 1; b < kQueryLength; ++b) {
      if (applies(c, b)) visit(a, c.values[a], b, c.values[b]);
    }
  }
}

std::int64_t tiles_of(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

std::int64_t tiles_of(const SuiteCase& c, const SuiteSequence& s) {
  const std::int64_t query = query_rows(c, s);
  const auto heads = static_cast<std::int64_t>(c.values[kKeyHeads] + 1) * kGroupSizes[c.values[kGroups]];
  return heads * tiles_of(query) * std::max<std::int64_t>(1, tiles_of(kLengths[s.key_length]));
}

std::int64_t tiles_of(const SuiteCase& c) {
  std::int64_t tiles = 0;
  for (const SuiteSequence& s : c.sequences) tiles += tiles_of(c, s);
  return tiles;
}

// --- Kernels

// In the order of SuiteKernel's members.
using KernelValues = std::array<std::size_t, 7>;
constexpr KernelValues kKernelValueCounts{kDtypes.size(),
                                          kPaddedDims.size(),
                                          kSides.size(),
                                          kSides.size(),
                                          kAlignments.size(),
                                          kGroupSizes.size(),
                                          2};

SuiteKernel kernel_of(const KernelValues& k) { return {k[0], k[1], k[2], k[3], k[4], k[5], k[6] == 1}; }

template <class Visit>
void for_each_kernel_pair(const KernelValues& kernel, const Visit& visit) {
  for (std::size_t a = 0; a < kernel.size(); ++a) {
    for (std::size_t b = a + 1; b < kernel.size(); ++b)
      visit(((a * kernel.size() + kernel[a]) * kernel.size() + b) * kernel.size() + kernel[b]);
  }
}

// First kernels that cover all pairs of what a kernel is specialised for, each the one of all with the most
// new pairs, then any others.
std::vector<SuiteKernel> make_kernels(std::size_t count, std::uint64_t seed) {
  std::vector<KernelValues> all{KernelValues{}};
  for (std::size_t factor = 0; factor < kKernelValueCounts.size(); ++factor) {
    std::vector<KernelValues> longer;
    for (KernelValues kernel : all) {
      for (kernel[factor] = 0; kernel[factor] < kKernelValueCounts[factor]; ++kernel[factor])
        longer.push_back(kernel);
    }
    all = std::move(longer);
  }
  std::erase_if(all, [](const KernelValues& k) {
    const SuiteKernel kernel = kernel_of(k);  // a shared query is aligned top_left only
    return kernel.broadcast_q && kAlignments[kernel.alignment] != Alignment::top_left;
  });
  Random random(seed);
  random.shuffle(all);
  constexpr std::size_t kFields = std::tuple_size_v<KernelValues>;
  static_assert(*std::ranges::max_element(kKernelValueCounts) <= kFields);
  std::vector<bool> met(kFields * kFields * kFields * kFields);  // by pair
  std::vector<SuiteKernel> kernels;
  while (kernels.size() < count && !all.empty()) {
    std::size_t best = 0;
    int best_gain = -1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      int gain = 0;
      for_each_kernel_pair(all[i], [&](const auto& pair) { gain += met[pair] ? 0 : 1; });
      if (gain > best_gain) std::tie(best, best_gain) = std::tuple{i, gain};
    }
    const KernelValues& k = all[best];
    for_each_kernel_pair(k, [&](const auto& pair) { met[pair] = true; });
    kernels.push_back(kernel_of(k));
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return kernels;
}

// --- Cases

class CaseMaker {
 public:
  CaseMaker(const std::vector<SuiteKernel>& kernels, std::int64_t tile_limit, std::uint64_t seed)
      : kernels_(kernels), tile_limit_(tile_limit), random_(seed) {}

  /// The next case: has a missing pair, and as many more as a few attempts find for little work.
  SuiteCase next(const std::vector<Pair>& missing) {
    SuiteCase best;
    double best_score = -1;
    for (int i = 0; i < kCandidates; ++i) {
      const Pair& goal = missing[random_.below(missing.size())];
      SuiteCase made = make(goal, kUnset);
      std::size_t gain = 0;
      PairTable seen = met_;
      for_each_pair(made, [&](auto a, auto u, auto b, auto v) {
        gain += seen.is_new(a, u, b, v) ? 1 : 0;
        seen.meet(a, u, b, v);
      });
      const double score = static_cast<double>(gain) / (30.0 + static_cast<double>(tiles_of(made)));
      if (score > best_score) std::tie(best, best_score) = std::tuple{std::move(made), score};
    }
    return keep(best);
  }

  /// Any case of a kernel.
  SuiteCase next_of(std::size_t kernel) {
    any_sequence_ = true;
    return keep(make({kFactors, 0, kFactors, 0}, kernel));
  }

  const PairTable& met() const { return met_; }

 private:
  SuiteCase keep(SuiteCase made) {
    for_each_pair(made, [&](auto a, auto u, auto b, auto v) { met_.meet(a, u, b, v); });
    made.seed = ++made_;
    return made;
  }

  SuiteCase make(const Pair& goal, std::size_t kernel) {
    SuiteCase c;
    c.values.fill(kUnset);
    if (goal.factor_a < kFactors) c.values[goal.factor_a] = goal.value_a;
    if (goal.factor_b < kFactors) c.values[goal.factor_b] = goal.value_b;
    const SuiteSequence wanted{c.values[kQueryLength], c.values[kKeyLength]};
    c.kernel = kernel != kUnset ? kernel : choose_kernel(c, wanted);
    const SuiteKernel& k = kernels_[c.kernel];
    c.values[kDtype] = k.dtype;
    c.values[kLeft] = k.left;
    c.values[kRight] = k.right;
    c.values[kAlignment] = k.alignment;
    c.values[kGroups] = k.groups;
    if (!k.broadcast_q) c.values[kQueryMode] = 0;
    choose(c, kHeadDim, [&](std::size_t dim) { return padded_of(dim) == k.padded_dim; });
    choose(c, kQueryMode, [](std::size_t mode) { return mode > 0; });
    auto factors = kFreeFactors;
    random_.shuffle(factors);
    for (const Factor factor : factors) {
      choose(c, factor, [&](std::size_t value) { return factor != kKeyHeads || value == 0 || has_room(c); });
    }
    add_sequence(c, [&](const SuiteSequence& s) {
      return (wanted.query_length == kUnset || wanted.query_length == s.query_length) &&
             (wanted.key_length == kUnset || wanted.key_length == s.key_length);
    });
    if (!is_telling(c)) add_sequence(c, [&](const SuiteSequence& s) { return is_telling(c, s); });
    while (c.sequences.size() < kMostSequences && add_gainful_sequence(c)) {
    }
    random_.shuffle(c.sequences);
    return c;
  }

  // Whether two key heads leave room for a sequence of a tile.
  bool has_room(SuiteCase c) const {
    c.values[kKeyHeads] = 1;
    return tiles_of(c, {1, 1}) <= tile_limit_ / 2;
  }

  std::size_t choose_kernel(const SuiteCase& c, const SuiteSequence& wanted) {
    std::vector<std::size_t> fit;
    const auto agrees = [&](Factor factor, std::size_t value) {
      return c.values[factor] == kUnset || c.values[factor] == value;
    };
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const SuiteKernel& k = kernels_[i];
      const bool own_queries = wanted.query_length != kUnset || c.values[kQueryOffsetWidth] != kUnset;
      if (agrees(kDtype, k.dtype) && agrees(kLeft, k.left) && agrees(kRight, k.right) &&
          agrees(kAlignment, k.alignment) && agrees(kGroups, k.groups) &&
          (c.values[kHeadDim] == kUnset || padded_of(c.values[kHeadDim]) == k.padded_dim) &&
          (c.values[kQueryMode] == kUnset || c.broadcast_q() == k.broadcast_q) &&
          !(own_queries && k.broadcast_q))
        fit.push_back(i);
    }
    return fit.at(random_.below(fit.size()));
  }

  std::size_t new_pairs(const SuiteCase& c, std::size_t factor, std::size_t value) const {
    std::size_t count = 0;
    for (std::size_t other = 0; other < kQueryLength; ++other) {
      if (other != factor && applies(c, other) && met_.is_new(factor, value, other, c.values[other])) ++count;
    }
    return count;
  }

  // Gives the factor the allowed value with the most new pairs, by lot among equals.
  template <class Allowed>
  void choose(SuiteCase& c, std::size_t factor, const Allowed& allowed) {
    if (c.values[factor] != kUnset) return;
    std::size_t best = 0;
    std::size_t equals = 0;
    std::size_t choice = kUnset;
    for (std::size_t value = 0; value < kValueCounts[factor]; ++value) {
      if (!allowed(value)) continue;
      const std::size_t gain = new_pairs(c, factor, value);
      if (gain > best || equals == 0) std::tie(best, equals) = std::tuple{gain, std::size_t{0}};
      if (gain == best && random_.below(++equals) == 0) choice = value;
    }
    c.values[factor] = choice;
  }

  struct Option {
    SuiteSequence sequence;
    std::int64_t tiles = 0;
    double score = 0;  // new pairs for its tiles, or its lot
  };

  // The allowed sequence of the best score, one that fits before any that does not.
  template <class Allowed>
  Option best_sequence(const SuiteCase& c, const Allowed& allowed) {
    PairTable seen = met_;  // what the sequences already there have is no gain
    for_each_pair(c, [&](auto a, auto u, auto b, auto v) { seen.meet(a, u, b, v); });
    const std::int64_t left = tile_limit_ - tiles_of(c);
    std::vector<Option> options;
    for (std::size_t query = 0; query < kLengths.size(); ++query) {
      for (std::size_t key = 0; key < kLengths.size(); ++key) {
        if (const SuiteSequence sequence{query, key}; allowed(sequence)) options.push_back({sequence});
      }
    }
    random_.shuffle(options);
    for (Option& option : options) {
      option.tiles = tiles_of(c, option.sequence);
      std::size_t gain = 0;
      for_each_length(c, option.sequence, [&](Factor length, std::size_t value) {
        for (std::size_t a = 0; a < kQueryLength; ++a)
          gain += applies(c, a) && seen.is_new(a, c.values[a], length, value) ? 1 : 0;
      });
      const SuiteSequence& s = option.sequence;
      if (!c.broadcast_q() && seen.is_new(kQueryLength, s.query_length, kKeyLength, s.key_length)) ++gain;
      option.score = any_sequence_ ? static_cast<double>(random_.below(1000) + 1)
                                   : static_cast<double>(gain) / (2.0 + static_cast<double>(option.tiles));
    }
    return *std::min_element(options.begin(), options.end(), [&](const Option& a, const Option& b) {
      const auto rank = [&](const Option& o) {
        const bool fits = o.tiles <= left;
        return std::tuple{!fits, fits ? -o.score : static_cast<double>(o.tiles)};
      };
      return rank(a) < rank(b);
    });
  }

  template <class Allowed>
  void add_sequence(SuiteCase& c, const Allowed& allowed) {
    c.sequences.push_back(best_sequence(c, allowed).sequence);
  }

  bool add_gainful_sequence(SuiteCase& c) {
    const Option best = best_sequence(c, [](const SuiteSequence&) { return true; });
    if (best.score <= 0 || best.tiles > tile_limit_ - tiles_of(c))
      return c.sequences.size() < 2 && add_empty(c);
    c.sequences.push_back(best.sequence);
    return true;
  }
  // No case is of one sequence only.
  static bool add_empty(SuiteCase& c) {
    c.sequences.push_back({0, 0});
    return true;
  }

  const std::vector<SuiteKernel>& kernels_;
  const std::int64_t tile_limit_;
  Random random_;
  PairTable met_;
  bool any_sequence_ = false;  // sequences are drawn by lot
  std::uint64_t made_ = 0;
};

std::string value_name(std::size_t factor, std::size_t value) {
  static constexpr std::array kLayoutNames{"packed", "fused", "head_major", "padded", "row_stride_0"};
  const bool yes = value == 1;
  switch (factor) {
    case kDtype:
      return kDtypes[value] == DType::bf16 ? "bf16" : "fp16";
    case kHeadDim:
      return fmt::format("{}", 8 * (value + 1));
    case kLeft:
    case kRight:
      return kSides[value] ? fmt::format("{}", *kSides[value]) : "all";
    case kAlignment:
      return kAlignments[value] == Alignment::top_left ? "top_left" : "bottom_right";
    case kGroups:
      return fmt::format("{}", kGroupSizes[value]);
    case kQueryMode:
      return value == 0 ? "own" : fmt::format("broadcast {}", kBroadcastLengths[value - 1]);
    case kKeyHeads:
      return fmt::format("{}", value + 1);
    case kQueryLayout:
    case kKeyLayout:
    case kValueLayout:
    case kOutputLayout:
      return kLayoutNames[value];
    case kQueryOffsetWidth:
    case kKeyOffsetWidth:
      return yes ? "int64" : "int32";
    case kOutputOffset:
      return value == 0 ? "absent" : value == 1 ? "int32" : "int64";
    case kScale:
      return kScales[value] ? fmt::format("{}", *kScales[value]) : "default";
    case kQueryLength:
    case kKeyLength:
      return fmt::format("{}", kLengths[value]);
    default:
      return yes ? "yes" : "no";
  }
}

}  // namespace

Suite make_suite(const SuiteSize& size) {
  Suite suite;
  suite.kernels = make_kernels(size.kernels, 1);
  CaseMaker maker(suite.kernels, size.tiles, 2);
  for (auto missing = maker.met().missing(); !missing.empty(); missing = maker.met().missing())
    suite.cases.push_back(maker.next(missing));
  for (std::size_t kernel = 0; kernel < suite.kernels.size(); ++kernel) {
    const auto of_kernel = [&](const SuiteCase& c) { return c.kernel == kernel; };
    auto have = static_cast<std::size_t>(std::count_if(suite.cases.begin(), suite.cases.end(), of_kernel));
    for (; have < size.cases_of_a_kernel; ++have) suite.cases.push_back(maker.next_of(kernel));
  }
  std::stable_sort(suite.cases.begin(), suite.cases.end(),
                   [](const SuiteCase& a, const SuiteCase& b) { return a.kernel < b.kernel; });
  return suite;
}

PairCount count_pairs(const Suite& suite) {
  PairTable table;
  for (const SuiteCase& c : suite.cases)
    for_each_pair(c, [&](auto a, auto u, auto b, auto v) { table.meet(a, u, b, v); });
  PairCount count;
  PairTable::for_each_possible([&](const Pair& p) {
    ++count.possible;
    if (!table.is_new(p.factor_a, p.value_a, p.factor_b, p.value_b)) {
      ++count.covered;
    } else if (count.first_missing.empty()) {
      count.first_missing =
          fmt::format("{} {} with {} {}", kNames[p.factor_a], value_name(p.factor_a, p.value_a),
                      kNames[p.factor_b], value_name(p.factor_b, p.value_b));
    }
  });
  return count;
}

std::size_t count_kernels(const Suite& suite) {
  std::set<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, bool>>
      kernels;
  for (const SuiteCase& c : suite.cases) {
    kernels.emplace(c.values[kDtype], padded_of(c.values[kHeadDim]), c.values[kLeft], c.values[kRight],
                    c.values[kAlignment], c.values[kGroups], c.broadcast_q());
  }
  return kernels.size();
}

std::string describe(const SuiteCase& c) {
  std::string text = fmt::format("case {}:", c.seed);
  for (std::size_t factor = 0; factor < kQueryLength; ++factor) {
    if (applies(c, factor))
      text += fmt::format(" {} {},", kNames[factor], value_name(factor, c.values[factor]));
  }
  text += " lengths";
  for (const SuiteSequence& s : c.sequences) {
    text += c.broadcast_q() ? fmt::format(" {}", kLengths[s.key_length])
                            : fmt::format(" {}x{}", kLengths[s.query_length], kLengths[s.key_length]);
  }
  return text;
}

}  // namespace jfa::test
