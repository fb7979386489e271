#include "simulator/campaign/recording.h"

#include <fmt/format.h>

#include <cstring>

namespace jfa::simulator {

Result<std::unique_ptr<PlacedRecording>> place(const std::string& ptx, const Recording& recording,
                                               const std::string& source) {
  auto placed = std::make_unique<PlacedRecording>();
  DeviceMemory& memory = placed->memory;
  for (const RecordedBuffer& buffer : recording.buffers) {
    if (!memory.place(buffer.address, buffer.bytes.size(), buffer.name))
      return Status::invalid_argument(fmt::format("buffer {} at {:#x} ({} bytes) meets another", buffer.name,
                                                  buffer.address, buffer.bytes.size()));
    if (!buffer.bytes.empty())
      std::memcpy(memory.host(buffer.address, buffer.bytes.size()), buffer.bytes.data(), buffer.bytes.size());
  }
  Result<std::unique_ptr<Module>> module = Module::load(ptx, memory, source);
  if (!module) return module.status();
  placed->module = std::move(*module);
  for (const RecordedLaunch& launch : recording.launches)
    if (placed->module->find(launch.entry) == nullptr)
      return Status::invalid_argument(fmt::format("entry '{}': the PTX has none of that name", launch.entry));
  return placed;
}

Result<ReplayResult> replay(const std::string& ptx, const Recording& recording, const RunOptions& options,
                            const std::string& source) {
  const auto placed = place(ptx, recording, source);
  if (!placed) return placed.status();
  DeviceMemory& memory = (*placed)->memory;
  const Module& module = *(*placed)->module;
  ReplayResult result;
  for (const RecordedLaunch& launch : recording.launches) {
    const Entry* entry = module.find(launch.entry);
    LaunchConfig config = launch.config;
    config.options = options;
    config.options.first_choice += result.statistics.decisions;
    LaunchResult one = run_grid(module, *entry, config, memory);
    result.statistics.warp_instructions += one.statistics.warp_instructions;
    result.statistics.async_steps += one.statistics.async_steps;
    result.statistics.ctas += one.statistics.ctas;
    result.printed += one.printed;
    result.statistics.decisions += one.statistics.decisions;
    result.choices.insert(result.choices.end(), one.choices.begin(), one.choices.end());
    if (!one.ok) {
      result.ok = false;
      result.report = std::move(one.report);
      break;
    }
  }
  for (const RecordedBuffer& buffer : recording.buffers) {
    const std::byte* bytes = memory.host(buffer.address, buffer.bytes.size());
    result.buffers.emplace_back(bytes, bytes + buffer.bytes.size());
  }
  return result;
}

}  // namespace jfa::simulator
