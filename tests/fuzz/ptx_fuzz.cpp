// Any text as PTX: it is refused with a line, or it loads, and then a short run ends. Also its mutants'
// sites.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simulator/campaign/mutation.h"
#include "simulator/machine/launch.h"
#include "simulator/ptx/ptx.h"

namespace {

using namespace jfa::simulator;

constexpr std::uint64_t kVariableBytes = 1 << 20;  // more is legal, but slow to clear
constexpr std::uint64_t kBufferBytes = 4096;
constexpr std::uint64_t kInstructionBudget = 2000;
constexpr std::uint32_t kMaxThreads = 256;

bool is_small(const std::string& text) {
  try {
    const PtxModule module = parse_ptx(text);
    std::uint64_t bytes = 0;
    for (const Variable& variable : module.variables) bytes += variable.size_bytes;
    for (const Function& function : module.functions)
      for (const Scope& scope : function.scopes)
        for (const auto& [name, variable] : scope.variables)
          if (variable.space == Space::kLocal) bytes += variable.size_bytes * kMaxThreads;
    return bytes <= kVariableBytes;
  } catch (const PtxError& error) {
    if (error.line <= 0 || error.message.empty()) std::abort();
    return true;
  }
}

// Every pointer-sized parameter points to the same small buffer.
void run(const Module& module, const Entry& entry, DeviceMemory& memory, Schedule schedule) {
  const std::uint64_t buffer = memory.allocate(kBufferBytes, "buffer");
  LaunchConfig config;
  if (entry.required_block.x != 0) config.block = entry.required_block;
  if (entry.required_cluster.x != 0) config.grid = config.cluster = entry.required_cluster;
  if (entry.required_block.x == 0) config.block.x = 64;
  if (config.block.count() > kMaxThreads || config.grid.count() > 4) return;
  config.dynamic_shared_bytes = 1024;
  config.parameters.resize(entry.parameter_bytes);
  for (const Parameter& parameter : entry.parameters)
    if (parameter.size_bytes == sizeof buffer)
      std::memcpy(config.parameters.data() + parameter.offset, &buffer, sizeof buffer);
  config.options.sms = 1;
  config.options.schedule = schedule;
  config.options.instruction_budget = kInstructionBudget;
  const LaunchResult result = run_grid(module, entry, config, memory);
  if (!result.ok && result.report.text().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!is_small(text)) return 0;
  (void)enumerate_mutations(text);
  DeviceMemory memory;
  const auto module = Module::load(text, memory);
  if (!module.ok()) {
    if (module.status().message().find("PTX line ") != 0) std::abort();
    return 0;
  }
  for (const auto& entry : (*module)->entries())
    run(**module, *entry, memory, size % 2 == 0 ? Schedule::kEager : Schedule::kRandom);
  return 0;
}
