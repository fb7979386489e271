// jfa_bench_kernels: what each emitted kernel costs. Compiles a list of configurations with NVRTC, no GPU
// needed, and prints registers, spills and shared memory of every entry and the time NVRTC took. Exit status
// 1 if a kernel spills or does not compile.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "generator/emit.h"
#include "generator/plan.h"
#include "generator/spec.h"
#include "runtime/nvrtc.h"

namespace {

std::vector<jfa::Configuration> configurations(const std::string& target) {
  std::vector<jfa::Configuration> list;
  const auto add = [&](auto&& change) {
    jfa::Configuration configuration;
    configuration.target = target;
    change(configuration);
    list.push_back(configuration);
  };
  for (std::int64_t head_dim : {16, 32, 64, 96, 128}) add([&](auto& it) { it.head_dim = head_dim; });
  add([](auto& it) { it.dtype = jfa::DType::fp16; });
  add([](auto& it) { it.window = 0; });
  add([](auto& it) { it.window = 128; });
  add([](auto& it) { it.groups = 4; });
  add([](auto& it) { it.broadcast_q = true; });
  add([](auto& it) { it.head_dim = 64, it.window = 64, it.groups = 8, it.dtype = jfa::DType::fp16; });
  add([](auto& it) { it.pass = jfa::Pass::backward; });
  add([](auto& it) { it.pass = jfa::Pass::backward, it.broadcast_q = true; });
  return list;
}

// Rows of one configuration; returns whether it compiled without spills.
jfa::Result<bool> print_kernel(const jfa::Nvrtc& nvrtc, const jfa::Configuration& configuration) {
  const auto spec = jfa::specialize(configuration);
  if (!spec.ok()) return spec.status();
  const auto plan = jfa::plan(*spec);
  if (!plan.ok()) return plan.status();
  const auto image = nvrtc.compile(jfa::emit(*plan));
  if (!image.ok()) return image.status();
  bool spills = false;
  bool first = true;
  for (const jfa::EntryPlan* planned : jfa::entries_of(*plan)) {
    const jfa::EntryPlan& entry = *planned;
    const auto found = image->facts.find(entry.name);
    if (found == image->facts.end()) return jfa::Status::internal("NVRTC reported nothing of " + entry.name);
    const jfa::EntryFacts& facts = found->second;
    const int spill_bytes = facts.spill_store_bytes + facts.spill_load_bytes;
    spills |= spill_bytes > 0;
    fmt::print("{:36} {:20} {:>7} {:>9} {:>7} {:>12} {:>10} {:>9}\n", first ? image->name : "", entry.name,
               entry.threads, facts.registers, spill_bytes, entry.shared_bytes + facts.static_shared_bytes,
               first ? fmt::format("{:.0f}", image->compile_ms) : "",
               first ? fmt::format("{}", image->cubin.size()) : "");
    first = false;
  }
  return !spills;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string target = argc > 1 ? argv[1] : "sm_100f";
  const auto nvrtc = jfa::Nvrtc::instance();
  if (!nvrtc.ok()) {
    fmt::print(stderr, "{}\n", nvrtc.status().message());
    return 1;
  }
  fmt::print("NVRTC {} at {}\n\n", nvrtc.value()->version(), nvrtc.value()->path());
  fmt::print("{:36} {:20} {:>7} {:>9} {:>7} {:>12} {:>10} {:>9}\n", "kernel", "entry", "threads", "registers",
             "spill B", "shared B/CTA", "NVRTC ms", "cubin B");
  bool ok = true;
  for (const jfa::Configuration& configuration : configurations(target)) {
    const auto clean = print_kernel(*nvrtc.value(), configuration);
    if (!clean.ok()) {
      fmt::print(stderr, "{}\n{}", clean.status().message(), clean.status().detail());
      return 1;
    }
    ok &= *clean;
    std::fflush(stdout);
  }
  if (!ok) fmt::print(stderr, "a kernel spills\n");
  return ok ? 0 : 1;
}
