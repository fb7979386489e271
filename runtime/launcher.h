// Launching on one stream of one device, and what is said of it when something fails.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "jfa/attention.h"
#include "runtime/call_watch.h"
#include "runtime/device.h"
#include "runtime/kernels.h"

namespace jfa {

/// A tensor that an entry reads or writes by tensor map.
struct MapOperand {
  std::string_view name;
  const Tensor& tensor;  // normalised
  const OperandPlan& cut;
  int box_rows;
};

/// When an entry may start. kOverlapping: as soon as the kernel before it in the stream lets it; the entry
/// itself waits before it reads what that kernel writes.
enum class Start { kAfter, kOverlapping };

/// What a launch says beyond its shape; a configuration points into it.
class LaunchAttributes {
 public:
  LaunchAttributes(const EntryPlan& entry, Start start);
  std::span<CUlaunchAttribute> list() { return std::span(attributes_).first(count_); }

 private:
  std::array<CUlaunchAttribute, 2> attributes_{};
  std::size_t count_ = 0;
};

/// Without its stream.
CUlaunchConfig launch_config(const EntryPlan& entry, int ctas, LaunchAttributes& attributes);

/// The device's context is current for all members. Errors: kDevice names entry, configuration, stream and
/// device.
class Launcher {
 public:
  Launcher(const Device::Impl& device, const LoadedKernels& kernels, CUstream stream, CallWatch* watch)
      : device_(device), kernels_(kernels), stream_(stream), watch_(watch) {}

  /// maps: as many as operands. substitute: see encode_ragged_map().
  Status encode(std::span<const MapOperand> operands, std::uint64_t substitute, CUtensorMap* maps) const;
  Status launch(const LoadedEntry& entry, int ctas, void** arguments, Start start = Start::kAfter) const;

 private:
  Status failure(CUresult result, std::string_view what) const;
  std::string foreign_stream() const;

  const Device::Impl& device_;
  const LoadedKernels& kernels_;
  CUstream stream_;
  CallWatch* watch_;  // is told of every launch; null: nobody is
};

/// CTAs for `items` of work: as many, or as many clusters, but no more than the device holds at once.
int ctas_for(const LoadedEntry& entry, std::int64_t items);

}  // namespace jfa
