// Kernels of one device: loaded once, found without a lock.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "generator/plan.h"
#include "jfa/attention.h"

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

/// Grows only: a kernel stays loaded for the life of its device, because a captured graph may still launch
/// it. That is what lets readers go without a lock.
class KernelTable {
 public:
  KernelTable() = default;
  ~KernelTable();
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  /// nullptr if it is not there. Wait-free.
  const LoadedKernels* find(const KernelSpec& spec) const;
  /// The caller holds mutex() and has looked for it.
  const LoadedKernels* insert(LoadedKernels kernels);
  /// For those who add: loading happens under it, once a specialisation.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Node {
    LoadedKernels kernels;
    Node* next;
  };
  static std::size_t bucket_of(const KernelSpec& spec);

  std::array<std::atomic<Node*>, 256> buckets_{};
  std::mutex mutex_;
};

/// Compiles (or finds in the cache) and loads what `spec` asks for, unless it is there already.
/// Errors: of plan(), NVRTC and the cache; kDevice from loading, with the driver's log in detail();
/// kUnsupported if two_cta is on and the device cannot place its clusters.
Result<const LoadedKernels*> resolve(Device::Impl& device, const KernelSpec& spec);

}  // namespace jfa
