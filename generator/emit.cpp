#include "generator/emit.h"

#include <fmt/format.h>

#include "generator/templates.h"

namespace jfa {
namespace {

// A fragment without the `#pragma once` that only its host includers need.
std::string_view fragment(std::string_view path) {
  constexpr std::string_view kPragma = "#pragma once\n";
  std::string_view text = template_text(path);
  const std::size_t at = text.find(kPragma);
  return at == std::string_view::npos ? text : text.substr(at + kPragma.size());
}

std::string configuration_block(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  std::string text = fmt::format(
      "// {}\n"
      "// Emitted by jfa for this configuration; compiles alone: nvcc -arch={} -cubin.\n"
      "namespace jfa::kernel {{\n"
      "enum class Element {{ bf16, fp16 }};\n"
      "}}\n"
      "namespace jfa::kernel::config {{\n"
      "constexpr Element kElement = Element::{};\n"
      "constexpr int kPaddedDim = {};  // columns of a row on chip; the tensor maps pad and clip head_dim\n"
      "constexpr int kGroups = {};  // query heads per key/value head\n"
      "constexpr bool kBroadcastQuery = {};  // one query sequence for every batch entry\n",
      name(spec), to_string(spec.target), spec.dtype == DType::bf16 ? "bf16" : "fp16", spec.padded_dim,
      spec.groups, spec.broadcast_q);
  if (spec.window) text += fmt::format("constexpr int kWindow = {};  // |i - j| <= kWindow\n", *spec.window);
  text += fmt::format(
      "constexpr int kQueryStages = {};\n"
      "constexpr int kKeyValueStages = {};\n"
      "constexpr int kBoxDim = {};  // columns of a tensor-map box\n"
      "constexpr int kBoxes = {};  // boxes a row\n"
      "constexpr int kSwizzleBytes = {};\n"
      "constexpr int kSharedBytes = {};  // dynamic shared memory of the main entry\n"
      "{}"
      "}}  // namespace jfa::kernel::config\n",
      plan.query_stages, plan.key_value_stages, plan.operand.box_dim, plan.operand.boxes,
      plan.operand.swizzle_bytes, plan.main.shared_bytes,
      plan.tensor_memory_columns == 0
          ? ""
          : fmt::format("constexpr int kTensorMemoryColumns = {};\n", plan.tensor_memory_columns));
  return text;
}

}  // namespace

KernelSource emit(const KernelPlan& plan) {
  KernelSource source;
  source.name = name(plan.spec);
  source.target = to_string(plan.spec.target);
  source.options = {"--std=c++20", "--generate-line-info"};
  source.entries = {plan.prepare.name, plan.main.name, plan.merge.name};
  source.text = configuration_block(plan);
  for (std::string_view path : plan.fragments) {
    source.text += fmt::format("\n// ---- {}\n", path);
    source.text += fragment(path);
  }
  return source;
}

}  // namespace jfa
