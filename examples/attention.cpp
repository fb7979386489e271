// Jagged attention in one call: three sequences of unequal length, packed without padding.
// Usage: attention [device], "cuda:0" for a GPU. The default is a Blackwell simulated on the CPU.
#include <jfa/attention.h>

#include <bit>
#include <cstdio>
#include <vector>

namespace {

using Bf16 = std::uint16_t;
Bf16 to_bf16(float value) { return static_cast<Bf16>(std::bit_cast<std::uint32_t>(value) >> 16); }
float to_float(Bf16 bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <class T>
std::uint64_t to_device(jfa::Device& device, const std::vector<T>& host) {
  const std::uint64_t bytes = host.size() * sizeof(T);
  const std::uint64_t address = device.allocate(bytes).value();
  device.upload(address, host.data(), bytes).or_throw();
  return address;
}

}  // namespace

int main(int argc, char** argv) try {
  jfa::Device device = jfa::Device::open(argc > 1 ? argv[1] : "sim:sm_100a").value();

  // Sequence b owns rows [offset[b], offset[b + 1]): queries 2, 0, 3 and keys 4, 5, 1.
  const std::vector<std::int32_t> query_offset{0, 2, 2, 5}, key_offset{0, 4, 9, 10};
  const std::int64_t queries = 5, keys = 10, heads = 2, head_dim = 64;

  // With queries of zero every key weighs the same, so each output is the mean of its sequence's values.
  std::vector<Bf16> query(queries * heads * head_dim), key(keys * heads * head_dim, to_bf16(1)),
      value(key.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::size_t row = i / (heads * head_dim);
    value[i] = to_bf16(static_cast<float>(row));
  }

  const auto packed = [&](std::uint64_t address, std::int64_t rows) {
    return jfa::Tensor::packed(address, rows, heads, head_dim, jfa::DType::bf16);
  };
  jfa::AttentionCall call;
  call.query = packed(to_device(device, query), queries);
  call.key = packed(to_device(device, key), keys);
  call.value = packed(to_device(device, value), keys);
  call.query_offset = {to_device(device, query_offset), 4, jfa::OffsetType::int32};
  call.key_offset = {to_device(device, key_offset), 4, jfa::OffsetType::int32};

  std::vector<Bf16> output(query.size());
  const jfa::Tensor device_output = packed(to_device(device, output), queries);
  const std::uint64_t workspace_bytes = jfa::workspace_bytes(call).value();
  const jfa::Workspace workspace{device.allocate(workspace_bytes).value(), workspace_bytes};
  jfa::forward(device, call, device_output, /*lse=*/0, workspace).or_throw();
  jfa::status(device, workspace).or_throw();  // waits, and reports bad offsets
  device.download(output.data(), device_output.address, output.size() * sizeof(Bf16)).or_throw();

  for (std::int64_t row = 0; row < queries; ++row)
    std::printf("output row %d: %g\n", static_cast<int>(row), to_float(output[row * heads * head_dim]));
} catch (const jfa::Error& error) {
  std::fprintf(stderr, "attention: %s\n%s\n", error.what(), error.status().detail().c_str());
  return 1;
}
