// jfa_bench_simulator: how fast a simulated device is. Prints the warp instructions a second of a loop of
// arithmetic and of one self-attention over a jagged batch through the public API, with and without checks,
// with and without the time of its products, and the FLOP a second of the tensor core's arithmetic.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/standard_streams.h"
#include "jfa/attention.h"
#include "simulator/driver/simulated_driver.h"
#include "simulator/machine/launch.h"
#include "simulator/tensor_core/mma.h"

namespace {

using jfa::simulator::MmaElement;

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

/// The median of some runs, and the least and the greatest.
struct Spread {
  double median, least, greatest;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

std::string describe(const Spread& spread) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", spread.median, spread.least, spread.greatest);
}

/// measure() of each run, one after another.
template <class Measure>
Spread repeated(int runs, Measure measure) {
  std::vector<double> values;
  for (int i = 0; i < runs; ++i) values.push_back(measure());
  return spread_of(std::move(values));
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

/// Million warp instructions a second.
double run_arithmetic(bool checks) {
  jfa::simulator::DeviceMemory memory;
  const auto module = jfa::simulator::Module::load(kArithmetic, memory).value();
  jfa::simulator::LaunchConfig config;
  config.block = {128, 1, 1};
  config.options.checks = checks;
  constexpr std::uint32_t kIterations = 200'000;
  config.parameters.resize(sizeof(kIterations));
  std::memcpy(config.parameters.data(), &kIterations, sizeof(kIterations));
  const std::clock_t start = std::clock();
  const auto result = jfa::simulator::run_grid(*module, *module->find("loop"), config, memory);
  return static_cast<double>(result.statistics.warp_instructions) / seconds_since(start) * 1e-6;
}

// --- The tensor core's arithmetic

/// Random numbers of magnitude 2^-3 … 2, in rows of 32 bytes.
std::vector<std::uint16_t> random_elements(MmaElement type, int rows, std::mt19937& random) {
  std::vector<std::uint16_t> words(static_cast<std::size_t>(rows) * jfa::simulator::kMmaK);
  for (auto& word : words) {
    const auto bits = static_cast<std::uint32_t>(random());
    const std::uint32_t exponent = bits >> 16 & 3;
    if (type == MmaElement::kBF16)
      word = static_cast<std::uint16_t>((bits & 0x807f) | (124 + exponent) << 7);
    else if (type == MmaElement::kF16)
      word = static_cast<std::uint16_t>((bits & 0x83ff) | (12 + exponent) << 10);
    else  // two of e4m3
      word = static_cast<std::uint16_t>((bits & 0x8787) | (4 + exponent) << 11 | (7 - exponent) << 3);
  }
  return words;
}

/// GFLOP a second of products of 128 x 256 x 32 bytes into f32.
double run_products(MmaElement type) {
  constexpr int kM = 128, kN = 256, kRounds = 40;
  std::mt19937 random(7);
  const auto a = random_elements(type, kM, random), b = random_elements(type, kN, random);
  jfa::simulator::MmaOperands operands;
  std::vector<std::uint32_t> accumulator(kM * kN);
  const std::clock_t start = std::clock();
  for (int round = 0; round < kRounds; ++round) {
    operands.load(type, type, a, b);
    for (int m = 0; m < kM; ++m)
      operands.accumulate_row_f32(m, &accumulator[static_cast<std::size_t>(m) * kN]);
  }
  const auto elements = static_cast<double>(jfa::simulator::kMmaStepBytes / element_bytes(type));
  return 2.0 * kM * kN * elements * kRounds / seconds_since(start) * 1e-9;
}

// --- The forward

/// The forward on one device, ready to run.
class Forward {
 public:
  explicit Forward(const std::string& device_name) : device_(jfa::Device::open(device_name).value()) {
    std::string error;
    driver_ = jfa::simulator::open_simulated_driver(device_name, &error);
    jfa::Configuration configuration;
    configuration.target = device_.target();
    jfa::prepare(device_, configuration).or_throw();
    const std::vector<std::int32_t> offsets = jagged_offsets();
    const std::int64_t rows = offsets.back();
    call_.query = random_tensor(device_, rows, 2);
    call_.key = random_tensor(device_, rows, 3);
    call_.value = random_tensor(device_, rows, 4);
    call_.query_offset = {upload(device_, offsets), kBatch + 1, jfa::OffsetType::int32};
    call_.key_offset = call_.query_offset;
    output_ = random_tensor(device_, rows, 5);
  }

  struct Run {
    double seconds, product_seconds, instructions;
  };
  Run run() {
    const std::uint64_t executed = jfa::simulator::warp_instructions(driver_);
    const double products = jfa::simulator::product_seconds(driver_);
    const std::clock_t start = std::clock();
    jfa::forward(device_, call_, output_, 0).or_throw();
    device_.synchronize().or_throw();
    return {seconds_since(start), jfa::simulator::product_seconds(driver_) - products,
            static_cast<double>(jfa::simulator::warp_instructions(driver_) - executed)};
  }

 private:
  jfa::Device device_;
  const jfa::DriverTable* driver_ = nullptr;
  jfa::AttentionCall call_;
  jfa::Tensor output_;
};

/// Prints the rates of some runs. Returns the median of their seconds.
double run_forward(const std::string& device_name, int runs) {
  Forward forward(device_name);
  std::vector<double> seconds, products, rates, other_rates;
  double instructions = 0;
  for (int i = 0; i < runs; ++i) {
    const Forward::Run run = forward.run();
    instructions = run.instructions * 1e-6;
    seconds.push_back(run.seconds);
    products.push_back(run.product_seconds);
    rates.push_back(instructions / run.seconds);
    other_rates.push_back(instructions / (run.seconds - run.product_seconds));
  }
  const double median = spread_of(seconds).median;
  fmt::print("forward on {}: {:.2f} million warp instructions in {:.3f} s, {:.3f} s of them for products\n",
             device_name, instructions, median, spread_of(products).median);
  fmt::print("  million warp instructions a second: {}; without the products' time: {}\n",
             describe(spread_of(rates)), describe(spread_of(other_rates)));
  return median;
}

void run(const std::string& device_name, int runs) {
  for (const bool checks : {true, false})
    fmt::print("arithmetic, {}: {} million warp instructions a second\n", checks ? "checks" : "no checks",
               describe(repeated(runs, [&] { return run_arithmetic(checks); })));
  const std::pair<MmaElement, const char*> types[] = {
      {MmaElement::kBF16, "bf16"}, {MmaElement::kF16, "fp16"}, {MmaElement::kE4M3, "fp8 (e4m3)"}};
  for (const auto& [type, name] : types)
    fmt::print("products of {} into fp32, bit for bit: {} GFLOP a second\n", name,
               describe(repeated(runs, [type = type] { return run_products(type); })));
  fmt::print("forward: {} sequences, {} rows, {} heads, head_dim {}\n", kBatch, kBatch * kMeanLength, kHeads,
             kHeadDim);
  const bool has_options = device_name.find('?') != std::string::npos;
  const double checked = run_forward(device_name, runs);
  const double unchecked = run_forward(device_name + (has_options ? "&" : "?") + "checks=0", runs);
  fmt::print("with checks the forward takes {:.2f} times as long as without\n", checked / unchecked);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How fast a simulated device is: medians of some runs, the least and the greatest beside.");
  std::string device_name = "sim:sm_100a";
  int runs = 5;
  app.add_option("device", device_name, "sim:TARGET[?options]")
      ->check([](const std::string& name) {
        return name.rfind("sim:", 0) == 0 ? std::string() : "this benchmark is of simulated devices";
      })
      ->capture_default_str();
  app.add_option("--runs", runs, "of each measurement")->check(CLI::Range(1, 1000))->capture_default_str();
  return jfa::tools::run_program("jfa_bench_simulator", [&] {
    CLI11_PARSE(app, argc, argv);
    run(device_name, runs);
    return 0;
  });
}
