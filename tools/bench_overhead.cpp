#include "tools/bench_overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/tensor_maps.h"
#include "templates/attention/parameters.h"
#include "tools/bench_data.h"
#include "tools/bench_shapes.h"
#include "tools/bench_timer.h"

namespace jfa::tools {
namespace {

constexpr std::size_t kMaps = 4;
constexpr cuuint32_t kRank = RaggedMap::kRank;

// What one forward() asks of the driver, kept so that it can be asked again without the library.
class RecordedCall {
 public:
  /// Runs `call`, which must make one forward() on a device over recording_table().
  Status record(const std::function<Status()>& call) {
    recording_ = this;
    Status status = call();
    recording_ = nullptr;
    if (!status.ok()) return status;
    if (encodings_.size() != kMaps || launches_.size() != 2)
      return Status::internal(
          fmt::format("forward() encoded {} tensor maps and launched {} kernels, not 4 and 2",
                      encodings_.size(), launches_.size()));
    return {};
  }

  CUresult replay(const DriverTable& driver) {
    for (Encoding& each : encodings_) {
      const CUresult result = driver.cuTensorMapEncodeTiled(
          each.map, each.type, kRank, each.address, each.extents.data(), each.strides.data(), each.box.data(),
          each.element_strides.data(), each.interleave, each.swizzle, each.promotion, each.fill);
      if (result != CUDA_SUCCESS) return result;
    }
    for (Launch& each : launches_) {
      each.config.attrs = each.attributes.data();
      const CUresult result =
          driver.cuLaunchKernelEx(&each.config, each.function, each.arguments.data(), nullptr);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }

  /// `real`, with the two calls also written down.
  static DriverTable recording_table(const DriverTable& real) {
    real_ = &real;
    DriverTable table = real;
    table.cuTensorMapEncodeTiled = &encode;
    table.cuLaunchKernelEx = &launch;
    return table;
  }

 private:
  struct Encoding {
    CUtensorMap* map;  // one of maps_
    CUtensorMapDataType type;
    void* address;
    std::array<cuuint64_t, kRank> extents;
    std::array<cuuint64_t, kRank - 1> strides;
    std::array<cuuint32_t, kRank> box;
    std::array<cuuint32_t, kRank> element_strides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
  };
  struct Launch {
    CUlaunchConfig config;
    std::vector<CUlaunchAttribute> attributes;  // config's
    CUfunction function;
    std::vector<void*> arguments;
  };

  static CUresult CUDAAPI encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
    if (recording_ && recording_->encodings_.size() < kMaps && rank == kRank) {
      Encoding kept{recording_->maps_ + recording_->encodings_.size(),
                    type,
                    address,
                    {},
                    {},
                    {},
                    {},
                    interleave,
                    swizzle,
                    promotion,
                    fill};
      std::copy_n(extents, kRank, kept.extents.begin());
      std::copy_n(strides, kRank - 1, kept.strides.begin());
      std::copy_n(box, kRank, kept.box.begin());
      std::copy_n(element_strides, kRank, kept.element_strides.begin());
      recording_->encodings_.push_back(kept);
    }
    return real_->cuTensorMapEncodeTiled(map, type, rank, address, extents, strides, box, element_strides,
                                         interleave, swizzle, promotion, fill);
  }

  static CUresult CUDAAPI launch(const CUlaunchConfig* config, CUfunction function, void** arguments,
                                 void** extra) {
    if (recording_) recording_->keep_launch(*config, function, arguments);
    return real_->cuLaunchKernelEx(config, function, arguments, extra);
  }

  // The prepare entry takes its arguments alone, the main entry four maps before them.
  void keep_launch(const CUlaunchConfig& config, CUfunction function, void** arguments) {
    Launch kept{config, {config.attrs, config.attrs + config.numAttrs}, function, {}};
    if (launches_.empty()) {
      std::memcpy(&prepare_, arguments[0], sizeof prepare_);
      kept.arguments = {&prepare_};
    } else if (launches_.size() == 1) {
      std::memcpy(&forward_, arguments[kMaps], sizeof forward_);
      for (CUtensorMap& map : maps_) kept.arguments.push_back(&map);
      kept.arguments.push_back(&forward_);
    }
    launches_.push_back(kept);
  }

