// Kernels of Triton and Gluon in the simulator, against what they should compute: a second compiler, whose
// descriptors, layouts and protocols nobody here wrote.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>

#include "simulator/machine/float_format.h"
#include "simulator/machine/habits.h"
#include "tests/witnesses/witness.h"

namespace jfa::test {
namespace {

using simulator::FloatFormat;
using simulator::RunOptions;
using simulator::Schedule;

// What Triton and Gluon take for granted: tests/witnesses/README.md.
RunOptions run_options(Schedule schedule, std::uint64_t seed = 0) {
  RunOptions options;
  options.schedule = schedule;
  options.seed = seed;
  simulator::take_habits("triton", options);
  return options;
}
const RunOptions kRuns[] = {run_options(Schedule::kEager),     run_options(Schedule::kLazy),
                            run_options(Schedule::kRandom, 1), run_options(Schedule::kRandom, 2),
                            run_options(Schedule::kReverse),   run_options(Schedule::kStarve),
                            run_options(Schedule::kLate)};

template <class Function>
void for_each_witness(const std::string& kind, std::size_t wanted, Function function) {
  std::size_t count = 0;
  for (const Witness& witness : read_witnesses()) {
    if (witness.kind() != kind) continue;
    ++count;
    for (const RunOptions& options : kRuns) {
      CAPTURE(witness.name());
      CAPTURE(to_string(options.schedule));
      CAPTURE(options.seed);
      function(witness, options);
    }
  }
  CHECK(count == wanted);
}

/// How a type of Triton's is stored.
struct ElementType {
  int bytes;
  const FloatFormat* format;  // null: an integer
};
ElementType element_type(const std::string& name) {
  if (name == "fp16") return {2, &simulator::kFloat16};
  if (name == "bf16") return {2, &simulator::kBfloat16};
  if (name == "fp8e4nv") return {1, &simulator::kE4m3};
  if (name == "fp8e5") return {1, &simulator::kE5m2};
  if (name == "fp32") return {4, &simulator::kFloat32};
  REQUIRE(name == "i8");
  return {1, nullptr};
}

std::vector<std::byte> encode(const std::vector<double>& values, const ElementType& type) {
  std::vector<std::byte> bytes;
  for (const double value : values) {
    const std::uint32_t bits =
        type.format != nullptr ? simulator::encode_float(value, *type.format, simulator::Rounding::kNearest)
                               : static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    const auto* raw = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), raw, raw + type.bytes);
  }
  return bytes;
}

std::vector<std::uint16_t> as_f16(const std::vector<double>& values) {
  const std::vector<std::byte> bytes = encode(values, {2, &simulator::kFloat16});
  std::vector<std::uint16_t> halves(values.size());
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  return halves;
}

std::vector<double> integers(std::size_t count, int low, int high, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double& value : values)
    value = low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  return values;
}

std::string without_lines_of(const std::string& ptx, const std::string& part) {
  std::istringstream lines(ptx);
  std::string kept, line;
  while (std::getline(lines, line))
    if (line.find(part) == std::string::npos) kept += line + '\n';
  return kept;
}

/// Extents that leave a part of every tile empty; multiples of 16, as the kernels were told.
struct Product {
  std::uint32_t m, n, k;
  bool a_transposed, b_transposed;
  std::vector<double> a, b;  // as stored

  explicit Product(const Witness& w)
      : m(w.block(0) + 16),
        n(w.block(1) + 16),
        k(3 * w.block(2) + 16),
        a_transposed(w.facts.at("a_transposed")),
        b_transposed(w.facts.at("b_transposed")) {
    const bool bytes = w.facts.at("type") == "i8";
    a = integers(m * k, bytes ? -128 : -3, bytes ? 127 : 3, 1);
    b = integers(k * n, bytes ? -128 : -3, bytes ? 127 : 3, 2);
  }
  double at(std::uint32_t row, std::uint32_t column) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < k; ++i)
      sum += a[a_transposed ? i * m + row : row * k + i] * b[b_transposed ? column * k + i : i * n + column];
    return sum;
  }
  template <class T, class Decode>
  void check(const std::vector<T>& c, Decode decode) const {
    std::size_t wrong = 0;
    for (std::uint32_t row = 0; row < m; ++row)
      for (std::uint32_t column = 0; column < n; ++column) {
        const double want = at(row, column), is = decode(c[row * n + column]);
        if (want == is) continue;
        if (wrong++ == 0) MESSAGE("C[" << row << ", " << column << "] is " << is << ", not " << want);
      }
    CHECK(wrong == 0);
  }
};

