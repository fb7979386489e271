// jfa_bench_simulator: how fast the simulated Blackwell is. Runs one self-attention over a jagged batch
// through the public API and prints its time and the warp instructions executed a second.
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "jfa/attention.h"
#include "simulator/driver_table.h"

namespace {

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kMeanLength = 256;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHeadDim = 128;

/// Prefix sums of kBatch lengths, uniform in [1, 511], whose mean is kMeanLength.
std::vector<std::int32_t> jagged_offsets() {
  std::mt19937 random(1);
  std::vector<std::int32_t> lengths(kBatch);
  for (std::int64_t i = 0; i < kBatch; i += 2) {
    lengths[i] = static_cast<std::int32_t>(1 + random() % (2 * kMeanLength - 1));
    lengths[i + 1] = static_cast<std::int32_t>(2 * kMeanLength) - lengths[i];
  }
  std::vector<std::int32_t> offsets(kBatch + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
  return offsets;
}

template <class T>
std::uint64_t upload(jfa::Device& device, const std::vector<T>& values) {
  const std::uint64_t address = device.allocate(values.size() * sizeof(T)).value();
  device.upload(address, values.data(), values.size() * sizeof(T)).or_throw();
  return address;
}

jfa::Tensor random_tensor(jfa::Device& device, std::int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * kHeads * kHeadDim));
  // bf16 of magnitude 2^-3 … 2: random sign and mantissa, exponent from the middle of the range.
  for (auto& value : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    value = static_cast<std::uint16_t>((bits & 0x807f) | ((124 + (bits >> 16) % 4) << 7));
  }
  return jfa::Tensor::packed(upload(device, values), rows, kHeads, kHeadDim, jfa::DType::bf16);
}

void run(const std::string& device_name) {
  using Clock = std::chrono::steady_clock;
  jfa::Device device = jfa::Device::open(device_name).value();
  std::string error;
  const jfa::DriverTable* driver = jfa::simulator::open_simulated_driver(device_name, &error);
  jfa::Configuration configuration;
  configuration.target = device.target();
  jfa::prepare(device, configuration).or_throw();

  const std::vector<std::int32_t> offsets = jagged_offsets();
  const std::int64_t rows = offsets.back();
  jfa::AttentionCall call;
  call.query = random_tensor(device, rows, 2);
  call.key = random_tensor(device, rows, 3);
  call.value = random_tensor(device, rows, 4);
  call.query_offset = {upload(device, offsets), kBatch + 1, jfa::OffsetType::int32};
  call.key_offset = call.query_offset;
  const jfa::Tensor output = random_tensor(device, rows, 5);

  const std::uint64_t executed_before = jfa::simulator::warp_instructions(driver);
  const auto start = Clock::now();
  jfa::forward(device, call, output, 0).or_throw();
  device.synchronize().or_throw();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::uint64_t executed = jfa::simulator::warp_instructions(driver) - executed_before;
  fmt::print("{}: {} sequences, {} rows, {} heads, head_dim {}\n", device_name, kBatch, rows, kHeads,
             kHeadDim);
  fmt::print("{:.2f} s, {} warp instructions, {:.2f} million a second\n", seconds, executed,
             static_cast<double>(executed) / seconds * 1e-6);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device_name = argc > 1 ? argv[1] : "sim:sm_100a";
  if (device_name.rfind("sim:", 0) != 0) {
    fmt::print(stderr, "device {}: this benchmark is of simulated devices, sim:sm_100a[?sms=N]\n",
               device_name);
    return 1;
  }
  try {
    run(device_name);
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "{}\n{}", error.what(), error.status().detail());
    return 1;
  }
  return 0;
}
