// Modules: from text to entries, and their variables into device memory. And the launch.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "simulator/decode/decode.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/machine.h"
#include "simulator/ptx/ptx.h"

namespace jfa::simulator {

class Loader {
 public:
  Loader(const std::string& ptx, DeviceMemory& memory, const std::string& source)
      : ptx_(parse_ptx(ptx)), memory_(memory), module_(new Module) {
    module_->memory_ = &memory;
    module_->target_ = ptx_.target;
    module_->files_ = ptx_.files;
    for (std::size_t from = 0; from < source.size();) {
      const std::size_t end = std::min(source.find('\n', from), source.size());
      module_->source_lines_.push_back(source.substr(from, end - from));
      from = end + 1;
    }
  }

  std::unique_ptr<Module> load() {
    place_variables();
    const VariableAddress address = [this](std::string_view name) -> std::optional<std::uint64_t> {
      const auto it = addresses_.find(name);
      if (it == addresses_.end()) return std::nullopt;
      return it->second;
    };
    for (const Function& function : ptx_.functions) {
      if (!function.is_entry) continue;
      auto entry = std::make_unique<Entry>();
      decode_entry(ptx_, function, address, *entry);
      module_->entries_.push_back(std::move(entry));
    }
    return std::move(module_);
  }

 private:
  void place_variables() {
    for (const Variable& v : ptx_.variables) {
      if ((v.space != Space::kGlobal && v.space != Space::kConst) || v.external) continue;
      if (addresses_.contains(v.name))
        throw PtxError{v.ptx_line, fmt::format("variable `{}` is declared twice", v.name), {}};
      const std::uint64_t alignment = std::max(v.alignment, 16u);
      const std::uint64_t address = memory_.allocate(v.size_bytes, "variable " + v.name, alignment);
      addresses_[v.name] = address;
      module_->variables_.push_back(address);
    }
    for (const Variable& v : ptx_.variables) {
      const auto it = addresses_.find(v.name);
      if (it == addresses_.end()) continue;
      DeviceMemory::Allocation& a = *memory_.find(it->second, v.size_bytes);
      std::memset(a.data.get(), 0, v.size_bytes);
      if (!v.initial.empty()) std::memcpy(a.data.get(), v.initial.data(), v.initial.size());
      for (const Variable::Relocation& r : v.relocations) {
        const auto target = addresses_.find(r.symbol);
        if (target == addresses_.end())
          throw PtxError{
              v.ptx_line, fmt::format("`{}`, in the value of `{}`, has no address", r.symbol, v.name), {}};
        const std::uint64_t value = target->second + static_cast<std::uint64_t>(r.addend);
        std::memcpy(a.data.get() + r.offset, &value, sizeof value);
      }
      a.read_only = v.space == Space::kConst;
    }
  }

  PtxModule ptx_;
  DeviceMemory& memory_;
  std::unique_ptr<Module> module_;
  std::map<std::string, std::uint64_t, std::less<>> addresses_;
};

Module::~Module() {
  for (const std::uint64_t address : variables_) memory_->free(address);
}

Result<std::unique_ptr<Module>> Module::load(const std::string& ptx, DeviceMemory& memory,
                                             const std::string& source) {
  try {
    return Loader(ptx, memory, source).load();
  } catch (const PtxError& e) {
    std::string message = fmt::format("PTX line {}: {}", e.line, e.message);
    if (!e.statement.empty()) message += fmt::format(" in `{}`", e.statement);
    return Status::invalid_argument(std::move(message));
  }
}

const Entry* Module::find(const std::string& name) const {
  for (const auto& entry : entries_)
    if (entry->name == name) return entry.get();
  return nullptr;
}

std::string Module::source_line(int file, int line) const {
  const auto index = static_cast<std::size_t>(line) - 1;
  return file == 1 && line > 0 && index < source_lines_.size() ? source_lines_[index] : std::string();
}

int resident_ctas_per_sm(const Entry& entry, std::uint32_t threads, std::uint32_t dynamic_shared_bytes) {
  const std::uint32_t shared = kReservedSharedBytes + entry.static_shared_bytes + dynamic_shared_bytes;
  const std::uint32_t rounded_threads = (threads + kWarpSize - 1) / kWarpSize * kWarpSize;
  if (rounded_threads == 0 || shared - kReservedSharedBytes > kMaxSharedBytesPerCta) return 0;
  return static_cast<int>(
      std::min({kSharedBytesPerSm / shared, kMaxThreadsPerSm / rounded_threads, kMaxCtasPerSm}));
}

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
    Machine machine(module, entry, config, memory);
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
