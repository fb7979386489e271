#include "generator/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/emit_configuration.h"
#include "generator/emit_wgmma.h"
#include "generator/templates.h"

namespace jfa {
namespace {

constexpr std::string_view kLineInfo = "--generate-line-info";

// A template without what only its host includers need: everything down to `#pragma once`, and the include of
// another template.
std::string_view template_fragment(std::string_view path) {
  std::string_view text = template_text(path);
  for (const std::string_view start : {"#pragma once\n", "#include \"templates/"}) {
    if (const std::size_t at = text.find(start); at != std::string_view::npos)
      text.remove_prefix(text.find('\n', at) + 1);
  }
  return text;
}

void add(std::string& source, const Fragment& fragment) {
  if (fragment.columns == 0) {
    source += fmt::format("\n// ---- {}\n", fragment.path);
    source += template_fragment(fragment.path);
  } else {
    source += fmt::format("\n// ---- {}, {} columns\n", fragment.path, fragment.columns);
    source +=
        fragment.path == "ptx/wgmma_ss" ? wgmma_ss_text(fragment.columns) : wgmma_rs_text(fragment.columns);
  }
}

}  // namespace

KernelSource emit(const KernelPlan& plan, bool line_info) {
  KernelSource source;
  source.spec = plan.spec;
  source.tuning = plan.tuning;
  source.name = name(plan);
  source.target = to_string(plan.spec.target);
  source.options = {"--std=c++20"};
  if (line_info || is_virtual(plan.spec.target)) source.options.emplace_back(kLineInfo);
  for (const EntryPlan* entry : entries_of(plan)) source.entries.push_back(entry->name);
  source.text = fmt::format(
      "// {}\n"
      "// Emitted by jfa for this configuration; compiles alone: nvcc -arch={} {}.\n",
      source.name, source.target, is_virtual(plan.spec.target) ? "-ptx" : "-cubin");
  add(source.text, "attention/tile.cuh");
  source.text += configuration_block(plan);
  for (const Fragment& fragment : plan.fragments) add(source.text, fragment);
  return source;
}

bool has_line_info(const KernelSource& source) { return std::ranges::count(source.options, kLineInfo) > 0; }

Result<KernelSource> source_of(const KernelSpec& spec, const Tuning& tuning, bool line_info) {
  const Result<KernelPlan> planned = plan(spec, tuning);
  if (!planned) return planned.status();
  return emit(*planned, line_info);
}

}  // namespace jfa
