// A batch split between two devices of one process: each has its own memory, kernels and stream, and both
// compute at once. Usage: two_devices [device device], "cuda:0 cuda:1" for two GPUs. The default are two
// simulated ones.
#include <jfa/attention.h>

#include <cstdio>
#include <memory>

#include "device_array.h"

using example::Bf16;
using example::DeviceArray;

namespace {

constexpr std::int64_t kHeads = 2, kHeadDim = 64, kRow = kHeads * kHeadDim;

/// Self-attention of some sequences on one device. Everything that a call is given lies on that device.
class Part {
 public:
  Part(const char* device_name, const std::vector<std::int32_t>& offset, const std::vector<Bf16>& values)
      : device_(jfa::Device::open(device_name).value()),
        query_(device_, std::vector<Bf16>(values.size(), 0)),
        value_(device_, values),
        output_(device_, values.size()),
        offset_(device_, offset) {}

  /// Returns before the attention is done; no context has to be current for it, and none is changed.
  void enqueue() {
    jfa::AttentionCall call;
    call.query = call.key = query_.tensor(kHeads, kHeadDim);
    call.value = value_.tensor(kHeads, kHeadDim);
    call.query_offset = call.key_offset = offset_.offsets();
    jfa::forward(device_, call, output_.tensor(kHeads, kHeadDim), /*lse=*/0).or_throw();
  }

  std::vector<Bf16> finish() {
    device_.synchronize().or_throw();
    return output_.download();
  }

  const char* device_name() const { return device_.name().c_str(); }

 private:
  jfa::Device device_;
  DeviceArray<Bf16> query_, value_, output_;
  DeviceArray<std::int32_t> offset_;
};

}  // namespace

int main(int argc, char** argv) try {
  // Two names, two devices. Options make a second simulated one; its schedule is another, its results are
  // not.
  const char* names[] = {"sim:sm_100a", "sim:sm_100a?schedule=random"};
  if (argc == 3) {
    names[0] = argv[1];
    names[1] = argv[2];
  }

  // Four sequences of 3, 1, 4 and 2 tokens, two for each device. Queries of zero make means of the values,
  // which are their token's number in the whole batch.
  const std::vector<std::int32_t> offset{0, 3, 4, 8, 10};
  std::unique_ptr<Part> parts[2];
  for (int i = 0; i < 2; ++i) {
    const std::int32_t first = offset[2 * i], last = offset[2 * i + 2];
    std::vector<Bf16> values;
    for (std::int32_t token = first; token < last; ++token)
      values.insert(values.end(), kRow, static_cast<float>(token));
    parts[i] = std::make_unique<Part>(
        names[i], std::vector<std::int32_t>{0, offset[2 * i + 1] - first, last - first}, values);
  }
  for (const auto& part : parts) part->enqueue();
  for (const auto& part : parts) {
    const std::vector<Bf16> output = part->finish();
    for (std::size_t i = 0; i < output.size(); i += kRow)
      std::printf("%s: %g\n", part->device_name(), float{output[i]});
  }
} catch (const jfa::Error& error) {
  std::fprintf(stderr, "two_devices: %s\n%s\n", error.what(), error.status().detail().c_str());
  return 1;
}
