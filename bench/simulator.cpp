// jfa_bench_simulator: how fast the simulated Blackwell is. Prints the warp instructions a second of a loop
// of arithmetic and of one self-attention over a jagged batch through the public API, with and without
// checks, and the FLOP a second of the tensor core's arithmetic.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "jfa/attention.h"
#include "simulator/driver_table.h"
#include "simulator/launch.h"
#include "simulator/mma.h"

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

// Of this process's CPU, which is one: other programs on the machine do not count.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// --- A loop of arithmetic

constexpr const char* kArithmetic = R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry loop(.param .u32 count)
{
  .reg .b32 %r<4>; .reg .f32 %f<8>; .reg .pred %p;
  ld.param.u32 %r0, [count];
  mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f3F000000; mov.f32 %f2, %f0; mov.f32 %f3, %f1;
  mov.u32 %r1, 0;
LOOP:
  fma.rn.f32 %f4, %f0, %f1, %f2;
  fma.rn.f32 %f5, %f1, %f2, %f3;
  mul.f32 %f6, %f4, %f5;
  add.f32 %f7, %f6, %f0;
  max.f32 %f2, %f7, %f1;
  fma.rn.f32 %f3, %f2, %f1, %f0;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, %r0;
  @%p bra LOOP;
  ret;
}
)";

void run_arithmetic(bool checks) {
  jfa::simulator::DeviceMemory memory;
  const auto module = jfa::simulator::Module::load(kArithmetic, memory).value();
  jfa::simulator::LaunchConfig config;
  config.block = {128, 1, 1};
  config.options.checks = checks;
  constexpr std::uint32_t kIterations = 500'000;
  config.parameters.resize(sizeof(kIterations));
  std::memcpy(config.parameters.data(), &kIterations, sizeof(kIterations));
  const std::clock_t start = std::clock();
  const auto result = jfa::simulator::run_grid(*module, *module->find("loop"), config, memory);
  const double seconds = seconds_since(start);
  fmt::print("arithmetic, {}: {:.1f} million warp instructions a second\n", checks ? "checks" : "no checks",
             static_cast<double>(result.statistics.warp_instructions) / seconds * 1e-6);
}

// --- The tensor core's arithmetic

/// FLOP a second of a product of 128 x 256 x 16 bf16 elements into f32.
double run_products() {
  constexpr int kM = 128, kN = 256, kRounds = 40;
  std::mt19937 random(7);
  const auto elements = [&](int rows) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(rows) * jfa::simulator::kMmaK);
    for (auto& value : values) {
      const auto bits = static_cast<std::uint32_t>(random());
      value = static_cast<std::uint16_t>((bits & 0x807f) | ((124 + (bits >> 16) % 4) << 7));
    }
    return values;
  };
  const auto a = elements(kM), b = elements(kN);
  jfa::simulator::MmaOperands operands;
  std::vector<std::uint32_t> accumulator(kM * kN);
  const std::clock_t start = std::clock();
  for (int round = 0; round < kRounds; ++round) {
    operands.load(jfa::simulator::MmaElement::kBF16, jfa::simulator::MmaElement::kBF16, a, b);
    for (int m = 0; m < kM; ++m)
      operands.accumulate_row_f32(m, &accumulator[static_cast<std::size_t>(m) * kN]);
  }
  const double flop = 2.0 * kM * kN * jfa::simulator::kMmaK * kRounds;
  const double rate = flop / seconds_since(start);
  fmt::print("products, bit for bit: {:.2f} GFLOP a second\n", rate * 1e-9);
  return rate;
}

// --- The forward

// Tiles of 128 queries and 128 keys, two products each.
double forward_flop(const std::vector<std::int32_t>& offsets) {
  constexpr std::int64_t kTile = 128;
  double tiles = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const double count = static_cast<double>((offsets[i + 1] - offsets[i] + kTile - 1) / kTile);
    tiles += count * count * kHeads;
  }
  return tiles * 2 * 2 * kTile * kTile * kHeadDim;
}

double run_forward(const std::string& device_name, double product_rate) {
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
  const std::clock_t start = std::clock();
  jfa::forward(device, call, output, 0).or_throw();
  device.synchronize().or_throw();
  const double seconds = seconds_since(start);
  const auto executed = static_cast<double>(jfa::simulator::warp_instructions(driver) - executed_before);
  const double products = std::min(forward_flop(offsets) / product_rate, seconds);
  fmt::print(
      "forward on {}: {:.2f} s, {:.2f} million warp instructions, {:.2f} million a second; without its "
      "products' "
      "{:.2f} s: {:.2f}\n",
      device_name, seconds, executed * 1e-6, executed / seconds * 1e-6, products,
      executed / (seconds - products) * 1e-6);
  return seconds;
}

void run(const std::string& device_name) {
  run_arithmetic(true);
  run_arithmetic(false);
  const double product_rate = run_products();
  fmt::print("forward: {} sequences, {} rows, {} heads, head_dim {}\n", kBatch, kBatch * kMeanLength, kHeads,
             kHeadDim);
  const bool has_options = device_name.find('?') != std::string::npos;
  const double checked = run_forward(device_name, product_rate);
  const double unchecked = run_forward(device_name + (has_options ? "&" : "?") + "checks=0", product_rate);
  fmt::print("the checks cost {:.2f} times the run without\n", checked / unchecked);
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
