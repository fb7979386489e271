#include "runtime/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cache/log_record.h"
#include "generator/plan/family.h"
#include "runtime/clusters.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "runtime/log.h"
#include "runtime/ranges.h"
#include "runtime/watchers.h"

namespace jfa {
namespace {

// Of one kernel, that are tried before the driver's word is final: those of a cache's places and a new one.
constexpr int kMaxImages = 16;

// A library that is unloaded unless keep() is called.
class Library {
 public:
  explicit Library(const DriverTable& driver) : driver_(driver) {}
  ~Library() {
    if (library_) (void)driver_.cuLibraryUnload(library_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  CUlibrary* address() { return &library_; }
  CUlibrary get() const { return library_; }
  void keep() { library_ = nullptr; }

 private:
  const DriverTable& driver_;
  CUlibrary library_ = nullptr;
};

// The driver's verdict on the image itself, rather than on the state of the device. Any step of loading can
// tell: a lazy driver takes even junk for a library, and has the error for the first entry that is asked for.
bool refuses_image(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC:
    // PTX where a cubin should be, which loads without a compiler in the driver.
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_NOT_FOUND:  // no such entry
      return true;
    default:
      return false;
  }
}

CUresult load_library(Device::Impl& device, const KernelImage& image, CUlibrary* library, std::string* log) {
  log->assign(16 * 1024, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log->data(), reinterpret_cast<void*>(log->size())};
  // std::string ends the PTX with the NUL that is asked for.
  const std::string& code = device.image_kind == ImageKind::kCubin ? image.cubin : image.ptx;
  if (code.empty()) return CUDA_ERROR_INVALID_IMAGE;  // the driver would read on behind it
  const CUresult result =
      device.driver.cuLibraryLoadData(library, code.c_str(), options, values, 2, nullptr, nullptr, 0);
  log->resize(std::min(log->find('\0'), log->size()));
  return result;
}

// As many CTAs as the device holds at once: persistent CTAs that wait for one another must all be resident.
CUresult count_resident(Device::Impl& device, const KernelPlan& plan, LoadedEntry& entry) {
  entry.resident_ctas = 1;
  if (entry.plan.grid == EntryPlan::Grid::kOneCta) return CUDA_SUCCESS;
  int per_sm = 0;
  CUresult result = device.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &per_sm, entry.function, entry.plan.threads, static_cast<std::size_t>(entry.plan.shared_bytes));
  if (entry.plan.grid == EntryPlan::Grid::kPersistent && plan.tensor_memory_columns > 0)
    per_sm =
        std::min(per_sm, row_of(plan.spec.target).family->limits.tensor_columns / plan.tensor_memory_columns);
  entry.resident_ctas = per_sm * device.sm_count;
  if (result != CUDA_SUCCESS || entry.plan.cluster == 1) return result;
  int clusters = 0;
  result = count_clusters(device.driver, entry.function, entry.plan, &clusters);
  entry.resident_ctas = std::min(clusters, entry.resident_ctas / entry.plan.cluster) * entry.plan.cluster;
  return result;
}

// An entry of clusters may have no place: calls then take the others, unless they were told not to.
Status check_resident(const Device::Impl& device, const KernelPlan& plan, const LoadedEntry& entry,
                      const std::string& kernels_name) {
  if (entry.resident_ctas > 0) return {};
  const EntryPlan& wanted = entry.plan;
  if (wanted.cluster == 1)
    return device.failure(
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        fmt::format("fitting {} of {} ({} threads, {} bytes of shared memory) on a multiprocessor",
                    wanted.name, kernels_name, wanted.threads, wanted.shared_bytes));
  if (!plan.backward().two_cta->on) return {};
  return Status::unsupported(
      fmt::format("two_cta = 2 (on), but device '{}' cannot place clusters of {} CTAs of {} ({} threads, {} "
                  "bytes of shared memory each)",
                  device.name, wanted.cluster, wanted.name, wanted.threads, wanted.shared_bytes));
}

Result<LoadedEntry> load_entry(Device::Impl& device, CUlibrary library, const KernelPlan& plan,
                               const EntryPlan& entry_plan, const std::string& kernels_name,
                               bool* image_refused) {
  const DriverTable& driver = device.driver;
  LoadedEntry entry{entry_plan};
  CUkernel kernel = nullptr;
  CUresult result = driver.cuLibraryGetKernel(&kernel, library, entry_plan.name.c_str());
  if (result == CUDA_SUCCESS && entry_plan.shared_bytes > 0) {
    result = driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         entry_plan.shared_bytes, kernel, device.device);
  }
  entry.function = reinterpret_cast<CUfunction>(kernel);  // as the driver documents for its launch functions
  if (result == CUDA_SUCCESS) result = count_resident(device, plan, entry);
  *image_refused = refuses_image(result);
  if (result != CUDA_SUCCESS)
    return device.failure(result, fmt::format("loading {} of {}", entry_plan.name, kernels_name));
  if (Status status = check_resident(device, plan, entry, kernels_name); !status.ok()) return status;
  return entry;
}

// The driver's log, where it wrote one, says more than what failure() found.
Status with_log(const Status& status, const std::string& log) {
  return log.empty() ? status : Status(status.kind(), status.message(), log);
}

Result<LoadedKernels> load(Device::Impl& device, const KernelPlan& plan, const KernelImage& image,
                           bool* image_refused) {
  LoadedKernels kernels;
  kernels.plan = plan;
  kernels.name = name(plan);
  const RelaxedCapture relaxed(device.driver);
  const ContextGuard guard(device.driver, device.context);
  if (guard.result() != CUDA_SUCCESS) return device.failure(guard.result(), "making its context current");

  Library library(device.driver);
  std::string log;
  CUresult result = load_library(device, image, library.address(), &log);
  if (result != CUDA_SUCCESS) {
    *image_refused = refuses_image(result);
    return with_log(device.failure(result, "loading " + kernels.name), log);
  }
  for (const EntryPlan* entry_plan : entries_of(plan)) {
    Result<LoadedEntry> entry =
        load_entry(device, library.get(), plan, *entry_plan, kernels.name, image_refused);
    if (!entry) return with_log(entry.status(), log);
    kernels.entries.push_back(*std::move(entry));
  }
  library.keep();
  return kernels;
}

void report_loaded(const Device::Impl& device, const LoadedKernels& kernels,
                   std::chrono::duration<double, std::milli> elapsed) {
  if (!log_wants(LogLevel::kInfo)) return;
  log(LogLevel::kInfo, log_record({"load", device.name, kernels.name, kernels.request,
                                   fmt::format("{:.1f}", elapsed.count())}));
}

}  // namespace