std::uint32_t tiles(std::uint32_t extent, std::uint32_t block) { return (extent + block - 1) / block; }

/// The arguments of a product through pointers.
void set_arguments(WitnessLaunch& launch, const Product& p, const ElementType& type) {
  launch.buffer("a", encode(p.a, type));
  launch.buffer("b", encode(p.b, type));
  launch.buffer("c", std::vector<std::uint32_t>(p.m * p.n, 0xdeadbeef));
  launch.scalar("m", p.m), launch.scalar("n", p.n), launch.scalar("k", p.k);
  launch.scalar("a_m", p.k), launch.scalar("a_k", p.m);
  launch.scalar("b_k", p.n), launch.scalar("b_n", p.k);
}

TEST_CASE("Triton: products of small integers are exact in every type, layout and tile shape") {
  for_each_witness("matmul", 28, [](const Witness& w, const RunOptions& options) {
    const Product p(w);
    const ElementType type = element_type(w.facts.at("type"));
    WitnessLaunch launch(w);
    set_arguments(launch, p, type);
    launch.run(tiles(p.m, w.block(0)), tiles(p.n, w.block(1)), options);
    if (type.format == nullptr)
      p.check(launch.download<std::int32_t>("c"), [](std::int32_t x) { return double{1} * x; });
    else
      p.check(launch.download<float>("c"), [](float x) { return double{x}; });
  });
}

TEST_CASE("Triton: products without their proxy fences are refused") {
  std::size_t refused = 0;
  for (const Witness& w : read_witnesses()) {
    const std::string ptx = w.ptx();
    const std::string spoilt = without_lines_of(ptx, "fence.proxy.async");
    if (w.kind() != "matmul" || spoilt == ptx) continue;
    const Product p(w);
    for (const RunOptions& options : kRuns) {
      CAPTURE(w.name());
      WitnessLaunch launch(w);
      set_arguments(launch, p, element_type(w.facts.at("type")));
      const simulator::LaunchResult result =
          launch.run_ptx(spoilt, tiles(p.m, w.block(0)), tiles(p.n, w.block(1)), options);
      REQUIRE_FALSE(result.ok);
      CHECK_MESSAGE(result.report.kind == simulator::ErrorKind::kMissingFence, result.report.text());
    }
    ++refused;
  }
  CHECK(refused >= 16);
}

TEST_CASE("Triton and Gluon: products through tensor maps") {
  for_each_witness("tma_matmul", 4, [](const Witness& w, const RunOptions& options) {
    const Product p(w);
    WitnessLaunch launch(w);
    launch.mapped("a", as_f16(p.a), p.m, p.k);
    launch.mapped("b", as_f16(p.b), p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n);
    launch.mapped("c", std::vector<std::uint16_t>(p.m * p.n, 0x7e00), p.m, p.n);
    launch.scalar("m", p.m), launch.scalar("n", p.n), launch.scalar("k", p.k);
    const std::uint32_t x = tiles(p.m, w.block(0)), y = tiles(p.n, w.block(1));
    const bool persistent = w.facts.at("entry") == "tma_matmul";  // two programs share all tiles
    launch.run(persistent ? 2 : x, persistent ? 1 : y, options);
    p.check(launch.download<std::uint16_t>("c"),
            [](std::uint16_t bits) { return simulator::decode_float(bits, simulator::kFloat16); });
  });
}

/// Two programs share all tiles, each with maps of its own in its part of the scratch memory.
simulator::LaunchResult run_described(const Witness& w, const Product& p, WitnessLaunch& launch,
                                      const std::string& ptx, const RunOptions& options) {
  constexpr std::uint32_t kPrograms = 2;
  launch.buffer("a", as_f16(p.a)), launch.buffer("b", as_f16(p.b));
  launch.buffer("c", std::vector<std::uint16_t>(p.m * p.n, 0x7e00));
  launch.scalar("m", p.m), launch.scalar("n", p.n), launch.scalar("k", p.k);
  const std::size_t scratch_bytes = w.facts.at("scratch_bytes");
  launch.buffer("scratch", std::vector<std::byte>(kPrograms * scratch_bytes, std::byte{0xcd}));
  return launch.run_ptx(ptx, kPrograms, 1, options);
}

