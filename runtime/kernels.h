// Kernels of one device: loaded once, found without a lock.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/plan.h"
#include "jfa/attention.h"
#include "tuning/problem_class.h"

namespace jfa {

struct LoadedEntry {
  EntryPlan plan;
  CUfunction function = nullptr;
  // As many as the whole device holds at once, in whole clusters; 1 for an entry of one CTA. 0: the device
  // cannot place the entry's clusters.
  int resident_ctas = 0;
};

/// One specialisation, loaded on one device.
struct LoadedKernels {
  KernelPlan plan;
  std::string name;                  // of the specialisation
  std::string request;               // its key in the cache, as messages have it
  std::vector<LoadedEntry> entries;  // in the order of entries_of(plan)

  /// The entry of that name, which the plan has.
  const LoadedEntry& entry(std::string_view entry_name) const;
  /// Whether the device can place the clusters of all entries.
  bool has_clusters() const;
};

/// What a call's kernels are found by.
struct KernelQuery {
  const KernelSpec& spec;
  SizeClass size = {};             // where a database has tunings by size; else left out
  const Tuning* tuning = nullptr;  // the caller's
};

/// Grows only: a kernel stays loaded for the life of its device, because a captured graph may still launch
/// it. That is what lets readers go without a lock. Several queries may lead to one kernel.
class KernelTable {
 public:
  KernelTable() = default;
  ~KernelTable();
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  /// nullptr if it is not there. Wait-free.
  const LoadedKernels* find(const KernelQuery& query) const;
  /// The caller of the following holds mutex().
  /// nullptr if no kernel of that plan is loaded.
  const LoadedKernels* loaded(const KernelSpec& spec, const Tuning& unusual) const;
  const LoadedKernels* insert(LoadedKernels kernels);
  /// From now on find(query) gives `kernels`, which are of this table; what it gives already stays.
  const LoadedKernels* route(const KernelQuery& query, const LoadedKernels* kernels);
  bool empty() const { return loaded_.empty(); }
  /// For those who add: loading happens under it, once a specialisation.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Route {
    KernelSpec spec;
    SizeClass size;
    std::optional<Tuning> tuning;
    const LoadedKernels* kernels;
    Route* next;
  };
  static std::size_t bucket_of(const KernelQuery& query);

  std::array<std::atomic<Route*>, 256> buckets_{};
  std::deque<LoadedKernels> loaded_;  // addresses stay
  std::mutex mutex_;
};

/// Compiles (or finds in the cache) and loads the kernels of `spec` with `tuning`, unless they are there
/// already.
/// Errors: of plan(), NVRTC and the cache; kDevice from loading, with the driver's log in detail();
/// kUnsupported if two_cta is on and the device cannot place its clusters.
Result<const LoadedKernels*> load_kernels(Device::Impl& device, const KernelSpec& spec, const Tuning& tuning);

}  // namespace jfa
