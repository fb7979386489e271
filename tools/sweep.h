// Lists of kernel configurations: every combination of the given values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/spec.h"
#include "jfa/attention.h"

namespace jfa::tools {

/// "bf16" or "fp16".
Result<DType> parse_dtype(std::string_view text);
/// "forward" or "backward".
Result<Pass> parse_pass(std::string_view text);
/// The values of each field, as text where the command line and the sweep file have text.
struct Sweep {
  std::vector<std::string> pass{"forward"};
  std::vector<std::string> dtype{"bf16"};
  std::vector<std::int64_t> head_dim;
  std::vector<std::string> window{"none"};
  std::vector<bool> broadcast_q{false};
  std::vector<std::int64_t> groups{1};
  std::vector<std::string> target{"sm_100f"};
  std::function<std::string()> where;  // it stands, for messages; may be empty
};

/// One kernel, in the same words.
struct KernelFields {
  std::string pass = "forward";
  std::string dtype = "bf16";
  std::int64_t head_dim = 128;
  std::string window = "none";
  bool broadcast_q = false;
  std::int64_t groups = 1;
  std::string target = "sm_100f";
};
/// Errors: the field and its value.
Result<KernelSpec> specialize(const KernelFields& fields);

/// What recommenders mostly ask for: both passes, both dtypes, head_dim 32, 64 and 128, without a window,
/// self-attention and pooling with a shared query, 1 and 4 query heads a key head, for Blackwell and Hopper.
Sweep default_sweep();

/// The most configurations that sweeps may come to; days of compiling.
inline constexpr std::uint64_t kMaxConfigurations = 100'000;

/// The specialisations that sweeps ask for, in their order, each once: several configurations may share one.
/// Errors: the field and its value; more than kMaxConfigurations, and how many values each field has.
Result<std::vector<KernelSpec>> expand(std::span<const Sweep> sweeps);
Result<std::vector<KernelSpec>> expand(const Sweep& sweep);

/// A sweep file: a JSON list of objects whose fields are those of Sweep, each a value or a list of values; a
/// window is a number, null, or text as parse_window() reads it. Errors name the file, the entry and the
/// field; a field that is named twice is one. targets: of the configurations that name none.
Result<std::vector<Sweep>> parse_sweep_file(std::string_view file, std::string_view text,
                                            const std::vector<std::string>& targets = Sweep().target);

}  // namespace jfa::tools
