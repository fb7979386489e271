#include "tests/attention/forward_suite_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "reference/compare.h"

namespace jfa::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void repeat_first_row(HostTensor& tensor) {
  const auto row = static_cast<std::ptrdiff_t>(tensor.heads * tensor.head_dim);
  for (std::int64_t i = 1; i < tensor.rows; ++i) {
    std::copy_n(tensor.values.begin(), row,
                tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(i, 0, 0)));
  }
}

void append_rows_of_nan(HostTensor& tensor) {
  tensor.rows += kSpareRowCount;
  tensor.values.resize(static_cast<std::size_t>(tensor.rows * tensor.heads * tensor.head_dim), kNaN);
}

Strides strides_of(std::size_t layout, const Problem& problem, const HostTensor& tensor) {
  switch (layout) {
    case kFused:
      return fused_qkv(problem);
    case kHeadMajor:
      return head_major(tensor);
    case kPadded:
      return padded(tensor);
    case kRowStrideZero:
      return {0, tensor.head_dim};
    default:
      return packed(tensor);
  }
}

// First output rows with gaps of differing size before, between and behind the sequences.
std::vector<std::int64_t> offsets_with_gaps(const Problem& problem) {
  std::vector<std::int64_t> offsets{3};
  for (const reference::Sequence& sequence : reference::sequences(problem)) {
    const auto gap = static_cast<std::int64_t>(2 * offsets.size() % 5);
    offsets.push_back(offsets.back() + sequence.query_rows + gap);
  }
  return offsets;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// The first place among a sequence's rows where two results differ, in words; empty if there is none.
std::string first_difference(const RunResult& a, const RunResult& b, const reference::Sequence& sequence) {
  for (std::int64_t row = sequence.output_row; row < sequence.output_row + sequence.query_rows; ++row) {
    for (std::int64_t head = 0; head < a.output.heads; ++head) {
      for (std::int64_t column = 0; column < a.output.head_dim; ++column) {
        const float x = a.output.at(row, head, column);
        const float y = b.output.at(row, head, column);
        if (!same_bits(x, y))
          return fmt::format("output row {}, head {}, column {}: {} and {}", row, head, column, x, y);
      }
      if (a.lse.empty()) continue;
      const auto i = static_cast<std::size_t>(head * a.output.rows + row);
      if (!same_bits(a.lse[i], b.lse[i]))
        return fmt::format("LSE of output row {}, head {}: {} and {}", row, head, a.lse[i], b.lse[i]);
    }
  }
  return {};
}

// Whether the run itself was clean; says so with doctest if not.
bool ran_well(const Device& device, const RunResult& result) {
  INFO(result.status.detail());
  if (!result.status.ok()) {
    FAIL_CHECK(result.status.message());
    if (!device.simulated()) throw std::runtime_error("a GPU does not recover: the suite ends here");
  }
  for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  return result.status.ok();
}

void poison(SuiteProblem& poisoned, const reference::Sequence& sequence) {
  Problem& problem = poisoned.problem;
  const auto fill = [](HostTensor& tensor, const std::optional<Strides>& strides, std::int64_t first,
                       std::int64_t rows) {
    if (strides && strides->row == 0) return;  // its rows are everyone's
    const float values[] = {kNaN, kInfinity, -kInfinity};
    std::size_t next = 0;
    for (std::size_t i = tensor.index(first, 0, 0); i < tensor.index(first + rows, 0, 0); ++i)
      tensor.values[i] = values[next++ % 3];
  };
  if (!problem.broadcast_q)
    fill(problem.query, poisoned.options.query, sequence.query_row, sequence.query_rows);
  fill(problem.key, poisoned.options.key, sequence.key_row, sequence.key_rows);
  fill(problem.value, poisoned.options.value, sequence.key_row, sequence.key_rows);
}

}  // namespace

