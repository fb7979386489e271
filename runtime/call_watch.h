// What is told of one forward() or backward(): an NVTX range around it, and a record of JFA_VERBOSE=2.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

/// Lives as long as the call. If nobody watches, it costs one relaxed load and does nothing more.
class CallWatch {
 public:
  CallWatch(const Device::Impl& device, Pass pass)
      : watchers_(call_watchers.load(std::memory_order_relaxed)), range_(ranges(), name_of(pass)) {
    if (traces()) [[unlikely]]
      begin(device, pass);
  }

  bool traces() const { return (watchers_ & kTraceWatcher) != 0; }
  bool ranges() const { return (watchers_ & kRangeWatcher) != 0; }

  // For those who trace: what is known when the arguments are valid, then when kernels are loaded.
  void describe(const KernelSpec& spec, const ValidCall& valid, std::uint64_t bytes);
  void loaded(const LoadedKernels& kernels);

  /// An entry was enqueued.
  void launched(std::string_view entry) {
    if (traces()) [[unlikely]]
      add(entry);
  }
  /// The call's last word.
  void ended(const Status& status) {
    if (traces()) [[unlikely]]
      tell(status);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Trace {
    const Device::Impl* device = nullptr;
    Pass pass{};
    Clock::time_point start;
    std::string kernel;
    std::string request;
    std::string entries;
    std::int64_t batch = 0;
    std::int64_t query_rows = 0, key_rows = 0;
    std::int64_t query_heads = 0, key_heads = 0;
    std::int64_t head_dim = 0;
    std::uint64_t bytes = 0;
  };

  static constexpr const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }
  void begin(const Device::Impl& device, Pass pass);
  void add(std::string_view entry);
  void tell(const Status& status) const;

  const unsigned watchers_;
  const Range range_;
  std::optional<Trace> trace_;
};

}  // namespace jfa
