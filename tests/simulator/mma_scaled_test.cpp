// The arithmetic of block scales, and of elements of 4 and 6 bits, against a second implementation: any bit
// patterns, in double precision.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "simulator/machine/float_format.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/mma_f4.h"

namespace jfa::simulator::mma_scaled_test {
namespace {

// floor(log2 |x|), not below a format's smallest exponent.
int exponent_of(double x, const FloatFormat& format) { return std::max(std::ilogb(x), 1 - format.bias()); }

std::uint32_t truncated_f32(double x) {
  if (x == 0) return 0;
  const int unit = std::max(std::ilogb(x), -126) - 23;
  const double result = std::ldexp(std::trunc(std::ldexp(x, -unit)), unit);
  if (std::abs(result) >= std::ldexp(1.0, 128)) return x > 0 ? 0x7f800000 : 0xff800000;
  return std::bit_cast<std::uint32_t>(static_cast<float>(result == 0 ? 0.0 : result));
}

double scale_value(ScaleType type, std::uint8_t bits) {
  if (type == ScaleType::kUe8m0) return bits == 0xff ? NAN : std::ldexp(1.0, bits - 127);
  return decode_float(bits & 0x7fu, kE4m3);
}

// Terms value · 2^0, each with the exponent it is aligned by; long double has room for 64 bits.
struct Term {
  long double value;
  int exponent;
};
std::uint32_t aligned_sum(const std::vector<Term>& terms, int bits) {
  int largest = -1000;
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  long double sum = 0;
  for (const Term& term : terms) sum += std::trunc(std::ldexp(term.value, bits - largest));
  return truncated_f32(static_cast<double>(std::ldexp(sum, largest - bits)));
}

Term accumulator(std::uint32_t bits) {
  const double c = std::bit_cast<float>(bits);
  return {c, c == 0 ? -126 : exponent_of(c, kFloat32)};
}

std::uint32_t random_accumulator(std::mt19937& random) {
  const auto bits = static_cast<std::uint32_t>(random());
  if (random() % 4 == 0) return 0;
  return (bits & 0x807fffff) | (100 + random() % 56) << 23;
}

// Mostly near 1, sometimes anything.
std::uint8_t random_scale(std::mt19937& random, ScaleType type) {
  if (random() % 64 == 0) return static_cast<std::uint8_t>(random());
  return static_cast<std::uint8_t>(type == ScaleType::kUe8m0 ? 120 + random() % 16 : random() % 0x7f);
}

TEST_CASE("kind mxf8f6f4: products aligned with the exponents of their scale factors") {
  struct Type {
    MmaElement type;
    const FloatFormat* format;
  };
  const Type types[] = {{MmaElement::kE4M3, &kE4m3},
                        {MmaElement::kE5M2, &kE5m2},
                        {MmaElement::kE2M3, &kE2m3},
                        {MmaElement::kE3M2, &kE3m2},
                        {MmaElement::kE2M1, &kE2m1}};
  std::mt19937 random(1);
  for (const Type& a_type : types)
    for (const Type& b_type : types)
      for (int round = 0; round < 200; ++round) {
        const auto elements = [&](const Type& type) {
          std::vector<std::uint16_t> words(kMmaK);
          for (std::uint16_t& word : words)
            for (int half = 0; half < 2; ++half) {
              std::uint32_t bits = random() & ((1u << type.format->total_bits()) - 1);
              if (!std::isfinite(decode_float(bits, *type.format))) bits = 0;
              word = static_cast<std::uint16_t>(word | bits << 8 * half);
            }
          return words;
        };
        const std::vector<std::uint16_t> a = elements(a_type), b = elements(b_type);
        const std::uint8_t a_scale[] = {random_scale(random, ScaleType::kUe8m0)};
        const std::uint8_t b_scale[] = {random_scale(random, ScaleType::kUe8m0)};
        std::uint32_t d = random_accumulator(random);
        const double factor =
            scale_value(ScaleType::kUe8m0, a_scale[0]) * scale_value(ScaleType::kUe8m0, b_scale[0]);
        std::vector<Term> terms{accumulator(d)};
        for (int k = 0; k < 32; ++k) {
          const int shift = 8 * (k % 2);
          const double x = decode_float(a[static_cast<std::size_t>(k / 2)] >> shift & 0xffu, *a_type.format);
          const double y = decode_float(b[static_cast<std::size_t>(k / 2)] >> shift & 0xffu, *b_type.format);
          if (x != 0 && y != 0)
            terms.push_back({static_cast<long double>(x) * y * factor, exponent_of(x, *a_type.format) +
                                                                           exponent_of(y, *b_type.format) +
                                                                           a_scale[0] + b_scale[0] - 254});
        }
        const std::uint32_t want = std::isnan(factor) ? kMmaNanF32 : aligned_sum(terms, 25);
        MmaOperands operands;
        operands.load(a_type.type, b_type.type, a, b);
        operands.scale(a_scale, b_scale);
        operands.accumulate_row_f32(0, &d);
        CHECK(d == want);
      }
}

TEST_CASE("kinds mxf4 and mxf4nvf4: groups of 16 are summed exactly, then aligned to 35 bits") {
  std::mt19937 random(2);
  for (const ScaleType type : {ScaleType::kUe8m0, ScaleType::kUe4m3})
    for (const std::uint32_t scales : {2u, 4u})
      for (int round = 0; round < 2000; ++round) {
        std::vector<std::uint16_t> a(kMmaK), b(kMmaK);
        for (std::size_t i = 0; i < a.size(); ++i)
          a[i] = static_cast<std::uint16_t>(random()), b[i] = static_cast<std::uint16_t>(random());
        std::vector<std::uint8_t> a_scales(scales), b_scales(scales);
        for (auto* factors : {&a_scales, &b_scales})
          for (std::uint8_t& factor : *factors) factor = random_scale(random, type);
        std::uint32_t d = random_accumulator(random);
        std::vector<Term> terms{accumulator(d)};
        bool nan = false;
        for (std::uint32_t group = 0; group < 4; ++group) {
          double dot = 0;
          for (std::uint32_t k = 16 * group; k < 16 * group + 16; ++k)
            dot += decode_float(a[k / 4] >> 4 * (k % 4) & 0xfu, kE2m1) *
                   decode_float(b[k / 4] >> 4 * (k % 4) & 0xfu, kE2m1);
          const double x = scale_value(type, a_scales[group * scales / 4]);
          const double y = scale_value(type, b_scales[group * scales / 4]);
          if (std::isnan(x) || std::isnan(y))
            nan = true;
          else if (x != 0 && y != 0)
            terms.push_back({static_cast<long double>(dot) * x * y, std::ilogb(x) + std::ilogb(y)});
        }
        const std::uint32_t want = nan ? kMmaNanF32 : aligned_sum(terms, 35);
        PackedF4Operands operands;
        operands.load(a, b, type, scales, a_scales, b_scales);
        operands.accumulate_row(0, &d);
        CHECK(d == want);
      }
}

TEST_CASE("block scales beside special accumulators") {
  const std::vector<std::uint16_t> ones(kMmaK, 0x2222);  // e2m1: 1
  const std::vector<std::uint8_t> scales(4, 0x38);       // ue4m3: 1
  PackedF4Operands operands;
  operands.load(ones, ones, ScaleType::kUe4m3, 4, scales, scales);
  const auto sum = [&](float c) {
    std::uint32_t d = std::bit_cast<std::uint32_t>(c);
    operands.accumulate_row(0, &d);
    return d;
  };
  CHECK(sum(0.5f) == std::bit_cast<std::uint32_t>(64.5f));
  CHECK(sum(INFINITY) == 0x7f800000);
  CHECK(sum(-INFINITY) == 0xff800000);
  CHECK(sum(NAN) == kMmaNanF32);
  // 2^36 + 64: within 35 bits of the accumulator's exponent, and then of the 24 of the result.
  CHECK(sum(std::ldexp(1.0f, 24)) == std::bit_cast<std::uint32_t>(std::ldexp(1.0f, 24) + 64));
}

}  // namespace
}  // namespace jfa::simulator::mma_scaled_test
