// Forward and gradients of jagged self-attention, judged by differences of a forward computed in double.
// Usage: backward [device], "cuda:0" for a GPU. Exit status 1 if a gradient is wrong.
#include <jfa/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "device_array.h"

using example::Bf16;
using example::DeviceArray;
using Numbers = std::vector<double>;

namespace {

const std::vector<std::int32_t> kOffset{0, 3, 3, 8};  // sequences of 3, 0 and 5 tokens
constexpr std::int64_t kHeads = 2, kHeadDim = 64;
constexpr std::size_t kElements = 8 * kHeads * kHeadDim;

double dot(const Numbers& a, std::int64_t row_a, const Numbers& b, std::int64_t row_b, std::int64_t head) {
  double sum = 0;
  for (std::int64_t d = 0; d < kHeadDim; ++d)
    sum += a[(row_a * kHeads + head) * kHeadDim + d] * b[(row_b * kHeads + head) * kHeadDim + d];
  return sum;
}

/// What the gradients are gradients of: the sum of output * output_grad.
double loss(const Numbers& query, const Numbers& key, const Numbers& value, const Numbers& output_grad) {
  double total = 0;
  for (std::size_t b = 0; b + 1 < kOffset.size(); ++b)
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t i = kOffset[b]; i < kOffset[b + 1]; ++i) {
        double weights = 0, weighted = 0;
        for (std::int64_t j = kOffset[b]; j < kOffset[b + 1]; ++j) {
          const double weight = std::exp(dot(query, i, key, j, head) / std::sqrt(double{kHeadDim}));
          weights += weight;
          weighted += weight * dot(value, j, output_grad, i, head);
        }
        total += weighted / weights;
      }
  return total;
}

Numbers widened(const std::vector<Bf16>& values) { return {values.begin(), values.end()}; }

}  // namespace

int main(int argc, char** argv) try {
  jfa::Device device = jfa::Device::open(argc > 1 ? argv[1] : "sim:sm_100a").value();

  std::vector<std::vector<Bf16>> host;
  for (unsigned seed = 0; seed < 4; ++seed) host.push_back(example::random_values(kElements, seed));
  const DeviceArray<Bf16> query(device, host[0]), key(device, host[1]), value(device, host[2]),
      output_grad(device, host[3]);
  const DeviceArray<std::int32_t> offset(device, kOffset);

  jfa::AttentionCall call;
  call.query = query.tensor(kHeads, kHeadDim);
  call.key = key.tensor(kHeads, kHeadDim);
  call.value = value.tensor(kHeads, kHeadDim);
  call.query_offset = call.key_offset = offset.offsets();

  // The forward's output and log-sum-exp are inputs of the backward: keep both.
  const DeviceArray<Bf16> output(device, kElements);
  const DeviceArray<float> lse(device, kElements / kHeadDim);  // [heads, rows]
  jfa::forward(device, call, output.tensor(kHeads, kHeadDim), lse.address()).or_throw();

  DeviceArray<Bf16> query_grad(device, kElements), key_grad(device, kElements), value_grad(device, kElements);
  jfa::backward(device, call, output.tensor(kHeads, kHeadDim), lse.address(),
                jfa::OutputGradient::of(output_grad.tensor(kHeads, kHeadDim)), /*lse_grad=*/0,
                query_grad.tensor(kHeads, kHeadDim), key_grad.tensor(kHeads, kHeadDim),
                value_grad.tensor(kHeads, kHeadDim))
      .or_throw();
  device.synchronize().or_throw();

  bool right = true;
  Numbers numbers[] = {widened(host[0]), widened(host[1]), widened(host[2]), widened(host[3])};
  DeviceArray<Bf16>* const gradients[] = {&query_grad, &key_grad, &value_grad};
  const char* const names[] = {"query_grad", "key_grad", "value_grad"};
  for (int input = 0; input < 3; ++input) {
    const std::vector<Bf16> gradient = gradients[input]->download();
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      const auto loss_with = [&](double change) {
        numbers[input][i] += change;
        const double result = loss(numbers[0], numbers[1], numbers[2], numbers[3]);
        numbers[input][i] -= change;
        return result;
      };
      const double difference = (loss_with(1e-4) - loss_with(-1e-4)) / 2e-4;
      largest = std::max(largest, std::abs(difference));
      worst = std::max(worst, std::abs(gradient[i] - difference));
    }
    std::printf("%s: largest %.3f, at most %.4f off\n", names[input], largest, worst);
    right = right && worst < largest / 64;  // bf16 has 8 bits, and so have the probabilities
  }
  return right ? 0 : 1;
} catch (const jfa::Error& error) {
  std::fprintf(stderr, "backward: %s\n%s\n", error.what(), error.status().detail().c_str());
  return 1;
}
