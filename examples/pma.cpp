// Pooling by multi-head attention: the same few queries read every sequence, so that each sequence of any
// length becomes `q_len` rows. Beside it the same without broadcast_q, with a copy of the queries for every
// sequence. Usage: pma [device], "cuda:0" for a GPU. Exit status 1 if the two do not agree.
#include <jfa/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "device_array.h"

using example::Bf16;
using example::DeviceArray;

namespace {

constexpr std::int64_t kBatch = 3, kQueries = 4, kHeads = 2, kHeadDim = 64, kRow = kHeads * kHeadDim;
const std::vector<std::int32_t> kKeyOffset{0, 5, 5, 14};  // 5, 0 and 9 keys
constexpr std::size_t kKeyElements = 14 * kRow, kQueryElements = kQueries * kRow;
constexpr std::size_t kOutputElements = kBatch * kQueryElements;

struct Results {
  std::vector<Bf16> output, query_grad, key_grad, value_grad;
};

/// Forward and backward of a call; query_elements: of its query, the output has kOutputElements in either
/// form.
Results attend(jfa::Device device, const jfa::AttentionCall& call, std::size_t query_elements) {
  DeviceArray<Bf16> output(device, kOutputElements);
  const DeviceArray<float> lse(device, kOutputElements / kHeadDim);
  jfa::forward(device, call, output.tensor(kHeads, kHeadDim), lse.address()).or_throw();

  const DeviceArray<Bf16> output_grad(device, example::random_values(kOutputElements, 3));
  DeviceArray<Bf16> query_grad(device, query_elements), key_grad(device, kKeyElements),
      value_grad(device, kKeyElements);
  jfa::backward(device, call, output.tensor(kHeads, kHeadDim), lse.address(),
                jfa::OutputGradient::of(output_grad.tensor(kHeads, kHeadDim)), /*lse_grad=*/0,
                query_grad.tensor(kHeads, kHeadDim), key_grad.tensor(kHeads, kHeadDim),
                value_grad.tensor(kHeads, kHeadDim))
      .or_throw();
  device.synchronize().or_throw();
  return {output.download(), query_grad.download(), key_grad.download(), value_grad.download()};
}

/// Says how far two results are apart; whether that is within the roundings to bf16.
bool agree(const char* name, const std::vector<Bf16>& left, const std::vector<float>& right) {
  float largest = 0, worst = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    largest = std::max(largest, std::abs(right[i]));
    worst = std::max(worst, std::abs(left[i] - right[i]));
  }
  std::printf("%s: largest %.3f, at most %.4f apart\n", name, largest, worst);
  return left.size() == right.size() && worst < largest / 64;
}

std::vector<float> widened(const std::vector<Bf16>& values) { return {values.begin(), values.end()}; }

}  // namespace

int main(int argc, char** argv) try {
  const jfa::Device device = jfa::Device::open(argc > 1 ? argv[1] : "sim:sm_100a").value();
  const std::vector<Bf16> host_query = example::random_values(kQueryElements, 0);
  const DeviceArray<Bf16> query(device, host_query), key(device, example::random_values(kKeyElements, 1)),
      value(device, example::random_values(kKeyElements, 2));
  const DeviceArray<std::int32_t> key_offset(device, kKeyOffset);

  // The query is one sequence [q_len, heads, head_dim]; a query_offset is not needed. Output rows of sequence
  // b start at b * q_len. The sequence without keys gives rows of zeros.
  jfa::AttentionCall pooling;
  pooling.broadcast_q = true;
  pooling.query = query.tensor(kHeads, kHeadDim);
  pooling.key = key.tensor(kHeads, kHeadDim);
  pooling.value = value.tensor(kHeads, kHeadDim);
  pooling.key_offset = key_offset.offsets();
  const Results pooled = attend(device, pooling, kQueryElements);

  std::vector<Bf16> copies;
  std::vector<std::int32_t> host_query_offset{0};
  for (std::int64_t b = 0; b < kBatch; ++b) {
    copies.insert(copies.end(), host_query.begin(), host_query.end());
    host_query_offset.push_back(host_query_offset.back() + kQueries);
  }
  const DeviceArray<Bf16> repeated_query(device, copies);
  const DeviceArray<std::int32_t> query_offset(device, host_query_offset);
  jfa::AttentionCall repeating = pooling;
  repeating.broadcast_q = false;
  repeating.query = repeated_query.tensor(kHeads, kHeadDim);
  repeating.query_offset = query_offset.offsets();
  const Results repeated = attend(device, repeating, kOutputElements);

  // The shared query's gradient is the sum over the batch.
  std::vector<float> summed(kQueryElements);
  for (std::size_t i = 0; i < kOutputElements; ++i) summed[i % kQueryElements] += repeated.query_grad[i];
  const bool right[] = {agree("output", pooled.output, widened(repeated.output)),
                        agree("query_grad", pooled.query_grad, summed),
                        agree("key_grad", pooled.key_grad, widened(repeated.key_grad)),
                        agree("value_grad", pooled.value_grad, widened(repeated.value_grad))};
  return std::all_of(std::begin(right), std::end(right), [](bool one) { return one; }) ? 0 : 1;
} catch (const jfa::Error& error) {
  std::fprintf(stderr, "pma: %s\n%s\n", error.what(), error.status().detail().c_str());
  return 1;
}