TEST_CASE("Triton: products through tensor maps that the kernel makes") {
  for_each_witness("described_matmul", 2, [](const Witness& w, const RunOptions& options) {
    const Product p(w);
    WitnessLaunch launch(w);
    const simulator::LaunchResult result = run_described(w, p, launch, w.ptx(), options);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    p.check(launch.download<std::uint16_t>("c"),
            [](std::uint16_t bits) { return simulator::decode_float(bits, simulator::kFloat16); });
    WitnessLaunch spoilt(w);
    const std::string ptx = without_lines_of(w.ptx(), "fence.proxy.tensormap");
    REQUIRE(ptx != w.ptx());
    CHECK(run_described(w, p, spoilt, ptx, options).report.kind == simulator::ErrorKind::kMissingFence);
  });
}

/// A matrix of rows along k with a scale factor for every `group` elements, as stored.
struct ScaledMatrix {
  std::vector<std::byte> elements;    // two of e2m1 in a byte
  std::vector<std::uint8_t> factors;  // [rows][k / group]
  std::vector<double> values;         // with their factors

  ScaledMatrix(const std::string& format, const std::string& scale, std::uint32_t rows, std::uint32_t k,
               std::uint32_t group, unsigned seed) {
    const bool packed = format == "e2m1";
    const FloatFormat& type = packed             ? simulator::kE2m1
                              : format == "e4m3" ? simulator::kE4m3
                                                 : simulator::kE5m2;
    values = integers(rows * k, -3, 3, seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = static_cast<std::byte>(encode_float(values[i], type, simulator::Rounding::kNearest));
      if (packed && i % 2 != 0)
        elements.back() |= bits << 4;
      else
        elements.push_back(bits);
    }
    const bool power = scale == "e8m0";
    for (const double value : integers(rows * k / group, -2, 2, seed + 10)) {
      // Powers of two, or e4m3 from 1 to 1.5.
      const auto factor = static_cast<std::uint8_t>(power ? 127 + value : 0x3a + value);
      for (std::uint32_t i = 0; i < group; ++i)
        values[factors.size() * group + i] *=
            power ? std::ldexp(1.0, factor - 127) : simulator::decode_float(factor, simulator::kE4m3);
      factors.push_back(factor);
    }
  }
  /// In blocks of 128 rows by 4 factors: [k / group / 4][rows / 128][32][4][4].
  std::vector<std::uint8_t> blocks(std::uint32_t rows) const {
    std::vector<std::uint8_t> result(factors.size());
    const std::size_t columns = factors.size() / rows;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns; ++i) {
        const std::size_t block = i / 4 * (rows / 128) + row / 128;
        result[block * 512 + row % 32 * 16 + row % 128 / 32 * 4 + i % 4] = factors[row * columns + i];
      }
    return result;
  }
};

TEST_CASE("Triton and Gluon: products with block scales, of 8 and 4 bits, are exact") {
  for_each_witness("scaled_matmul", 7, [](const Witness& w, const RunOptions& options) {
    const bool in_blocks = w.facts.value("scales_in_blocks", false);
    // Extents that leave a part of a tile empty, where the kernel has masks.
    const std::uint32_t m = w.block(0) + (in_blocks ? 0 : 16), n = w.block(1) + (in_blocks ? 0 : 16);
    const std::uint32_t k = 2 * w.block(2);
    const auto& formats = w.facts.at("formats");
    const ScaledMatrix a(formats.at(0), w.facts.at("scale"), m, k, w.facts.at("group"), 1);
    const ScaledMatrix b(formats.at(1), w.facts.at("scale"), n, k, w.facts.at("group"), 2);
    WitnessLaunch launch(w);
    launch.buffer("a", a.elements);
    launch.buffer("b", b.elements);
    launch.buffer("a_scale", in_blocks ? a.blocks(m) : a.factors);
    launch.buffer("b_scale", in_blocks ? b.blocks(n) : b.factors);
    launch.buffer("c", std::vector<std::uint32_t>(m * n, 0xdeadbeef));
    launch.scalar("m", m), launch.scalar("n", n), launch.scalar("k", k);
    launch.run(tiles(m, w.block(0)), tiles(n, w.block(1)), options);
    const auto c = launch.download<float>("c");
    std::size_t wrong = 0;
    for (std::uint32_t row = 0; row < m; ++row)
      for (std::uint32_t column = 0; column < n; ++column) {
        const double want =
            std::inner_product(&a.values[row * k], &a.values[row * k] + k, &b.values[column * k], 0.0);
        wrong += c[row * n + column] != want;
      }
    CHECK(wrong == 0);
  });
}

