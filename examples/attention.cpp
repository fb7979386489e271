// Jagged attention in one call: three sequences of unequal length, packed without padding.
// Usage: attention [device], "cuda:0" for a GPU. The default is a Blackwell simulated on the CPU.
#include <jfa/attention.h>

#include <cstdio>

#include "device_array.h"

using example::Bf16;
using example::DeviceArray;

int main(int argc, char** argv) try {
  jfa::Device device = jfa::Device::open(argc > 1 ? argv[1] : "sim:sm_100a").value();

  // Sequence b owns rows [offset[b], offset[b + 1]): queries 2, 0, 3 and keys 4, 5, 1.
  const DeviceArray<std::int32_t> query_offset(device, {0, 2, 2, 5}), key_offset(device, {0, 4, 9, 10});
  const std::int64_t queries = 5, keys = 10, heads = 2, head_dim = 64;
  const std::size_t query_elements = queries * heads * head_dim, key_elements = keys * heads * head_dim;

  // With queries of zero every key weighs the same, so each output is the mean of its sequence's values.
  std::vector<Bf16> host_value(key_elements);
  for (std::size_t i = 0; i < host_value.size(); ++i) {
    const std::size_t row = i / (heads * head_dim);
    host_value[i] = static_cast<float>(row);
  }
  const DeviceArray<Bf16> query(device, std::vector<Bf16>(query_elements, 0)),
      key(device, std::vector<Bf16>(key_elements, 1)), value(device, host_value);

  jfa::AttentionCall call;
  call.query = jfa::Tensor::packed(query.address(), queries, heads, head_dim, jfa::DType::bf16);
  call.key = jfa::Tensor::packed(key.address(), keys, heads, head_dim, jfa::DType::bf16);
  call.value = jfa::Tensor::packed(value.address(), keys, heads, head_dim, jfa::DType::bf16);
  call.query_offset = {query_offset.address(), 4, jfa::OffsetType::int32};
  call.key_offset = {key_offset.address(), 4, jfa::OffsetType::int32};

  DeviceArray<Bf16> output(device, query_elements);
  jfa::Tensor output_tensor = call.query;  // the same shape and strides
  output_tensor.address = output.address();
  jfa::forward(device, call, output_tensor, /*lse=*/0).or_throw();  // enqueued on the default stream
  device.synchronize().or_throw();                                  // waits, and tells of bad offsets

  const std::vector<Bf16> result = output.download();
  for (std::int64_t row = 0; row < queries; ++row)
    std::printf("output row %d: %g\n", static_cast<int>(row), float{result[row * heads * head_dim]});
} catch (const jfa::Error& error) {
  std::fprintf(stderr, "attention: %s\n%s\n", error.what(), error.status().detail().c_str());
  return 1;
}
