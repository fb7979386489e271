// A CUDA driver for tests: it keeps books on every call, computes nothing, and fails when told to.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/driver_table.h"
#include "runtime/device.h"
#include "templates/attention/backward_parameters.h"
#include "templates/attention/parameters.h"

namespace jfa::test {

struct FakeLaunch {
  std::string entry;
  unsigned ctas = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;  // CTAs of one
  CUstream stream = nullptr;
  bool overlapping = false;                               // may start before the launch before it has ended
  CUcontext context = nullptr;                            // current at the launch
  kernel::PrepareArguments prepare{};                     // of jfa_prepare
  kernel::ForwardArguments forward{};                     // of jfa_forward
  kernel::MergeArguments merge{};                         // of jfa_merge
  kernel::BackwardPrepareArguments backward_prepare{};    // of jfa_prepare_backward
  kernel::DeltaArguments delta{};                         // of jfa_delta
  kernel::BackwardArguments backward{};                   // of jfa_backward_keys and jfa_backward_queries
  kernel::SumArguments sum{};                             // of jfa_sum_query_grad
  kernel::BroadcastPrepareArguments broadcast_prepare{};  // of jfa_prepare_broadcast
  kernel::BroadcastArguments broadcast{};                 // of jfa_backward_broadcast
  kernel::ShortArguments short_keys{};                    // of jfa_backward_short
  kernel::TwoCtaArguments two_cta{};                      // of jfa_backward_two_cta
  std::vector<std::uint64_t> map_ids;                     // which encodings an entry's maps are
};

struct FakeMap {
  std::uint64_t address = 0;
  CUtensorMapDataType type{};
  CUtensorMapSwizzle swizzle{};
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> stride_bytes;
  std::vector<std::uint32_t> box;
};

/// The books. One process has one fake driver; reset() starts over. Memory is host memory.
struct FakeDriver {
  // ---- What a test sets.
  int major = 10;
  int minor = 0;
  int sm_count = 4;
  int ctas_per_sm = 1;
  int clusters = 2;  // of two CTAs, that fit at once
  bool memory_pools = true;
  bool maps_host_memory = true;
  int gpu_count = 1;
  std::map<std::uint64_t, int> owners;  // of addresses that are not memory of device 0
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  std::map<std::string, CUresult> failures;  // by name of the call
  std::map<std::string, int> failures_left;  // how often; absent: always

  // ---- What a test reads. Guarded by `mutex` while other threads run.
  std::mutex mutex;
  std::vector<std::string> calls;
  std::vector<FakeLaunch> launches;
  std::vector<FakeMap> maps;
  int libraries_loaded = 0;
  int libraries_unloaded = 0;
  std::string image;                              // the last one loaded
  std::map<std::uint64_t, CUstream> pool_blocks;  // live allocations from the pool
  int live_primary_contexts = 0;
  std::set<void*> host_blocks;  // live, of cuMemHostAlloc; the device has them at the same address

  bool record = true;  // false: keep no list of calls, so that none of its memory is counted
  std::vector<std::unique_ptr<std::uint64_t[]>> memory;

  CUresult call(const char* name);
  int count(const std::string& name) const;
};

FakeDriver& fake_driver();
void reset_fake_driver();
const DriverTable& fake_driver_table();

/// A context that is not the device's primary one, of device `ordinal`.
CUcontext fake_context(int ordinal);
/// Of the calling thread.
CUcontext& fake_current_context();
CUcontext fake_primary_context();

/// The fake driver's only device, attached under the given name.
Device attach_fake_device(ImageKind image_kind = ImageKind::kCubin, const std::string& name = "cuda:0");

}  // namespace jfa::test