  inline static RecordedCall* recording_ = nullptr;
  inline static const DriverTable* real_ = nullptr;

  CUtensorMap maps_[kMaps];
  kernel::PrepareArguments prepare_{};
  kernel::ForwardArguments forward_{};
  std::vector<Encoding> encodings_;
  std::vector<Launch> launches_;
};

BenchProblem small_problem() {
  BenchShape shape;
  shape.name = "overhead";
  shape.batch = 1;
  shape.heads = 1;
  shape.head_dim = 128;
  shape.max_kv = 64;
  return draw(shape);
}

// The output as it lies on the device.
Result<std::vector<std::uint16_t>> download(Device& device, const Tensor& output, Stream stream) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(output.rows * output.heads * output.head_dim));
  if (Status status = device.synchronize(stream); !status.ok()) return status;
  Status status = device.download(bits.data(), output.address, bits.size() * sizeof bits[0]);
  if (!status.ok()) return status;
  return bits;
}

// That the replayed call computes what forward() does is what makes it worth comparing with.
Status check_replay(Device& device, RecordedCall& recorded, const BenchTensors& tensors, Stream stream) {
  const Result<std::vector<std::uint16_t>> expected = download(device, tensors.output, stream);
  if (!expected) return expected.status();
  Status status = device.fill(tensors.output.address, 0, expected->size() * sizeof(std::uint16_t));
  if (!status.ok()) return status;
  status = device.impl().with_context("replaying forward()",
                                      [&] { return recorded.replay(device.impl().driver); });
  if (!status.ok()) return status;
  const Result<std::vector<std::uint16_t>> replayed = download(device, tensors.output, stream);
  if (!replayed) return replayed.status();
  if (*replayed != *expected)
    return Status::internal("the replayed launches give another output than forward()");
  return {};
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<Overhead> measure_overhead(Device& device) {
  // The launch queue holds many more calls than a burst; the device catches up between bursts.
  const int bursts = device.simulated() ? 2 : 200;
  const int burst = device.simulated() ? 2 : 20;
  const Device::Impl& impl = device.impl();

  Result<BenchTensors> tensors = BenchTensors::make(device, small_problem(), Pass::forward);
  if (!tensors) return tensors.status();
  const Result<std::unique_ptr<BenchTimer>> timer = BenchTimer::make(device, 1);  // for its stream
  if (!timer) return timer.status();
  const Stream stream = (*timer)->stream();
  const auto call = [&](Device& on, Workspace workspace) {
    return forward(on, tensors->call, tensors->output, 0, workspace, stream);
  };

  const DriverTable table = RecordedCall::recording_table(impl.driver);
  const Result<std::shared_ptr<Device::Impl>> attached =
      Device::Impl::attach({impl.name, &table, impl.device, impl.image_kind, impl.report});
  if (!attached) return attached.status();
  Device recording_device(*attached);
  if (Status status = call(recording_device, tensors->workspace); !status.ok()) return status;  // loads
  RecordedCall recorded;
  Status status = recorded.record([&] { return call(recording_device, tensors->workspace); });
  if (status.ok()) status = check_replay(device, recorded, *tensors, stream);
  if (!status.ok()) return status;

  // As in a program that uses CUDA, the context is current already.
  const ContextGuard guard(impl.driver, impl.context);
  const std::array<std::function<Status()>, 3> variants = {
      [&] { return call(device, tensors->workspace); }, [&] { return call(device, {}); },
      [&] { return impl.failure(recorded.replay(impl.driver), "replaying forward()"); }};
  std::array<std::vector<double>, 3> times_us;
  for (int i = 0; i < bursts * static_cast<int>(variants.size()); ++i) {
    const std::size_t variant = static_cast<std::size_t>(i) % variants.size();
    for (int repeat = 0; repeat < burst; ++repeat) {
      using Clock = std::chrono::steady_clock;
      const Clock::time_point start = Clock::now();
      status = variants[variant]();
      const Clock::time_point end = Clock::now();
      if (!status.ok()) return status;
      times_us[variant].push_back(std::chrono::duration<double, std::micro>(end - start).count());
    }
    if (status = device.synchronize(stream); !status.ok()) return status;
  }
  return Overhead{median(times_us[0]), median(times_us[1]), median(times_us[2])};
}

}  // namespace jfa::tools