SuiteProblem problem_of(const SuiteCase& c) {
  SuiteProblem made;
  Problem& problem = made.problem;
  const DType dtype = kDtypes[c.values[kDtype]];
  std::vector<std::int64_t> query_lengths, key_lengths;
  for (const SuiteSequence& s : c.sequences) {
    query_lengths.push_back(kLengths[s.query_length]);
    key_lengths.push_back(kLengths[s.key_length]);
  }
  const auto key_heads = static_cast<std::int64_t>(c.values[kKeyHeads] + 1);
  const Heads heads{key_heads * kGroupSizes[c.values[kGroups]], key_heads};
  problem = c.broadcast_q() ? flat_broadcast_problem(kBroadcastLengths[c.values[kQueryMode] - 1], key_lengths,
                                                     heads, c.head_dim(), dtype)
                            : flat_problem(query_lengths, key_lengths, heads, c.head_dim(), dtype);
  randomize(problem, c.seed);
  if (c.values[kSpareRows] == 1) {
    if (!c.broadcast_q()) append_rows_of_nan(problem.query);
    append_rows_of_nan(problem.key);
    append_rows_of_nan(problem.value);
  }
  struct Input {
    HostTensor& tensor;
    std::optional<Strides>& strides;
    Factor layout;
  };
  for (const Input& input : {Input{problem.query, made.options.query, kQueryLayout},
                             Input{problem.key, made.options.key, kKeyLayout},
                             Input{problem.value, made.options.value, kValueLayout}}) {
    const std::size_t layout = c.values[input.layout];
    if (layout == kRowStrideZero) repeat_first_row(input.tensor);
    input.strides = strides_of(layout, problem, input.tensor);
  }
  problem.window =
      Window(kSides[c.values[kLeft]], kSides[c.values[kRight]], kAlignments[c.values[kAlignment]]);
  problem.scale = kScales[c.values[kScale]];
  if (c.values[kOutputOffset] > 0) problem.output_offset = offsets_with_gaps(problem);

  const auto width = [](bool wide) { return wide ? OffsetType::int64 : OffsetType::int32; };
  made.options.query_offset = width(c.values[kQueryOffsetWidth] == 1);
  made.options.key_offset = width(c.values[kKeyOffsetWidth] == 1);
  made.options.output_offset = width(c.values[kOutputOffset] == 2);
  made.options.lse = c.values[kLse] == 1;
  const HostTensor output(reference::output_rows(problem), heads.query, c.head_dim());
  made.options.output = strides_of(c.values[kOutputLayout], problem, output);
  return made;
}

std::vector<std::string> suite_devices(Schedules schedules, std::uint64_t number) {
  const std::string base = test_device().name();
  if (!test_device().simulated()) return {base, base};
  const auto with = [&](const std::string& options) {
    return fmt::format("{}{}schedule={}", base, base.find('?') == std::string::npos ? '?' : '&', options);
  };
  constexpr std::uint64_t kStarved = 16;  // a process has 64 simulated devices at most
  const std::string starve = fmt::format("starve&seed={}", number % kStarved);
  if (schedules == Schedules::kFew) {
    const std::string all[] = {"lazy", "random&seed=1", "reverse", starve, "late", "eager"};
    constexpr std::uint64_t kOneInThree = 3;
    const std::uint64_t turn = number / kOneInThree;
    if (number % kOneInThree != 0) return {with(all[turn % std::size(all)])};
    return {with("eager"), with(all[turn % (std::size(all) - 1)])};
  }
  return {with("eager"),         with("lazy"), with("random&seed=1"), with("random&seed=1"),
          with("reverse&sms=1"), with(starve), with("late&sms=3")};
}

std::optional<RunResult> check_on_devices(const SuiteProblem& made, const std::vector<std::string>& devices) {
  std::optional<RunResult> first, last;
  for (const std::string& name : devices) {
    CAPTURE(name);
    Device device = open_device(name);
    last = run_attention(device, made.problem, made.options);
    if (!ran_well(device, *last)) {
      last.reset();
      continue;
    }
    if (!first) {
      const reference::Comparison comparison = reference::judge(made.problem, last->output, last->lse);
      CHECK_MESSAGE(comparison.within_tolerance, reference::describe(comparison));
      first = last;
      continue;
    }
    for (const reference::Sequence& sequence : reference::sequences(made.problem)) {
      const std::string difference = first_difference(*first, *last, sequence);
      CHECK_MESSAGE(difference.empty(), "other bits than on the first device: " << difference);
    }
  }
  return last;
}

int check_isolation(const SuiteProblem& made, const std::string& name, const RunResult& clean) {
  const std::vector<reference::Sequence> all = reference::sequences(made.problem);
  if (all.size() < 2) return 0;
  Device device = open_device(name);
  const auto longest = static_cast<std::size_t>(std::max_element(all.begin(), all.end(),
                                                                 [](const auto& a, const auto& b) {
                                                                   return a.query_rows + a.key_rows <
                                                                          b.query_rows + b.key_rows;
                                                                 }) -
                                                all.begin());
  for (const bool others : {false, true}) {
    SuiteProblem poisoned = made;
    for (std::size_t b = 0; b < all.size(); ++b) {
      if ((b == longest) != others) poison(poisoned, all[b]);
    }
    const RunResult result = run_attention(device, poisoned.problem, poisoned.options);
    if (!ran_well(device, result)) continue;
    for (std::size_t b = 0; b < all.size(); ++b) {
      if ((b == longest) != others) continue;
      const std::string difference = first_difference(clean, result, all[b]);
      CHECK_MESSAGE(difference.empty(),
                    "poison in other sequences reached sequence " << b << ": " << difference);
    }
  }
  return 2;
}

}  // namespace jfa::test
