// The tensor core's arithmetic against a second implementation in double precision, and the two descriptors
// against the worked examples of the documentation.
#include "simulator/tensor_core/mma.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "simulator/tensor_core/instruction_descriptor.h"
#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::simulator::mma_test {

namespace {

double to_double(MmaElement type, std::uint16_t bits) {
  if (type == MmaElement::kBF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

// floor(log2 |x|), not below the smallest normal exponent of the format.
int exponent_of(double x, int smallest) { return x == 0 ? smallest : std::max(std::ilogb(x), smallest); }

double round_toward_zero_f32(double x) {
  const int unit = exponent_of(x, -126) - 23;
  return std::ldexp(std::trunc(std::ldexp(x, -unit)), unit);
}

// Every product of two 16-bit elements and every aligned sum is exact in double.
std::uint32_t reference_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                            const std::uint16_t* b, std::uint32_t c_bits) {
  const double c = std::bit_cast<float>(c_bits);
  double special = c;
  int largest = exponent_of(std::isfinite(c) ? c : 0, -126);
  double product[kMmaK];
  for (int k = 0; k < kMmaK; ++k) {
    const double x = to_double(a_type, a[k]);
    const double y = to_double(b_type, b[k]);
    product[k] = x * y;
    special += std::isfinite(x) && std::isfinite(y) ? 0 : product[k];
    if (!std::isfinite(x) || !std::isfinite(y) || product[k] == 0) continue;
    const int a_smallest = a_type == MmaElement::kF16 ? -14 : -126;
    const int b_smallest = b_type == MmaElement::kF16 ? -14 : -126;
    largest = std::max(largest, exponent_of(x, a_smallest) + exponent_of(y, b_smallest));
  }
  if (std::isnan(special)) return 0x7fffffff;
  if (std::isinf(special)) return std::bit_cast<std::uint32_t>(static_cast<float>(special));
  double sum = std::trunc(std::ldexp(c, 25 - largest));
  for (const double p : product) sum += std::trunc(std::ldexp(p, 25 - largest));
  const double result = round_toward_zero_f32(std::ldexp(sum, largest - 25));
  if (std::abs(result) >= std::ldexp(1.0, 128)) return result > 0 ? 0x7f800000 : 0xff800000;
  return std::bit_cast<std::uint32_t>(static_cast<float>(sum == 0 ? 0.0 : result));
}

// Bit patterns that hurt: any pattern at all, or only near a common exponent so that terms cancel.
class Patterns {
 public:
  explicit Patterns(unsigned seed) : random_(seed) {}

  std::uint16_t element(MmaElement type, int style) {
    const auto bits = static_cast<std::uint16_t>(random_());
    const std::uint16_t sign = bits & 0x8000;
    const bool f16 = type == MmaElement::kF16;
    switch (style) {
      case 0:
        return bits;  // NaN and infinity too
      case 1:         // exponents within a narrow band
        return f16 ? static_cast<std::uint16_t>(sign | ((12 + random_() % 6) << 10) | (bits & 1023))
                   : static_cast<std::uint16_t>(sign | ((122 + random_() % 10) << 7) | (bits & 127));
      case 2:  // wide, finite, many zeros and subnormals
        if (random_() % 3 == 0) return sign;
        return f16 ? static_cast<std::uint16_t>(sign | ((random_() % 31) << 10) | (bits & 1023))
                   : static_cast<std::uint16_t>(sign | ((random_() % 255) << 7) | (bits & 127));
      default:  // tiny
        return f16 ? static_cast<std::uint16_t>(sign | ((random_() % 2) << 10) | (bits & 1023))
                   : static_cast<std::uint16_t>(sign | ((random_() % 70) << 7) | (bits & 127));
    }
  }

  std::uint32_t accumulator(int style) {
    const auto bits = static_cast<std::uint32_t>(random_());
    switch (style) {
      case 0:
        return bits;
      case 1:
        return (bits & 0x807fffff) | static_cast<std::uint32_t>(110 + random_() % 30) << 23;
      case 2:
        return random_() % 2 == 0 ? bits & 0x80000000 : (bits & 0xbfffffff);
      default:
        return bits & 0x80ffffff;
    }
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("tensor core arithmetic equals the double-precision model on adversarial bit patterns") {
  Patterns patterns(7);
  long compared = 0;
  for (const MmaElement a_type : {MmaElement::kF16, MmaElement::kBF16}) {
    for (const MmaElement b_type : {MmaElement::kF16, MmaElement::kBF16}) {
      for (int style = 0; style < 16; ++style) {
        const int m = 24;
        const int n = 40;  // two whole blocks of columns and a half
        std::vector<std::uint16_t> a(m * kMmaK);
        std::vector<std::uint16_t> b(n * kMmaK);
        for (auto& bits : a) bits = patterns.element(a_type, style % 4);
        for (auto& bits : b) bits = patterns.element(b_type, style % 4);
        if (style % 4 == 0) {  // keep most rows and columns free of NaN, or every result is NaN
          for (int i = 0; i < m * kMmaK; ++i) {
            if (i / kMmaK % 8 != 0) a[static_cast<std::size_t>(i)] = patterns.element(a_type, 2);
          }
          for (int i = 0; i < n * kMmaK; ++i) {
            if (i / kMmaK % 16 != 3) b[static_cast<std::size_t>(i)] = patterns.element(b_type, 2);
          }
        }
        MmaOperands operands;
        operands.load(a_type, b_type, a, b);
        for (int row = 0; row < m; ++row) {
          std::vector<std::uint32_t> d(n);
          for (auto& bits : d) bits = patterns.accumulator(style / 4);
          const std::vector<std::uint32_t> before = d;
          operands.accumulate_row_f32(row, d.data());
          for (int column = 0; column < n; ++column) {
            const auto i = static_cast<std::size_t>(column);
            const std::uint16_t* a_row = &a[static_cast<std::size_t>(row) * kMmaK];
            const std::uint16_t* b_row = &b[i * kMmaK];
            const std::uint32_t want = reference_f32(a_type, b_type, a_row, b_row, before[i]);
            REQUIRE(dot_accumulate_f32(a_type, b_type, a_row, b_row, before[i]) == want);
            REQUIRE(d[i] == want);
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared == 4 * 16 * 24 * 40);
}

TEST_CASE("the kernel of every CPU gives what the definition does, for every type and precision") {
  struct Case {
    MmaElement a_type, b_type;
    MmaPrecision precision;
    bool scaled = false;
  };
  const Case cases[] = {{MmaElement::kBF16, MmaElement::kBF16, {}},
                        {MmaElement::kF16, MmaElement::kF16, {}},
                        {MmaElement::kTF32, MmaElement::kTF32, {}},
                        {MmaElement::kE4M3, MmaElement::kE5M2, {}},
                        {MmaElement::kE5M2, MmaElement::kE4M3, {}},
                        {MmaElement::kE4M3, MmaElement::kE4M3, kHopperFp8Precision},
                        {MmaElement::kE5M2, MmaElement::kE5M2, kHopperFp8Precision},
                        {MmaElement::kE4M3, MmaElement::kE2M1, {}, true},
                        {MmaElement::kE3M2, MmaElement::kE5M2, {}, true},
                        {MmaElement::kE2M3, MmaElement::kE2M3, {}, false}};
  std::mt19937 random(13);
  const int m = 6, n = 72;
  Patterns patterns(11);
  REQUIRE(!mma_row_kernels().empty());
  for (const MmaRowKernelChoice kernel : mma_row_kernels()) {
    for (const auto& [a_type, b_type, precision, scaled] : cases) {
      for (int style = 0; style < 16; ++style) {
        // Any pattern of 8 bits is worth trying; of the wide types, words of which the upper is a bf16.
        const auto fill = [&](std::vector<std::uint16_t>& words, MmaElement type, int rare) {
          const bool tf32 = type == MmaElement::kTF32;
          for (std::size_t i = 0; i < words.size(); ++i) {
            const bool any = style % 4 == 0 && i / kMmaK % static_cast<std::size_t>(rare) == 0;
            const int word_style = (tf32 && i % 2 == 0) || any ? 0 : style % 4 == 0 ? 2 : style % 4;
            words[i] = patterns.element(tf32 ? MmaElement::kBF16 : type, word_style);
            // Without the patterns of infinity and NaN, of which a row of 32 nearly always has one.
            if (element_bytes(type) == 1 && !any) words[i] &= 0xbbbb;
          }
        };
        std::vector<std::uint16_t> a(m * kMmaK), b(n * kMmaK);
        fill(a, a_type, 5);
        fill(b, b_type, 7);
        MmaOperands operands;
        operands.use_kernel(kernel);
        operands.load(a_type, b_type, a, b, precision);
        if (scaled) {  // a few of any exponent, and NaN
          std::vector<std::uint8_t> a_scales(m), b_scales(n);
          for (auto* scales : {&a_scales, &b_scales})
            for (auto& scale : *scales)
              scale = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : 120 + random() % 16);
          operands.scale(a_scales, b_scales);
        }
        for (int row = 0; row < m; ++row) {
          std::vector<std::uint32_t> d(n);
          for (auto& bits : d) bits = patterns.accumulator(style / 4);
          const std::vector<std::uint32_t> before = d;
          operands.accumulate_row_f32(row, d.data());
          for (int column = 0; column < n; ++column) {
            const auto i = static_cast<std::size_t>(column);
            REQUIRE(d[i] == operands.dot_f32(row, column, before[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("tensor core arithmetic: the published truncation, rounding and special values") {
  const std::uint16_t one = 0x3f80;  // bf16
  std::vector<std::uint16_t> a(kMmaK, 0);
  std::vector<std::uint16_t> b(kMmaK, one);
  const auto dot = [&](float c) {
    return dot_accumulate_f32(MmaElement::kBF16, MmaElement::kBF16, a.data(), b.data(),
                              std::bit_cast<std::uint32_t>(c));
  };
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const auto power = [](int exponent) { return static_cast<std::uint16_t>((exponent + 127) << 7); };

  SUBCASE("a term below 2^-25 of the largest is lost, one at 2^-25 is not") {
    a = std::vector<std::uint16_t>(kMmaK, power(-26));
    CHECK(dot(1.0f) == bits(1.0f));  // sixteen terms of 2^-26 would sum to 2^-22
    a = std::vector<std::uint16_t>(kMmaK, power(-25));
    CHECK(dot(1.0f) == bits(1.0f + 0x1p-21f));
  }
  SUBCASE("rounding is toward zero") {
    a[0] = power(-24);
    CHECK(dot(1.0f) == bits(1.0f));
    a[0] = static_cast<std::uint16_t>(power(-24) | 0x8000);
    CHECK(dot(1.0f) == bits(1.0f - 0x1p-24f));
    a[0] = static_cast<std::uint16_t>(power(-25) | 0x8000);
    CHECK(dot(1.0f) == bits(1.0f - 0x1p-24f));
  }
  SUBCASE("sums of sixteen largest products do not overflow the kernel's integers") {
    const std::uint16_t almost_two = 0x3fff;  // bf16 1.9921875
    a = std::vector<std::uint16_t>(kMmaK, almost_two);
    b = std::vector<std::uint16_t>(kMmaK, almost_two);
    CHECK(dot(3.9f) == reference_f32(MmaElement::kBF16, MmaElement::kBF16, a.data(), b.data(), bits(3.9f)));
    MmaOperands operands;
    operands.load(MmaElement::kBF16, MmaElement::kBF16, a, b);
    std::uint32_t d = bits(-3.9f);
    operands.accumulate_row_f32(0, &d);
    CHECK(d == reference_f32(MmaElement::kBF16, MmaElement::kBF16, a.data(), b.data(), bits(-3.9f)));
  }
  SUBCASE("special values") {
    CHECK(dot(-0.0f) == 0);
    CHECK(dot(INFINITY) == 0x7f800000);
    CHECK(dot(std::nanf("")) == kMmaNanF32);
    a[3] = 0xff80;  // -inf
    CHECK(dot(1.0f) == 0xff800000);
    CHECK(dot(INFINITY) == kMmaNanF32);
    b[3] = 0;
    CHECK(dot(1.0f) == kMmaNanF32);
    a[3] = b[3] = 0x7f7f;  // the product of two largest bf16 overflows
    CHECK(dot(1.0f) == 0x7f800000);
  }
}

TEST_CASE("tensor core arithmetic is exact on small integers") {
  std::mt19937 random(3);
  const int m = 8;
  const int n = 16;
  std::vector<int> a_value(m * kMmaK);
  std::vector<int> b_value(n * kMmaK);
  std::vector<std::uint16_t> a(a_value.size());
  std::vector<std::uint16_t> b(b_value.size());
  const auto bf16 = [](int x) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16);
  };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16(a_value[i] = static_cast<int>(random() % 201) - 100);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16(b_value[i] = static_cast<int>(random() % 201) - 100);
  MmaOperands operands;
  operands.load(MmaElement::kBF16, MmaElement::kBF16, a, b);
  for (int row = 0; row < m; ++row) {
    std::vector<std::uint32_t> d(n, std::bit_cast<std::uint32_t>(17.0f));
    operands.accumulate_row_f32(row, d.data());
    for (int column = 0; column < n; ++column) {
      int want = 17;
      for (int k = 0; k < kMmaK; ++k) {
        want += a_value[static_cast<std::size_t>(row * kMmaK + k)] *
                b_value[static_cast<std::size_t>(column * kMmaK + k)];
      }
      CHECK(std::bit_cast<float>(d[static_cast<std::size_t>(column)]) == static_cast<float>(want));
    }
  }
}

TEST_CASE("f16 accumulators round to nearest even") {
  std::vector<std::uint16_t> a(kMmaK, 0);
  std::vector<std::uint16_t> b(kMmaK, 0x3c00);  // 1.0
  a[0] = 0x1000;                                // 2^-11, half a unit of 1.0
  CHECK(dot_accumulate_f16(a.data(), b.data(), 0x3c00) == 0x3c00);
  CHECK(dot_accumulate_f16(a.data(), b.data(), 0x3c01) == 0x3c02);
  a[1] = 0x0400;  // a little more
  CHECK(dot_accumulate_f16(a.data(), b.data(), 0x3c00) == 0x3c01);
  a[0] = 0x7bff;
  CHECK(dot_accumulate_f16(a.data(), b.data(), 0x7bff) == 0x7c00);
  CHECK(dot_accumulate_f16(a.data(), b.data(), 0x7c01) == kMmaNanF16);
}

TEST_CASE("matrix descriptors place elements as the worked examples do") {
  const std::uint64_t base = 0x8000;
  const auto address = [&](std::uint64_t bits, MatrixMajor major, std::uint32_t mn, std::uint32_t k) {
    const auto descriptor = decode_matrix_descriptor(bits | (base >> 4));
    REQUIRE(descriptor.ok());
    return element_address(*descriptor, major, mn, k) - base;
  };
  // `advance` is the documented step of the start address for each K = 16.
  const auto k_major = [&](std::uint64_t bits, std::uint64_t advance, std::uint32_t m, std::uint32_t k) {
    return address(bits + (advance >> 4) * (k / 16), MatrixMajor::kK, m, k % 16);
  };
  const auto mn_major = [&](std::uint64_t bits, std::uint64_t advance, std::uint32_t d, std::uint32_t kv) {
    return address(bits + (advance >> 4) * (kv / 16), MatrixMajor::kMN, d, kv % 16);
  };

  SUBCASE("K-major, 128-byte swizzle, 128 x 64") {
    const std::uint64_t bits = 0x4000'4040'0001'0000;
    CHECK(k_major(bits, 32, 0, 0) == 0);
    CHECK(k_major(bits, 32, 0, 8) == 16);
    CHECK(k_major(bits, 32, 1, 0) == 144);
    CHECK(k_major(bits, 32, 1, 8) == 128);
    CHECK(k_major(bits, 32, 3, 40) == 480);
    CHECK(k_major(bits, 32, 7, 63) == 910);
    CHECK(k_major(bits, 32, 9, 16) == 1200);
    CHECK(k_major(bits, 32, 127, 63) == 16270);
  }
  SUBCASE("MN-major, 128-byte swizzle, 128 keys x 128") {
    const std::uint64_t bits = 0x4000'4040'0400'0000;
    CHECK(mn_major(bits, 2048, 8, 0) == 16);
    CHECK(mn_major(bits, 2048, 0, 1) == 144);
    CHECK(mn_major(bits, 2048, 63, 1) == 238);
    CHECK(mn_major(bits, 2048, 64, 0) == 16384);
    CHECK(mn_major(bits, 2048, 70, 13) == 18140);
    CHECK(mn_major(bits, 2048, 127, 127) == 32654);
  }
  SUBCASE("64-byte swizzle") {
    const std::uint64_t k_bits = 0x8000'4020'0001'0000;
    CHECK(k_major(k_bits, 32, 1, 8) == 80);
    CHECK(k_major(k_bits, 32, 2, 0) == 144);
    CHECK(k_major(k_bits, 32, 5, 24) == 336);
    CHECK(k_major(k_bits, 32, 127, 31) == 8142);
    const std::uint64_t mn_bits = 0x8000'4020'0200'0000;
    CHECK(mn_major(mn_bits, 1024, 8, 2) == 128);
    CHECK(mn_major(mn_bits, 1024, 32, 0) == 8192);
    CHECK(mn_major(mn_bits, 1024, 40, 13) == 9072);
    CHECK(mn_major(mn_bits, 1024, 127, 127) == 32718);
  }
  SUBCASE("32-byte swizzle and none") {
    const std::uint64_t k_bits = 0xC000'4010'0001'0000;
    for (std::uint32_t m = 0; m < 128; ++m) {
      const std::uint32_t linear = m * 32 + 16;
      CHECK(k_major(k_bits, 0, m, 8) == (linear ^ (((linear >> 7) & 1) << 4)));
    }
    // Stored as [k / 8][m][8]: 128 rows of 16 bytes, then the next eight k.
    const std::uint64_t plain = 0x0000'4008'0080'0000;
    CHECK(k_major(plain, 4096, 5, 3) == 86);
    CHECK(k_major(plain, 4096, 9, 12) == 2048 + 144 + 8);
    CHECK(k_major(plain, 4096, 127, 17) == 4096 + 127 * 16 + 2);
    // MN-major without swizzle swaps the roles: LBO steps along k, SBO along mn.
    const auto descriptor = decode_matrix_descriptor(0x0000'4010'0040'0000 | (base >> 4));
    REQUIRE(descriptor.ok());
    CHECK(element_address(*descriptor, MatrixMajor::kMN, 10, 9) == base + 2 * 2 + 256 + 16 + 1024);
  }
  SUBCASE("a chunk is the eight elements around it") {
    const auto k_descriptor = decode_matrix_descriptor(0x4000'4040'0001'0000 | (base >> 4));
    const auto mn_descriptor = decode_matrix_descriptor(0x8000'4020'0200'0000 | (base >> 4));
    for (std::uint32_t mn = 0; mn < 64; ++mn) {
      for (std::uint32_t k = 0; k < 16; ++k) {
        CHECK(element_address(*k_descriptor, MatrixMajor::kK, mn, k) ==
              chunk_address(*k_descriptor, MatrixMajor::kK, mn, k) + k % 8 * 2);
        CHECK(element_address(*mn_descriptor, MatrixMajor::kMN, mn, k) ==
              chunk_address(*mn_descriptor, MatrixMajor::kMN, mn, k) + mn % 8 * 2);
      }
    }
  }
}

TEST_CASE("matrix descriptors: what is refused, by name") {
  const auto message = [](std::uint64_t bits) { return decode_matrix_descriptor(bits).status().message(); };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(message(0x4000'0040'0001'0000), "bits 48:46 are 0"));  // a Hopper descriptor
  CHECK(has(message(0x4000'4040'0001'4000), "bits 15:14"));
  CHECK(has(message(0x4000'4040'4001'0000), "bits 31:30"));
  CHECK(has(message(0x4020'4040'0001'0000), "bits 60:53"));
  CHECK(has(message(0x4010'4040'0001'0000), "bit 52"));
  CHECK(has(message(0x6000'4040'0001'0000), "swizzle code 3"));
  const auto descriptor = decode_matrix_descriptor(0x800c'4020'0200'1234);
  REQUIRE(descriptor.ok());
  CHECK(descriptor->start_address == 0x12340);
  CHECK(descriptor->leading_byte_offset == 8192);
  CHECK(descriptor->stride_byte_offset == 512);
  CHECK(descriptor->base_offset == 6);
  CHECK(descriptor->swizzle_bytes == 64);
}

TEST_CASE("instruction descriptors: fields and illegal combinations") {
  const auto decode = [](std::uint32_t bits, int cta_group = 1, bool tensor_a = false) {
    return decode_instruction_descriptor(
        bits, {.kind = MmaKind::kF16, .cta_group = cta_group, .a_in_tensor_memory = tensor_a});
  };
  const auto message = [&](std::uint32_t bits, int cta_group = 1, bool tensor_a = false) {
    return decode(bits, cta_group, tensor_a).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };

  auto descriptor = decode(0x08210490);
  REQUIRE(descriptor.ok());
  CHECK(descriptor->m == 128);
  CHECK(descriptor->n == 128);
  CHECK(descriptor->a_type == MmaElement::kBF16);
  CHECK(descriptor->b_type == MmaElement::kBF16);
  CHECK(descriptor->d_type == MmaAccumulator::kF32);
  CHECK(descriptor->a_major == MatrixMajor::kK);
  CHECK(descriptor->b_major == MatrixMajor::kMN);
  descriptor = decode(0x04200010 | 1 << 13);
  REQUIRE(descriptor.ok());
  CHECK(descriptor->m == 64);
  CHECK(descriptor->a_type == MmaElement::kF16);
  CHECK(descriptor->negate_a);
  CHECK_FALSE(descriptor->negate_b);
  CHECK(decode(0x10400490, 2).ok());

  CHECK(has(message(0x10400490), "M = 256"));
  CHECK(has(message(0x04200490, 2), "M = 64"));
  CHECK(has(message(0x08000490), "N = 0"));
  CHECK(has(message(0x08420490), "N = 264"));
  CHECK(has(message(0x10420490 - 0x00400000, 2), "N = 8"));
  CHECK(has(message(0x08200480), "D of type f16"));
  CHECK(has(message(0x082004a0), "D type 2"));
  CHECK(has(message(0x08200510), "A type 2"));
  CHECK(has(message(0x08208490, 1, true), "K-major"));
  CHECK(has(message(0x08200490 | 1 << 2), "sparse"));
  CHECK(has(message(0x08200490 | 1 << 3), "saturate"));
  CHECK(has(message(0x08200490 | 1 << 6), "bit 6"));
  CHECK(has(message(0x08200490 | 1 << 23), "bit 23"));
  CHECK(has(message(0x08200490 | 1 << 29), "bit 29"));
  CHECK(has(message(0x08200490 | 1u << 30), "bits 31:30"));
}

}  // namespace jfa::simulator::mma_test
