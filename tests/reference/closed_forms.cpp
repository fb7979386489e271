#include "tests/reference/closed_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace jfa::test {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kNoKey = -std::numeric_limits<double>::infinity();

using Forms = std::vector<ClosedForm>;
using PerRow = std::vector<double>;

const ValueOf kValueIsIndex = [](auto, auto j, auto, auto) { return static_cast<double>(j); };
const ValueOf kValueIsIndexMod16 = [](auto, auto j, auto, auto) { return static_cast<double>(j % 16); };

auto same_in_row(PerRow values) {
  return [values = std::move(values)](std::int64_t row, std::int64_t, auto...) {
    return values.at(static_cast<std::size_t>(row));
  };
}

// Known only in the rows that are listed.
auto only_rows(std::map<std::int64_t, double> values) {
  return [values = std::move(values)](std::int64_t row, std::int64_t, auto...) {
    const auto found = values.find(row);
    return found == values.end() ? kUnknown : found->second;
  };
}

// Row i of the output is row i of the value, exactly: one key for every query.
void expect_value(ClosedForm& form) {
  const HostTensor value = form.problem.value;
  const std::int64_t groups = form.problem.query.heads / value.heads;
  form.output = [value, groups](std::int64_t row, std::int64_t head, std::int64_t column) {
    return value.at(row, head / groups, column);
  };
  form.exact_output = true;
}

void fill_column(HostTensor& tensor, std::int64_t column, float value) {
  for (std::int64_t row = 0; row < tensor.rows; ++row) {
    for (std::int64_t head = 0; head < tensor.heads; ++head) tensor.at(row, head, column) = value;
  }
}

// Scores far below every finite stand-in for minus infinity.
Forms very_low_scores() {
  ClosedForm form{1, "raw score -802816", flat_problem({1}, {3}, {1, 1}, 128), {}, {}};
  fill_column(form.problem.query, 0, 448);
  fill_column(form.problem.key, 0, -1792);
  set_value(form.problem, [](auto, auto j, auto, auto) { return j + 1.0; });
  form.output = same_in_row({2});
  form.lse = same_in_row({-802816 / std::sqrt(128.0) + std::log(3.0)});
  return {form};
}

Forms one_very_low_score() {
  ClosedForm form{2, "scaled score -65536", flat_problem({1}, {1}, {32, 32}, 64), {}, {}};
  randomize(form.problem, 2);
  std::fill(form.problem.query.values.begin(), form.problem.query.values.end(), 0.0F);
  std::fill(form.problem.key.values.begin(), form.problem.key.values.end(), 0.0F);
  fill_column(form.problem.query, 0, 512);
  fill_column(form.problem.key, 0, -1024);
  expect_value(form);
  form.lse = same_in_row({-65536});
  form.exact_lse = true;
  return {form};
}

Forms natural_logarithm() {
  ClosedForm form{3, "one key, scaled score 1", flat_problem({1}, {1}, {1, 1}, 64), {}, {}};
  fill_column(form.problem.query, 0, 8);
  fill_column(form.problem.key, 0, 1);
  set_value(form.problem, [](auto, auto, auto, auto column) { return 1.0 + static_cast<double>(column); });
  expect_value(form);
  form.lse = same_in_row({1});
  return {form};
}

// One key of every row would win by far, but lies outside the window.
Forms large_score_outside_the_window() {
  ClosedForm form{7, "window 1", flat_problem({40}, {40}, {1, 1}, 64), {}, {}};
  form.problem.window = 1;
  for (std::int64_t i = 0; i < 40; ++i) {
    form.problem.query.at(i, 0, (i + 20) % 40) = 40;
    form.problem.key.at(i, 0, i) = 40;
  }
  set_value(form.problem, kValueIsIndex);
  form.output = only_rows({{0, 0.5}, {5, 5}});
  form.lse = only_rows({{0, std::log(2.0)}, {5, std::log(3.0)}});
  return {form};
}