TEST_CASE("Triton: attention") {
  for_each_witness("attention", 4, [](const Witness& w, const RunOptions& options) {
    const std::uint32_t heads = 2, length = 208, dim = w.facts.at("head_dim");
    const bool causal = w.facts.at("causal");
    const ElementType type = element_type(w.facts.at("type"));
    const float scale = 0.125f;
    const auto make = [&](unsigned seed) {
      std::vector<double> values = integers(heads * length * dim, -32, 32, seed);
      for (double& value : values) value /= 32;
      return values;
    };
    const std::vector<double> q = make(1), k = make(2), v = make(3);
    WitnessLaunch launch(w);
    launch.buffer("q", encode(q, type));
    launch.buffer("k", encode(k, type));
    launch.buffer("v", encode(v, type));
    launch.buffer("out", std::vector<float>(heads * length * dim, NAN));
    launch.buffer("lse", std::vector<float>(heads * length, NAN));
    launch.scalar("length", length);
    launch.scalar("scale", scale);
    launch.run(tiles(length, w.block(0)), heads, options);

    const auto out = launch.download<float>("out");
    const auto lse = launch.download<float>("lse");
    double worst = 0, worst_lse = 0;
    for (std::uint32_t row = 0; row < heads * length; ++row) {
      const std::uint32_t first = row / length * length;
      const std::uint32_t keys = causal ? row % length + 1 : length;
      std::vector<double> weight(keys);
      double total = 0;
      for (std::uint32_t j = 0; j < keys; ++j) {
        const double score =
            std::inner_product(&q[row * dim], &q[row * dim] + dim, &k[(first + j) * dim], 0.0);
        total += weight[j] = std::exp(score * scale);
      }
      for (std::uint32_t d = 0; d < dim; ++d) {
        double sum = 0;
        for (std::uint32_t j = 0; j < keys; ++j) sum += weight[j] * v[(first + j) * dim + d];
        const double error = std::abs(out[row * dim + d] - sum / total);
        worst = error <= worst ? worst : error;  // NaN is the worst
      }
      const double error = std::abs(lse[row] - std::log(total));
      worst_lse = error <= worst_lse ? worst_lse : error;
    }
    // Weights are rounded to 16 bits before the second product: 2^-9 or 2^-12 of values up to 1.
    CHECK(worst < (w.facts.at("type") == "bf16" ? 4e-3 : 5e-4));
    CHECK(worst_lse < 1e-5);
  });
}

TEST_CASE("Triton: reductions, scans, sorting and atomics are exact") {
  for_each_witness("reductions", 2, [](const Witness& w, const RunOptions& options) {
    const std::uint32_t rows = 3, n = w.facts.at("n");
    std::vector<std::int32_t> x;
    for (const double value : integers(rows * n, -1000, 1000, 7))
      x.push_back(static_cast<std::int32_t>(value));
    WitnessLaunch launch(w);
    launch.buffer("x", x);
    for (const char* name : {"sums", "highest", "places"})
      launch.buffer(name, std::vector<std::int32_t>(rows, -1));
    for (const char* name : {"ranked", "scanned"})
      launch.buffer(name, std::vector<std::int32_t>(rows * n, -1));
    launch.buffer("bins", std::vector<std::int32_t>(16, 0));
    launch.run(rows, 1, options);

    std::vector<std::int32_t> ranked = x, scanned = x, bins(16), sums, highest, places;
    for (const std::int32_t value : x) ++bins[static_cast<std::size_t>(value & 15)];
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto begin = x.begin() + row * n, end = begin + n;
      const auto best = std::max_element(begin, end);  // the first of equals
      sums.push_back(std::accumulate(begin, end, 0));
      highest.push_back(*best);
      places.push_back(static_cast<std::int32_t>(best - begin));
      std::sort(ranked.begin() + row * n, ranked.begin() + (row + 1) * n);
      std::partial_sum(begin, end, scanned.begin() + row * n);
    }
    CHECK(launch.download<std::int32_t>("sums") == sums);
    CHECK(launch.download<std::int32_t>("highest") == highest);
    CHECK(launch.download<std::int32_t>("places") == places);
    CHECK(launch.download<std::int32_t>("ranked") == ranked);
    CHECK(launch.download<std::int32_t>("scanned") == scanned);
    CHECK(launch.download<std::int32_t>("bins") == bins);
  });
}

}  // namespace
}  // namespace jfa::test
