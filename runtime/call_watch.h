// What is told of one forward() or backward(): an NVTX range around it, and a record of JFA_VERBOSE=2.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "generator/spec.h"
#include "jfa/attention.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/ranges.h"
#include "runtime/validate.h"
#include "runtime/watchers.h"

namespace jfa {

/// Lives as long as a call that somebody watches.
class CallWatch {
 public:
  CallWatch(const Device::Impl& device, Pass pass, unsigned watchers)
      : watchers_(watchers), range_(ranges(), name_of(pass)), device_(device), pass_(pass) {}

  bool traces() const { return (watchers_ & kTraceWatcher) != 0; }
  bool ranges() const { return (watchers_ & kRangeWatcher) != 0; }

  // What the record says, if traces().
  /// When the arguments are valid.
  void describe(const KernelSpec& spec, const ValidCall& valid, std::uint64_t bytes);
  /// When the kernels are loaded.
  void loaded(const LoadedKernels& kernels) { request_ = kernels.request; }
  /// An entry was enqueued.
  void launched(std::string_view entry);
  /// Writes the record.
  void ended(const Status& status) const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

  const unsigned watchers_;
  const Range range_;
  const Clock::time_point start_ = Clock::now();
  const Device::Impl& device_;
  const Pass pass_;
  std::string kernel_, request_, entries_;
  std::int64_t batch_ = 0;
  std::int64_t query_rows_ = 0, key_rows_ = 0;
  std::int64_t query_heads_ = 0, key_heads_ = 0;
  std::int64_t head_dim_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The whole of a public call: `enqueue` takes a CallWatch*, null if nobody watches, which costs no more than
/// one relaxed load.
template <class Enqueue>
Status watched(const Device::Impl& device, Pass pass, Enqueue enqueue) {
  const unsigned watchers = call_watchers.load(std::memory_order_relaxed);
  if (watchers == 0) [[likely]]
    return enqueue(nullptr);
  CallWatch watch(device, pass, watchers);
  Status status = enqueue(&watch);
  if (watch.traces()) watch.ended(status);
  return status;
}

}  // namespace jfa