const LoadedEntry& LoadedKernels::entry(std::string_view entry_name) const {
  return *std::ranges::find(entries, entry_name,
                            [](const LoadedEntry& entry) { return std::string_view(entry.plan.name); });
}

bool LoadedKernels::has_clusters() const {
  return std::ranges::all_of(entries, [](const LoadedEntry& entry) { return entry.resident_ctas > 0; });
}

KernelTable::~KernelTable() {
  for (std::atomic<Route*>& bucket : buckets_) {
    for (Route* route = bucket.load(std::memory_order_relaxed); route;)
      delete std::exchange(route, route->next);
  }
}

std::size_t KernelTable::bucket_of(const KernelQuery& query) {
  const KernelSpec& spec = query.spec;
  std::size_t hash = 0;
  for (const int field : {spec.visibility.left.value_or(-1), spec.visibility.right.value_or(-1),
                          static_cast<int>(spec.visibility.alignment), static_cast<int>(spec.pass),
                          static_cast<int>(spec.dtype), spec.padded_dim, static_cast<int>(spec.broadcast_q),
                          spec.groups, static_cast<int>(spec.target),
                          int{query.size.items} + 32 * query.size.query_rows + 1024 * query.size.key_rows})
    hash = hash * 31 + static_cast<std::size_t>(field);
  return hash % std::tuple_size_v<decltype(buckets_)>;
}

const LoadedKernels* KernelTable::find(const KernelQuery& query) const {
  for (const Route* route = buckets_[bucket_of(query)].load(std::memory_order_acquire); route;
       route = route->next) {
    const bool same_tuning = query.tuning ? route->tuning && *route->tuning == *query.tuning : !route->tuning;
    if (same_tuning && route->size == query.size && route->spec == query.spec) return route->kernels;
  }
  return nullptr;
}

const LoadedKernels* KernelTable::loaded(const KernelSpec& spec, const Tuning& unusual) const {
  const auto found = std::ranges::find_if(loaded_, [&](const LoadedKernels& kernels) {
    return kernels.plan.spec == spec && kernels.plan.tuning == unusual;
  });
  return found == loaded_.end() ? nullptr : &*found;
}

const LoadedKernels* KernelTable::insert(LoadedKernels kernels) {
  return &loaded_.emplace_back(std::move(kernels));
}

const LoadedKernels* KernelTable::route(const KernelQuery& query, const LoadedKernels* kernels) {
  if (const LoadedKernels* found = find(query)) return found;
  std::atomic<Route*>& bucket = buckets_[bucket_of(query)];
  bucket.store(new Route{query.spec, query.size, query.tuning ? std::optional(*query.tuning) : std::nullopt,
                         kernels, bucket.load(std::memory_order_relaxed)},
               std::memory_order_release);
  return kernels;
}

Result<const LoadedKernels*> load_kernels(Device::Impl& device, const KernelSpec& spec,
                                          const Tuning& tuning) {
  const Result<KernelPlan> plan = jfa::plan(spec, tuning);
  if (!plan) return plan.status();
  {
    std::lock_guard lock(device.kernels.mutex());
    if (const LoadedKernels* found = device.kernels.loaded(spec, plan->tuning)) return found;
  }
  const KernelSource source = emit(*plan, device.line_info);
  const Range range((call_watchers.load(std::memory_order_relaxed) & kRangeWatcher) != 0,
                    ("load " + name(*plan)).c_str());

  // An image that the driver refuses is thrown out of the cache. Another place may have a better one; the
  // last resort is to make it anew, once.
  Status refused;
  for (int attempt = 0; attempt < kMaxImages; ++attempt) {
    bool compiled = false;
    const Result<SharedImage> image =
        compile(source, &compiled);  // outside the lock: other kernels may load meanwhile
    if (!image) return image.status();
    const HeldLog held;  // a callback may load kernels itself
    std::lock_guard lock(device.kernels.mutex());
    if (const LoadedKernels* found = device.kernels.loaded(spec, plan->tuning)) return found;
    if (Status status = device.make_pool(); !status.ok()) return status;
    if (Status status = device.make_reports(); !status.ok()) return status;
    bool image_refused = false;
    const auto start = std::chrono::steady_clock::now();
    Result<LoadedKernels> kernels = load(device, *plan, **image, &image_refused);
    if (kernels) {
      kernels->request = request_key(compile_request(source)).hex().substr(0, 16);
      report_loaded(device, *kernels, std::chrono::steady_clock::now() - start);
      return device.kernels.insert(*std::move(kernels));
    }
    refused = kernels.status();
    if (!image_refused) break;
    discard(source, **image, refused.message());
    if (compiled && attempt > 0) break;
  }
  return refused;
}

}  // namespace jfa
