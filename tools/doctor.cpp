#include "tools/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "cache/bundle.h"
#include "cache/kernel_cache.h"
#include "cache/maintenance.h"
#include "generator/emit.h"
#include "runtime/compile.h"
#include "runtime/driver.h"
#include "runtime/environment_switch.h"
#include "runtime/nvrtc.h"
#include "tools/doctor_clusters.h"
#include "tools/environment_report.h"

namespace jfa::tools {
namespace {

constexpr const char* kSimulator = "sim:sm_100a";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

GpuFacts gpu_facts(const DriverTable& driver, int ordinal) {
  GpuFacts gpu;
  gpu.device = fmt::format("cuda:{}", ordinal);
  CUdevice device = 0;
  char name[256] = "";
  std::size_t memory_bytes = 0;
  const bool answers = driver.cuDeviceGet(&device, ordinal) == CUDA_SUCCESS &&
                       driver.cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS &&
                       driver.cuDeviceGetAttribute(&gpu.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                                   device) == CUDA_SUCCESS &&
                       driver.cuDeviceGetAttribute(&gpu.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                                   device) == CUDA_SUCCESS &&
                       driver.cuDeviceTotalMem(&memory_bytes, device) == CUDA_SUCCESS;
  if (!answers) {
    gpu.message = "does not answer";
    return gpu;
  }
  gpu.name = name;
  gpu.memory_bytes = memory_bytes;
  const Result<Target> target = target_for_device(gpu.major, gpu.minor);
  if (target) gpu.target = *target;
  gpu.message = target.status().message();
  examine_clusters(driver, device, gpu);
  return gpu;
}

void examine_driver(Diagnosis& found) {
  const Result<const DriverTable*> opened = open_cuda_driver();
  if (!opened) {
    found.driver.message = opened.status().message();
    return;
  }
  const DriverTable& driver = **opened;
  int version = 0;
  int count = 0;
  if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
      driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    found.driver.message = "opened, but it does not answer";
    return;
  }
  found.driver.available = true;
  found.driver.cuda_major = version / 1000;
  found.driver.cuda_minor = version % 1000 / 10;
  for (int ordinal = 0; ordinal < count; ++ordinal) found.gpus.push_back(gpu_facts(driver, ordinal));
}

CompilerFacts examine_compiler() {
  CompilerFacts compiler;
  compiler.places = nvrtc_places(NvrtcSearch::from_process());
  const auto opened = Nvrtc::instance();
  if (!opened) {
    compiler.message = opened.status().message();
    return compiler;
  }
  const Nvrtc& nvrtc = **opened;
  compiler.available = true;
  compiler.version = nvrtc.version();
  compiler.path = nvrtc.path();
  compiler.origin = nvrtc.origin();
  compiler.identity = nvrtc.identity();
  compiler.missing_builtins = nvrtc.missing_builtins();
  for (const Target target : all_targets()) {
    if (is_virtual(target)) continue;  // known or unknown with the real one
    const Status status = nvrtc.knows(std::string(to_string(target)));
    compiler.targets[target] = status.message();
    compiler.usable = compiler.usable || (status.ok() && compiler.missing_builtins.empty());
  }
  return compiler;
}

// Whether this version of the library would ask for that kernel: it has a configuration of that name, which
// makes the very same request, JFA_LINE_INFO included.
bool is_asked_for(const Entry& entry) {
  const std::optional<KernelSpec> spec = spec_named(entry.image.name);
  if (!spec) return false;  // a tuned one, too
  const Result<bool> line_info = wants_line_info();
  const Result<KernelSource> source = source_of(*spec, {}, line_info && *line_info);
  return source && fields_of(compile_request(*source)) == entry.fields;
}

void count(const Result<Entry>& entry, StoreFacts& store) {
  if (!entry) return;  // it is among the damaged ones, if the store was checked for them
  const Result<Target> target = parse_target(entry->image.target);
  if (target && is_asked_for(*entry)) {
    ++store.kernels[*target];
  } else {
    ++store.other_version;
  }
}

void count_entries(EntryDirectory& directory, StoreFacts& store) {
  for (const StoredEntry& stored : stored_entries(directory)) {
    store.bytes += stored.bytes;
    count(peek(directory.files(), stored), store);
  }
}

StoreFacts examine_read_only_directory(const std::string& path) {
  StoreFacts store{StoreFacts::Kind::kReadOnlyDirectory, path};
  EntryDirectory directory(posix_file_system(), path, EntryDirectory::Access::kReadOnly);
  std::string resolved;
  Status status = directory.check();
  if (const auto error = directory.files().resolve(path, resolved); status.ok() && error)
    status = Status::unavailable(error.message());
  store.message = status.message();
  store.usable = status.ok();
  if (!status.ok()) return store;
  count_entries(directory, store);
  for (const DamagedEntry& damage : verify(directory, /*move_aside=*/false))
    store.damaged.push_back({damage.path, damage.damage});
  return store;
}

StoreFacts examine_bundle(const std::string& path) {
  StoreFacts store{StoreFacts::Kind::kBundle, path};
  const auto bundle = Bundle::open(posix_file_system(), path);
  store.usable = bundle.ok();
  if (!bundle) {
    store.message = bundle.status().message();
    const std::string prefix = "bundle " + path + ": ";
    if (store.message.starts_with(prefix)) store.message.erase(0, prefix.size());
    return store;
  }
  std::map<Digest, std::string> damage;
  for (const BundleDamage& damaged : verify(**bundle)) damage[damaged.row.checksum] = damaged.damage;
  for (const BundleRow& row : (*bundle)->rows()) {
    store.bytes += row.bytes;
    const Result<Entry> entry = (*bundle)->peek(row);
    const auto found = damage.find(row.checksum);
    if (found == damage.end()) {
      count(entry, store);
    } else {
      store.damaged.push_back({entry ? entry->image.name : row.request.hex(), found->second});
    }
  }
  return store;
}

void examine_cache(Diagnosis& found) {
  Result<CacheOptions> options = cache_options_from_environment();
  if (!options) {
    found.problems.push_back(options.status().message());
    return;
  }
  found.settings_are_known = true;
  found.policy = options->compile;
  CacheOptions own = *options;
  own.read_only_directories.clear();  // each of them is opened below
  own.bundles.clear();
  own.compiler = found.compiler.identity;
  const KernelCache::State state = KernelCache(std::move(own)).state();
  if (state.directory.empty()) {
    found.memory_only = state.reason;
    if (is_set("JFA_CACHE_DIR") && !options->directory.empty())
      found.problems.push_back("JFA_CACHE_DIR: " + state.reason);
    else if (!options->no_directory_reason.empty())
      found.warnings.push_back("kernels are kept in memory only: " + state.reason);
  } else {
    StoreFacts store{StoreFacts::Kind::kDirectory, state.directory};
    store.writable = state.writable;
    store.message = state.reason;
    store.usable = true;
    EntryDirectory directory(posix_file_system(), state.directory, EntryDirectory::Access::kPrivate);
    count_entries(directory, store);
    if (options->write && !state.writable) {
      auto& list = is_set("JFA_CACHE_DIR") ? found.problems : found.warnings;
      list.push_back(fmt::format("{} cannot be written: {}", state.directory, state.reason));
    }
    found.stores.push_back(std::move(store));
  }
  for (const std::string& path : options->read_only_directories)
    found.stores.push_back(examine_read_only_directory(path));
  for (const std::string& path : options->bundles) found.stores.push_back(examine_bundle(path));
  for (const StoreFacts& store : found.stores) {
    if (store.kind == StoreFacts::Kind::kDirectory) continue;
    if (!store.usable)
      found.problems.push_back(fmt::format("{} cannot be used: {}", store.path, store.message));
    if (!store.damaged.empty())
      found.problems.push_back(fmt::format("{}: {} damaged kernels", store.path, store.damaged.size()));
    if (store.other_version > 0)
      found.warnings.push_back(fmt::format(
          "{}: {} kernels are never asked for: of another version of this library, tuned, or not as "
          "JFA_LINE_INFO says",
          store.path, store.other_version));
  }
}

// Whether the kernels of a device, or any, can be had one way or the other.
void judge_kernels(Diagnosis& found) {
  const bool compiles = found.policy == CompilePolicy::kAuto;
  if (compiles && !found.compiler.available && is_set("JFA_NVRTC"))
    found.problems.push_back(found.compiler.message);
  const std::string why =
      !compiles                   ? "JFA_COMPILE=never"
      : !found.compiler.available ? "there is no NVRTC"
      : !found.compiler.missing_builtins.empty()
          ? fmt::format("NVRTC's companion {} is missing", found.compiler.missing_builtins)
          : fmt::format("NVRTC {} ({}) is too old", found.compiler.version, found.compiler.path);
  bool any = false;
  for (const Target target : all_targets())
    any = any || found.can_compile(target) || found.kernels_for(target) > 0;
  if (!any) {
    found.problems.push_back(
        fmt::format("nothing can be compiled here, as {}, and no kernel is at hand", why));
  }
  for (const GpuFacts& gpu : found.gpus) {
    if (!gpu.target) continue;
    if (any && !found.can_compile(*gpu.target) && found.kernels_for(*gpu.target) == 0)
      found.problems.push_back(
          fmt::format("{} has no kernel: for {} nothing can be compiled here, as {}, and "
                      "none is at hand",
                      gpu.device, to_string(*gpu.target), why));
  }
  if (any && !found.compiler.usable && compiles)
    found.warnings.push_back(
        fmt::format("only kernels that are at hand can run: nothing can be compiled here, as {}", why));
}

void judge(Diagnosis& found, bool require_gpu) {
  if (found.settings_are_known) judge_kernels(found);
  const bool usable_gpu =
      std::ranges::any_of(found.gpus, [](const GpuFacts& gpu) { return gpu.target.has_value(); });
  if (require_gpu && !usable_gpu)
    found.problems.push_back(found.driver.available ? "no GPU that there are kernels for"
                                                    : "no GPU: " + found.driver.message);
}

}  // namespace

