// A launch: a machine and its checkers.
#include <fmt/format.h>

#include <memory>

#include "simulator/checkers/attach.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

namespace {

void check_launch(const Entry& entry, const LaunchConfig& config) {
  const auto refuse = [&](const std::string& message) {
    Report report;
    report.kind = ErrorKind::kLaunch;
    report.message = message;
    report.entry = entry.name;
    throw SimulationError(std::move(report));
  };
  const std::uint64_t threads = config.block.count();
  if (config.grid.count() == 0 || config.cluster.count() == 0) refuse("an empty grid or cluster");
  if (config.grid.x > 0x7fffffffu || config.grid.y > 65535 || config.grid.z > 65535)
    refuse(fmt::format("a grid of {} × {} × {} CTAs", config.grid.x, config.grid.y, config.grid.z));
  if (threads == 0 || threads > entry.max_threads)
    refuse(fmt::format("a block of {} threads, the entry takes 1 to {}", threads, entry.max_threads));
  const Dim3& r = entry.required_block;
  if (r.x != 0 && (r.x != config.block.x || r.y != config.block.y || r.z != config.block.z))
    refuse(fmt::format("a block of {} × {} × {} threads, the entry requires {} × {} × {}", config.block.x,
                       config.block.y, config.block.z, r.x, r.y, r.z));
  const Dim3& c = config.cluster;
  const Dim3& rc = entry.required_cluster;
  if (rc.x != 0 && (rc.x != c.x || rc.y != c.y || rc.z != c.z))
    refuse(fmt::format("a cluster of {} × {} × {} CTAs, the entry requires {} × {} × {}", c.x, c.y, c.z, rc.x,
                       rc.y, rc.z));
  if (config.grid.x % c.x != 0 || config.grid.y % c.y != 0 || config.grid.z % c.z != 0)
    refuse("the grid is not divisible by the cluster");
  if (config.parameters.size() < entry.parameter_bytes)
    refuse(fmt::format("{} bytes of parameters, the entry takes {}", config.parameters.size(),
                       entry.parameter_bytes));
  if (config.options.sms < 1) refuse(fmt::format("{} SMs", config.options.sms));
  if (resident_ctas_per_sm(entry, static_cast<std::uint32_t>(threads), config.dynamic_shared_bytes) == 0)
    refuse(fmt::format("{} + {} bytes of shared memory, a CTA may have {}", entry.static_shared_bytes,
                       config.dynamic_shared_bytes, kMaxSharedBytesPerCta));
}

}  // namespace

LaunchResult run_grid(const Module& module, const Entry& entry, const LaunchConfig& config,
                      DeviceMemory& memory) {
  LaunchResult result;
  try {
    check_launch(entry, config);
    memory.begin_grid(config.overlaps_predecessor && config.options.checks);
    std::unique_ptr<Observer> checkers;
    Machine machine(module, entry, config, memory);
    if (machine.checks()) machine.observers().add(*(checkers = make_checkers(machine)));
    for (Observer* observer : config.options.observers) machine.observers().add(*observer);
    try {
      machine.run();
    } catch (const SimulationError&) {
      result.statistics = machine.statistics();
      result.printed = machine.printed();
      result.choices = std::move(machine.choices());
      throw;
    }
    result.statistics = machine.statistics();
    result.printed = machine.printed();
    result.choices = std::move(machine.choices());
  } catch (const SimulationError& e) {
    result.ok = false;
    result.report = e.report();
  }
  return result;
}

}  // namespace jfa::simulator