// Values of which no two neighbours agree, so that a wrong store layout shows.
Forms element_by_element() {
  Forms forms;
  for (const std::int64_t head_dim : {64, 128}) {
    ClosedForm form{11,
                    fmt::format("head_dim {}", head_dim),
                    flat_problem({128}, {128}, {2, 2}, head_dim, DType::fp16),
                    {},
                    {}};
    form.problem.window = 0;
    set_value(form.problem, [](auto, auto j, auto head, auto column) {
      return static_cast<double>((7 * j + 13 * column + 31 * head) % 509);
    });
    expect_value(form);
    forms.push_back(form);
  }
  return forms;
}

Forms queryless_sequence() {
  ClosedForm form{
      16, "a sequence of length 0 between", flat_problem({1, 0, 1}, {3, 0, 5}, {9, 3}, 64), {}, {}};
  set_value(form.problem, kValueIsIndex);
  form.output = same_in_row({1, 2});
  form.lse = same_in_row({std::log(3.0), std::log(5.0)});
  return {form};
}

Forms fewer_tokens_than_sequences() {
  Forms forms;
  for (const std::int64_t head_dim : {64, 120}) {
    ClosedForm form{17,
                    fmt::format("head_dim {}", head_dim),
                    flat_problem({0, 0, 0, 1}, {0, 0, 0, 1}, {21, 7}, head_dim),
                    {},
                    {}};
    randomize(form.problem, 17);
    expect_value(form);
    forms.push_back(form);
  }
  return forms;
}

Forms no_leak_between_sequences() {
  ClosedForm form{26, "values 0 and 1000", flat_problem({2, 3}, {2, 3}, {1, 1}, 64), {}, {}};
  set_value(form.problem, [](auto b, auto, auto, auto) { return b == 0 ? 0.0 : 1000.0; });
  form.output = same_in_row({0, 0, 1000, 1000, 1000});
  form.exact_output = true;
  return {form};
}

Forms all_ones() {
  Forms forms;
  for (const std::int64_t keys : {8, 16, 32, 64, 128}) {
    ClosedForm form{34, fmt::format("{} keys", keys), flat_problem({keys + 1}, {keys}, {1, 1}, 64), {}, {}};
    for (HostTensor* tensor : {&form.problem.query, &form.problem.key, &form.problem.value}) {
      std::fill(tensor->values.begin(), tensor->values.end(), 1.0F);
    }
    form.output = [](auto, auto, auto) { return 1.0; };
    form.lse = [keys](auto, auto) { return 8 + std::log(static_cast<double>(keys)); };
    form.exact_output = true;
    forms.push_back(form);
  }
  return forms;
}

// Scores are 0 and values their keys' indices, so that an output is the middle of what its row sees.
// intervals: first and last key of every row; first > last: none.
ClosedForm seen_by_rows(int bug, std::string what, std::int64_t keys, const Window& window,
                        const std::vector<std::pair<int, int>>& intervals) {
  const auto queries = static_cast<std::int64_t>(intervals.size());
  ClosedForm form{bug, std::move(what), flat_problem({queries}, {keys}, {1, 1}, 64), {}, {}};
  form.problem.window = window;
  set_value(form.problem, kValueIsIndex);
  PerRow output, lse;
  for (const auto& [first, last] : intervals) {
    output.push_back(first <= last ? (first + last) / 2.0 : 0);
    lse.push_back(first <= last ? std::log(last - first + 1.0) : kNoKey);
  }
  form.output = same_in_row(output);
  form.lse = same_in_row(lse);
  return form;
}

Forms inclusive_window() {
  constexpr Alignment kAtEnds = Alignment::bottom_right;
  return {seen_by_rows(37, "window 2", 9, 2,
                       {{0, 2}, {0, 3}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {4, 8}, {5, 8}, {6, 8}}),
          seen_by_rows(37, "causal", 5, Window::causal(),
                       {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 4}, {0, 4}}),
          seen_by_rows(37, "2 before, 1 behind", 5, {2, 1},
                       {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}, {6, 4}}),
          seen_by_rows(37, "causal, more keys", 7, Window::causal(kAtEnds), {{0, 4}, {0, 5}, {0, 6}}),
          seen_by_rows(37, "causal, fewer keys", 3, Window::causal(kAtEnds),
                       {{0, -2}, {0, -1}, {0, 0}, {0, 1}, {0, 2}})};
}

