// Runs a few lines of PTX on the simulator: what the tests of asynchronous memory share.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "simulator/async/tensor_map.h"
#include "simulator/machine/device_memory.h"
#include "simulator/machine/launch.h"

namespace jfa::simulator {

inline std::vector<RunOptions> all_schedules() {
  std::vector<RunOptions> all(5);
  all[1].schedule = Schedule::kLazy;
  for (std::size_t i = 2; i < all.size(); ++i) all[i].schedule = Schedule::kRandom, all[i].seed = i;
  return all;
}

/// A kernel around `body`. It may use the registers %t, %r1…%r9, %a, %b, %out (output), %in (input), %map
/// (generic address of the tensor map), %h, %token, %p, %q, %first, and the shared variables tile (32 KiB,
/// 1024-aligned) and bar (64 bytes).
class PtxRun {
 public:
  explicit PtxRun(const std::string& body) {
    ptx_ = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in, .param .align 64 .b8 map[128]) .maxntid 1024
{
  .reg .pred %p, %q, %first;
  .reg .b32 %t, %r<10>;
  .reg .b16 %h;
  .reg .b64 %a, %b, %out, %in, %map, %token;
  .shared .align 1024 .b8 tile[32768];
  .shared .align 8 .b8 bar[64];
  ld.param.u64 %out, [out];
  ld.param.u64 %in, [in];
  mov.b64 %map, map;
  cvta.param.u64 %map, %map;
)" + body + "\n  ret;\n}\n";
    out = memory.allocate(kBytes, "out");
    in = memory.allocate(kBytes, "in");
  }

  LaunchResult launch(std::uint32_t threads, std::uint32_t ctas = 1) {
    auto module = Module::load(ptx_, memory);
    REQUIRE_MESSAGE(module.ok(), module.status().message());
    LaunchConfig config;
    config.grid = {ctas, 1, 1};
    config.block = {threads, 1, 1};
    config.cluster = {cluster, 1, 1};
    config.options = options;
    config.parameters.resize(192);
    std::memcpy(config.parameters.data(), &out, 8);
    std::memcpy(config.parameters.data() + 8, &in, 8);
    std::memcpy(config.parameters.data() + 64, &map, sizeof(map));
    return run_grid(**module, *(*module)->find("test"), config, memory);
  }

  const std::string& ptx() const { return ptx_; }
  template <class T>
  T* input() {
    return reinterpret_cast<T*>(memory.host(in, kBytes));
  }
  template <class T>
  T output(std::size_t index) {
    return reinterpret_cast<T*>(memory.host(out, kBytes))[index];
  }

  static constexpr std::uint64_t kBytes = 1 << 17;
  DeviceMemory memory;
  std::uint64_t out = 0, in = 0;
  CUtensorMap map{};
  RunOptions options;
  std::uint32_t cluster = 1;

 private:
  std::string ptx_;
};

}  // namespace jfa::simulator
