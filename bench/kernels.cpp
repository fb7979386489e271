// jfa_bench_kernels: what each emitted kernel costs. Compiles the configurations of kernels.json with NVRTC,
// no GPU needed, and prints registers, spills, shared and tensor memory of every entry, the tensor core's
// cycles for one tile, and the time NVRTC took when it compiled the kernel: JFA_CACHE=off has all of them
// compiled now. Exit status 1 if a kernel spills, 2 if one does not compile.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/standard_streams.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "generator/spec.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"
#include "tools/sweep.h"

namespace {

constexpr const char* kRow = "{:36} {:22} {:>7} {:>9} {:>7} {:>12} {:>7} {:>11} {:>8} {:>8}\n";

// Those of kernels.json, in its order.
jfa::Result<std::vector<jfa::KernelSpec>> configurations(const std::string& target) {
  const std::string file = JFA_BENCH_DIR "/kernels.json";
  const jfa::Result<std::string> text = jfa::tools::read_text(file);
  if (!text) return text.status();
  const auto sweeps = jfa::tools::parse_sweep_file(file, *text, {target});
  return sweeps ? jfa::tools::expand(*sweeps) : sweeps.status();
}

// Rows of one configuration; returns whether it compiled without spills and serialized products.
jfa::Result<bool> print_kernel(const jfa::KernelSpec& spec) {
  if (jfa::is_virtual(spec.target))
    return jfa::Status::invalid_argument("target '" + std::string(jfa::to_string(spec.target)) +
                                         "' has no machine code");
  const auto plan = jfa::plan(spec);
  if (!plan.ok()) return plan.status();
  const auto compiled = jfa::compile(jfa::emit(*plan));
  if (!compiled.ok()) return compiled.status();
  const jfa::SharedImage& image = *compiled;
  bool slow = false;
  bool first = true;
  for (const jfa::EntryPlan* planned : jfa::entries_of(*plan)) {
    const jfa::EntryPlan& entry = *planned;
    const auto found = image->facts.find(entry.name);
    if (found == image->facts.end()) return jfa::Status::internal("NVRTC reported nothing of " + entry.name);
    const jfa::EntryFacts& facts = found->second;
    const int spill_bytes = facts.spill_store_bytes + facts.spill_load_bytes;
    slow |= spill_bytes > 0 || facts.serialized_products > 0;
    fmt::print(
        kRow, first ? image->name : "", entry.name, entry.threads, facts.registers, spill_bytes,
        entry.shared_bytes + facts.static_shared_bytes,
        entry.tensor_map.empty() ? "" : fmt::format("{}", plan->tensor_memory_columns),
        entry.tile_products.empty() ? "" : fmt::format("{}", jfa::tensor_core_cycles(entry, spec.target)),
        first ? fmt::format("{:.0f}", image->compile_ms) : "",
        first ? fmt::format("{}", image->cubin.size()) : "");
    first = false;
  }
  return !slow;
}

int run(const std::string& target) {
  const auto nvrtc = jfa::Nvrtc::instance().value();
  fmt::print("NVRTC {} at {}\n\n", nvrtc->version(), nvrtc->path());
  fmt::print(kRow, "kernel", "entry", "threads", "registers", "spill B", "shared B/CTA", "columns",
             "cycles/tile", "NVRTC ms", "cubin B");
  bool ok = true;
  const std::vector<jfa::KernelSpec> specs = configurations(target).value();
  for (const jfa::KernelSpec& spec : specs) {
    ok &= print_kernel(spec).value();
    std::fflush(stdout);
  }
  if (!ok) jfa::tools::say("a kernel spills, or its products are serialized\n");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return jfa::tools::run_program("jfa_bench_kernels", [&] { return run(argc > 1 ? argv[1] : "sm_100f"); });
}