Forms window_zero() {
  ClosedForm form{38, "window 0", flat_problem({5}, {3}, {1, 1}, 64), {}, {}};
  form.problem.window = 0;
  set_value(form.problem, [](auto, auto j, auto, auto) { return j + 1.0; });
  form.output = same_in_row({1, 2, 3, 0, 0});
  form.lse = same_in_row({0, 0, 0, kNoKey, kNoKey});
  form.exact_output = true;
  form.exact_lse = true;
  return {form};
}

Forms rows_behind_the_keys() {
  ClosedForm form{42, "window 10", flat_problem({200}, {50}, {1, 1}, 64), {}, {}};
  form.problem.window = 10;
  set_value(form.problem, kValueIsIndex);
  PerRow output;
  PerRow lse;
  for (int i = 0; i < 200; ++i) {
    const int begin = std::max(0, i - 10);
    const int end = std::min(50, i + 11);
    output.push_back(begin < end ? (begin + end - 1) / 2.0 : 0);
    lse.push_back(begin < end ? std::log(end - begin) : kNoKey);
  }
  form.output = same_in_row(output);
  form.lse = same_in_row(lse);
  return {form};
}

Forms queries_without_keys() {
  ClosedForm form{43, "window 4", flat_problem({5, 0, 17}, {0, 3, 200}, {2, 2}, 64), {}, {}};
  form.problem.window = 4;
  set_value(form.problem, kValueIsIndex);
  PerRow output(5, 0.0);
  PerRow lse(5, kNoKey);
  for (int i = 0; i < 17; ++i) {
    const int begin = std::max(0, i - 4);
    output.push_back((begin + i + 4) / 2.0);
    lse.push_back(std::log(i + 5 - begin));
  }
  form.output = same_in_row(output);
  form.lse = same_in_row(lse);
  return {form};
}

// fp16, for bf16 has no 257.
Forms grouped_heads_with_window() {
  Forms forms;
  for (const std::int64_t length : {8, 300}) {
    ClosedForm form{44,
                    fmt::format("length {}", length),
                    flat_problem({length}, {length}, {4, 1}, 64, DType::fp16),
                    {},
                    {}};
    form.problem.window = 1;
    set_value(form.problem, kValueIsIndex);
    PerRow output;
    for (std::int64_t i = 0; i < length; ++i) output.push_back(static_cast<double>(i));
    output.front() = 0.5;
    output.back() -= 0.5;
    form.output = same_in_row(output);
    forms.push_back(form);
  }
  return forms;
}

Forms longer_than_the_window() {
  ClosedForm form{47, "window 512", flat_problem({623}, {623}, {1, 1}, 64), {}, {}};
  form.problem.window = 512;
  set_value(form.problem, kValueIsIndexMod16);
  form.output = only_rows({{622, 3854.0 / 513}});  // keys 110 … 622
  form.lse = only_rows({{622, std::log(513.0)}});
  return {form};
}

Forms first_keys_masked() {
  ClosedForm form{48, "window 20", flat_problem({700}, {700}, {1, 1}, 64), {}, {}};
  form.problem.window = 20;
  set_value(form.problem, kValueIsIndexMod16);
  form.output = only_rows({{575, 311.0 / 41}});  // keys 555 … 595
  form.lse = only_rows({{575, std::log(41.0)}});
  return {form};
}

const std::map<int, Forms (*)()> kForms{
    {1, very_low_scores},
    {2, one_very_low_score},
    {3, natural_logarithm},
    {7, large_score_outside_the_window},
    {11, element_by_element},
    {16, queryless_sequence},
    {17, fewer_tokens_than_sequences},
    {26, no_leak_between_sequences},
    {34, all_ones},
    {37, inclusive_window},
    {38, window_zero},
    {42, rows_behind_the_keys},
    {43, queries_without_keys},
    {44, grouped_heads_with_window},
    {47, longer_than_the_window},
    {48, first_keys_masked},
};

}  // namespace

std::vector<ClosedForm> closed_forms(int bug) {
  const auto found = kForms.find(bug);
  if (found == kForms.end()) throw std::out_of_range(fmt::format("no closed form for row {}", bug));
  return found->second();
}

std::vector<int> closed_form_bugs() {
  std::vector<int> bugs;
  for (const auto& [bug, make] : kForms) bugs.push_back(bug);
  return bugs;
}

}  // namespace jfa::test
