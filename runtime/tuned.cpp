#include "runtime/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>

#include "cache/options.h"
#include "runtime/log.h"
#include "tuning/bundled.h"
#include "tuning/database.h"

namespace jfa {
namespace {

// What is not to be had is not asked for again: a compiler that fails takes its time.
void leave_out(Device::Impl& device, const KernelSpec& spec, const Tuning& tuning, const Status& why) {
  {
    std::lock_guard lock(device.kernels.mutex());
    device.absent_tunings.insert({spec, tuning});
  }
  log(LogLevel::kWarning, fmt::format("{}: the tuning {} of the database is left out for the defaults: {}",
                                      name(spec), to_string(tuning), why.message()));
}

bool is_left_out(Device::Impl& device, const KernelSpec& spec, const Tuning& tuning) {
  std::lock_guard lock(device.kernels.mutex());
  return device.absent_tunings.contains({spec, tuning});
}

// What the query asks for, as a tuning.
Tuning wanted(Device::Impl& device, const KernelQuery& query) {
  if (query.tuning) return relevant(*query.tuning, query.spec);
  const TunedClasses* tuned = device.tuned.load(std::memory_order_acquire);
  if (!tuned) return relevant(device.tuning, query.spec);
  Tuning tuning = tuned->choose({query.spec, query.size}).tuning;
  return is_left_out(device, query.spec, tuning) ? Tuning() : tuning;
}

Status use_records(Device::Impl& device, const std::vector<TuningRecord>& records, const std::string& from) {
  auto tuned = std::make_unique<const TunedClasses>(records, tuned_device(device), device.target);
  std::lock_guard lock(device.kernels.mutex());
  if (!device.kernels.empty())
    return Status::invalid_argument(fmt::format(
        "tuning database {}: device '{}' has loaded kernels already; give it before the first call", from,
        device.name));
  device.tuned.store(tuned.get(), std::memory_order_release);
  device.databases.push_back(std::move(tuned));
  return {};
}

}  // namespace

const LoadedKernels* route_to_loaded(Device::Impl& device, const KernelQuery& query) {
  const Result<KernelPlan> plan = jfa::plan(query.spec, wanted(device, query));
  if (!plan) return nullptr;
  std::lock_guard lock(device.kernels.mutex());
  const LoadedKernels* kernels = device.kernels.loaded(query.spec, plan->tuning);
  return kernels ? device.kernels.route(query, kernels) : nullptr;
}

Result<const LoadedKernels*> resolve(Device::Impl& device, const KernelQuery& query) {
  if (!query.tuning && device.tuned.load(std::memory_order_acquire)) {
    if (Status status = resolve_all(device, query.spec, nullptr); !status.ok()) return status;
  }
  const Result<const LoadedKernels*> kernels = load_kernels(device, query.spec, wanted(device, query));
  if (!kernels) return kernels;
  std::lock_guard lock(device.kernels.mutex());
  return device.kernels.route(query, *kernels);
}

Status resolve_all(Device::Impl& device, const KernelSpec& spec, const Tuning* tuning) {
  const TunedClasses* tuned = device.tuned.load(std::memory_order_acquire);
  if (tuning || !tuned) return resolve(device, {spec, {}, tuning}).status();
  // Where nothing is compiled, a bundle may have winners alone: the defaults are missed by who needs them.
  Status usual;
  bool any = false;
  for (const Tuning& winner : tuned->tunings(spec)) {
    if (is_left_out(device, spec, winner)) continue;
    const Status status = load_kernels(device, spec, winner).status();
    any = any || status.ok();
    if (status.ok()) continue;
    if (winner.empty()) {
      usual = status;
    } else {
      leave_out(device, spec, winner, status);
    }
  }
  return any ? Status() : usual;
}

std::vector<Tuning> tunings_of(const Device::Impl& device, const KernelSpec& spec, const Tuning* tuning) {
  if (tuning) return {relevant(*tuning, spec)};
  if (const TunedClasses* tuned = device.tuned.load(std::memory_order_acquire)) return tuned->tunings(spec);
  return {relevant(device.tuning, spec)};
}

TunedDevice tuned_device(const Device::Impl& device) {
  // Behind it are options of the simulation.
  const std::size_t options =
      device.name.starts_with("sim:") ? device.gpu_name.find(" (") : std::string::npos;
  return {device.gpu_name.substr(0, options), device.sm_count};
}

Status use_tuning_database(Device::Impl& device, const std::string& path) {
  const Result<ReadDatabase> database = read_database(*posix_file_system(), path);
  if (!database) return database.status();
  for (const std::string& complaint : database->complaints)
    log(LogLevel::kWarning, "tuning database: left out: " + complaint);
  return use_records(device, database->records, path);
}

void use_environment_tuning(Device::Impl& device) {
  if (const char* path = std::getenv("JFA_TUNING_DB"); path && *path) {
    if (Status status = use_tuning_database(device, path); !status.ok())
      log(LogLevel::kWarning, "JFA_TUNING_DB is left out: " + status.message());
    return;
  }
  const Result<CacheOptions> options = cache_options_from_environment();
  if (!options) return;  // the first kernel's error
  std::vector<TuningRecord> records;
  for (const std::string& path : options->bundles) {
    const auto bundle = Bundle::open(posix_file_system(), path);
    if (!bundle) continue;  // the cache warns of it
    Result<std::vector<TuningRecord>> some = bundled_records(**bundle);
    if (!some) {
      log(LogLevel::kWarning, path + ": its tuning database is left out: " + some.status().message());
      continue;
    }
    std::ranges::move(*some, std::back_inserter(records));
  }
  if (!records.empty()) (void)use_records(device, records, "of the bundles");  // no kernel is loaded yet
}

TunedChoice explain_tuning(const Device::Impl& device, const ProblemClass& problem) {
  if (const TunedClasses* tuned = device.tuned.load(std::memory_order_acquire)) return tuned->choose(problem);
  return {{}, {}, "no tuning database is in use: the defaults"};
}

}  // namespace jfa