std::uint64_t StoreFacts::usable_kernels() const {
  return std::accumulate(kernels.begin(), kernels.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& entry) { return sum + entry.second; });
}

bool Diagnosis::can_compile(Target target) const {
  if (policy == CompilePolicy::kNever || !compiler.missing_builtins.empty()) return false;
  const auto known = compiler.targets.find(target);
  return known != compiler.targets.end() && known->second.empty();
}

std::uint64_t Diagnosis::kernels_for(Target target) const {
  std::uint64_t sum = 0;
  for (const StoreFacts& store : stores)
    if (const auto found = store.kernels.find(target); store.usable && found != store.kernels.end())
      sum += found->second;
  return sum;
}

Diagnosis diagnose(bool require_gpu) {
  Diagnosis found;
  examine_driver(found);
  found.compiler = examine_compiler();
  examine_cache(found);
  EnvironmentReport environment = environment_report();
  found.environment = std::move(environment.set);
  found.warnings.insert(found.warnings.end(), environment.unknown.begin(), environment.unknown.end());
  found.problems.insert(found.problems.end(), environment.unusable.begin(), environment.unusable.end());
  judge(found, require_gpu);
  found.device = kSimulator;
  for (auto gpu = found.gpus.rbegin(); gpu != found.gpus.rend(); ++gpu)
    if (gpu->target) found.device = gpu->device;
  return found;
}

}  // namespace jfa::tools
