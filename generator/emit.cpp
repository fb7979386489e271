#include "generator/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/templates.h"

namespace jfa {
namespace {

constexpr std::string_view kLineInfo = "--generate-line-info";

// A fragment without what only its host includers need: everything down to `#pragma once`, and the include of
// another fragment.
std::string_view fragment(std::string_view path) {
  std::string_view text = template_text(path);
  for (const std::string_view start : {"#pragma once\n", "#include \"templates/"}) {
    if (const std::size_t at = text.find(start); at != std::string_view::npos)
      text.remove_prefix(text.find('\n', at) + 1);
  }
  return text;
}

std::string configuration_block(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  std::string text = fmt::format(
      "// {}\n"
      "// Emitted by jfa for this configuration; compiles alone: nvcc -arch={} {}.\n"
      "namespace jfa::kernel {{\n"
      "enum class Element {{ bf16, fp16 }};\n"
      "}}\n"
      "namespace jfa::kernel::config {{\n"
      "constexpr Element kElement = Element::{};\n"
      "constexpr int kPaddedDim = {};  // columns of a row on chip; the tensor maps pad and clip head_dim\n"
      "constexpr int kGroups = {};  // query heads per key/value head\n"
      "constexpr bool kBroadcastQuery = {};  // one query sequence for every batch entry\n",
      name(spec), to_string(spec.target), is_virtual(spec.target) ? "-ptx" : "-cubin",
      spec.dtype == DType::bf16 ? "bf16" : "fp16", spec.padded_dim, spec.groups, spec.broadcast_q);
  if (spec.window) text += fmt::format("constexpr int kWindow = {};  // |i - j| <= kWindow\n", *spec.window);
  const auto define = [&](std::string_view constant, int value, std::string_view comment = "") {
    text +=
        fmt::format("constexpr int {} = {};{}{}\n", constant, value, comment.empty() ? "" : "  // ", comment);
  };
  if (plan.backward) {
    define("kStreamedStages", plan.backward->streamed_stages);
    define("kSharedBytes", plan.backward->keys.shared_bytes, "dynamic shared memory of each gradient entry");
    text += fmt::format(
        "constexpr bool kShortKeys = {};  // sequences whose keys fit one tile: an entry of their own\n",
        plan.backward->short_keys.has_value());
    if (const std::optional<ShortPlan>& short_keys = plan.backward->short_keys) {
      define("kShortStages", short_keys->streamed_stages);
      define("kShortSharedBytes", short_keys->main.shared_bytes, "dynamic shared memory of that entry");
    }
    if (const std::optional<BroadcastPlan>& broadcast = plan.backward->broadcast) {
      define("kBroadcastStages", broadcast->pair_stages);
      define("kBroadcastOutputGradRows", broadcast->output_grad_rows);
      define("kBroadcastSharedBytes", broadcast->main.shared_bytes,
             "dynamic shared memory of the broadcast entry");
    }
  } else {
    define("kQueryStages", plan.query_stages);
    define("kKeyValueStages", plan.key_value_stages);
    define("kSharedBytes", plan.main.shared_bytes, "dynamic shared memory of the main entry");
  }
  define("kBoxDim", plan.operand.box_dim, "columns of a tensor-map box");
  define("kBoxes", plan.operand.boxes, "boxes a row");
  define("kSwizzleBytes", plan.operand.swizzle_bytes);
  if (plan.tensor_memory_columns != 0) define("kTensorMemoryColumns", plan.tensor_memory_columns);
  text += "}  // namespace jfa::kernel::config\n";
  return text;
}

}  // namespace

KernelSource emit(const KernelPlan& plan, bool line_info) {
  KernelSource source;
  source.name = name(plan.spec);
  source.target = to_string(plan.spec.target);
  source.options = {"--std=c++20"};
  if (line_info || is_virtual(plan.spec.target)) source.options.emplace_back(kLineInfo);
  for (const EntryPlan* entry : entries_of(plan)) source.entries.push_back(entry->name);
  source.text = configuration_block(plan);
  for (std::string_view path : plan.fragments) {
    source.text += fmt::format("\n// ---- {}\n", path);
    source.text += fragment(path);
  }
  return source;
}

bool has_line_info(const KernelSource& source) { return std::ranges::count(source.options, kLineInfo) > 0; }

}  // namespace jfa
