#include "simulator/mma.h"

#include <algorithm>
#include <bit>

#include "simulator/mma_kernel.h"

namespace jfa::simulator {
namespace {

constexpr int kFractionBits = 25;

// A finite number is (negative ? -1 : 1) * significand * 2^(exponent - fraction_bits). Subnormals and zero
// have the format's smallest exponent.
struct Unpacked {
  enum Kind : std::uint8_t { kFinite, kInfinite, kNan } kind = kFinite;
  bool negative = false;
  int exponent = 0;
  std::uint32_t significand = 0;
};

Unpacked unpack(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const std::uint32_t biased = (bits >> fraction_bits) & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Unpacked number;
  number.negative = ((bits >> (exponent_bits + fraction_bits)) & 1) != 0;
  if (biased == (1u << exponent_bits) - 1) {
    number.kind = fraction == 0 ? Unpacked::kInfinite : Unpacked::kNan;
  } else {
    number.exponent = static_cast<int>(biased == 0 ? 1 : biased) - bias;
    number.significand = biased == 0 ? fraction : fraction | (1u << fraction_bits);
  }
  return number;
}

int fraction_bits(MmaElement type) { return type == MmaElement::kF16 ? 10 : 7; }

Unpacked unpack(MmaElement type, std::uint16_t bits) {
  return type == MmaElement::kF16 ? unpack(bits, 5, 10) : unpack(bits, 8, 7);
}

// The exact sum of the aligned, truncated terms: sum * 2^(exponent - 25), or a special value.
struct AlignedSum {
  enum Kind : std::uint8_t { kFinite, kPositiveInfinity, kNegativeInfinity, kNan } kind = kFinite;
  std::int64_t sum = 0;
  int exponent = 0;
};

AlignedSum aligned_sum(MmaElement a_type, MmaElement b_type, const std::uint16_t* a, const std::uint16_t* b,
                       const Unpacked& c, int c_fraction_bits) {
  Unpacked product[kMmaK];
  AlignedSum result;
  bool positive_infinity = c.kind == Unpacked::kInfinite && !c.negative;
  bool negative_infinity = c.kind == Unpacked::kInfinite && c.negative;
  bool nan = c.kind == Unpacked::kNan;
  // Zeros never raise the largest exponent: the accumulator's is at least the format's smallest.
  result.exponent = c.exponent;
  for (int k = 0; k < kMmaK; ++k) {
    const Unpacked x = unpack(a_type, a[k]);
    const Unpacked y = unpack(b_type, b[k]);
    product[k].negative = x.negative != y.negative;
    const bool x_zero = x.kind == Unpacked::kFinite && x.significand == 0;
    const bool y_zero = y.kind == Unpacked::kFinite && y.significand == 0;
    if (x.kind == Unpacked::kNan || y.kind == Unpacked::kNan) {
      nan = true;
    } else if (x.kind == Unpacked::kInfinite || y.kind == Unpacked::kInfinite) {
      nan |= x_zero || y_zero;
      (product[k].negative ? negative_infinity : positive_infinity) = true;
    } else if (!x_zero && !y_zero) {
      product[k].significand = x.significand * y.significand;
      product[k].exponent = x.exponent + y.exponent;
      result.exponent = std::max(result.exponent, product[k].exponent);
    }
  }
  if (nan || (positive_infinity && negative_infinity)) {
    result.kind = AlignedSum::kNan;
  } else if (positive_infinity) {
    result.kind = AlignedSum::kPositiveInfinity;
  } else if (negative_infinity) {
    result.kind = AlignedSum::kNegativeInfinity;
  } else {
    const auto aligned = [&](const Unpacked& term, int term_fraction_bits) {
      const int shift = std::min(result.exponent - term.exponent, 63);
      const auto magnitude = static_cast<std::int64_t>(
          (std::uint64_t{term.significand} << (kFractionBits - term_fraction_bits)) >> shift);
      return term.negative ? -magnitude : magnitude;
    };
    result.sum = aligned(c, c_fraction_bits);
    for (const Unpacked& term : product) {
      if (term.significand != 0) result.sum += aligned(term, fraction_bits(a_type) + fraction_bits(b_type));
    }
  }
  return result;
}

// Rounds sum * 2^(exponent - 25) to a binary format; `nearest` to nearest even, else toward zero.
std::uint32_t pack(const AlignedSum& value, int exponent_bits, int target_fraction_bits, bool nearest) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << target_fraction_bits;
  const std::uint32_t sign_bit = 1u << (exponent_bits + target_fraction_bits);
  if (value.kind == AlignedSum::kNan) return sign_bit - 1;
  if (value.kind == AlignedSum::kPositiveInfinity) return infinity;
  if (value.kind == AlignedSum::kNegativeInfinity) return infinity | sign_bit;
  if (value.sum == 0) return 0;
  const std::uint32_t sign = value.sum < 0 ? sign_bit : 0;
  const auto magnitude = static_cast<std::uint64_t>(value.sum < 0 ? -value.sum : value.sum);
  // magnitude is below 2^33. Its leading bit has the weight 2^leading.
  const int leading = std::bit_width(magnitude) - 1 + value.exponent - kFractionBits;
  // The result is a multiple of 2^unit.
  const int unit = std::max(leading, 1 - bias) - target_fraction_bits;
  const int drop = unit - (value.exponent - kFractionBits);  // low bits of magnitude that are rounded away
  std::uint64_t kept;
  if (drop <= 0) {
    kept = magnitude << -drop;
  } else if (drop >= 64) {
    kept = 0;
  } else {
    kept = magnitude >> drop;
    const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (nearest && (rest > half || (rest == half && (kept & 1) != 0))) ++kept;
  }
  // Without its implicit bit, kept adds onto the exponent field; a carry out of rounding lands right by
  // itself.
  const int exponent_field = unit + target_fraction_bits + bias;  // at least 1
  const std::uint64_t packed =
      (static_cast<std::uint64_t>(exponent_field - 1) << target_fraction_bits) + kept;
  return packed >= infinity ? infinity | sign : static_cast<std::uint32_t>(packed) | sign;
}

float value_of(MmaElement type, const Unpacked& number) {
  const int scale = number.exponent - fraction_bits(type);  // -133 … 120
  // Two factors, because 2^-133 is subnormal.
  const float magnitude = static_cast<float>(number.significand) *
                          std::bit_cast<float>(static_cast<std::uint32_t>(scale / 2 + 127) << 23) *
                          std::bit_cast<float>(static_cast<std::uint32_t>(scale - scale / 2 + 127) << 23);
  return number.negative ? -magnitude : magnitude;
}

struct Decoded {
  float value;
  std::int16_t exponent;
};

Decoded decode(MmaElement type, std::uint16_t bits) {
  const Unpacked number = unpack(type, bits);
  if (number.kind != Unpacked::kFinite) return {0.0f, kNotFiniteExponent};
  if (number.significand == 0) return {0.0f, kZeroExponent};
  return {value_of(type, number), static_cast<std::int16_t>(number.exponent)};
}

// Every 16-bit pattern decoded once: operands arrive far more often than there are patterns.
const std::vector<Decoded>& decode_table(MmaElement type) {
  const auto make = [](MmaElement element) {
    std::vector<Decoded> table(65536);
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      table[bits] = decode(element, static_cast<std::uint16_t>(bits));
    return table;
  };
  static const std::vector<Decoded> f16 = make(MmaElement::kF16);
  static const std::vector<Decoded> bf16 = make(MmaElement::kBF16);
  return type == MmaElement::kF16 ? f16 : bf16;
}

}  // namespace

std::uint32_t dot_accumulate_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                                 const std::uint16_t* b, std::uint32_t c) {
  return pack(aligned_sum(a_type, b_type, a, b, unpack(c, 8, 23), 23), 8, 23, /*nearest=*/false);
}

std::uint16_t dot_accumulate_f16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t c) {
  const AlignedSum sum = aligned_sum(MmaElement::kF16, MmaElement::kF16, a, b, unpack(c, 5, 10), 10);
  return static_cast<std::uint16_t>(pack(sum, 5, 10, /*nearest=*/true));
}

void MmaOperands::load(MmaElement a_type, MmaElement b_type, std::span<const std::uint16_t> a,
                       std::span<const std::uint16_t> b) {
  a_type_ = a_type;
  b_type_ = b_type;
  a_.assign(a.begin(), a.end());
  b_.assign(b.begin(), b.end());
  n_ = static_cast<int>(b.size()) / kMmaK;
  padded_n_ = (n_ + kMmaBlock - 1) / kMmaBlock * kMmaBlock;
  a_value_.resize(a.size());
  a_exponent_.resize(a.size());
  const Decoded* table = decode_table(a_type).data();
  for (std::size_t i = 0; i < a.size(); ++i) {
    a_value_[i] = table[a[i]].value;
    a_exponent_[i] = table[a[i]].exponent;
  }
  const auto padded = static_cast<std::size_t>(padded_n_);
  b_value_.assign(padded * kMmaK, 0.0f);
  b_exponent_.assign(padded * kMmaK, kZeroExponent);
  table = decode_table(b_type).data();
  for (std::size_t column = 0; column < static_cast<std::size_t>(n_); ++column) {
    for (std::size_t k = 0; k < kMmaK; ++k) {
      const Decoded& element = table[b[column * kMmaK + k]];
      b_value_[k * padded + column] = element.value;
      b_exponent_[k * padded + column] = element.exponent;
    }
  }
}

void MmaOperands::accumulate_row_f32(int m, std::uint32_t* d_row) const {
  const std::size_t a_row = static_cast<std::size_t>(m) * kMmaK;
  for (int first = 0; first < n_; first += kMmaBlock) {
    const int columns = std::min(kMmaBlock, n_ - first);
    std::uint32_t d[kMmaBlock] = {};
    std::int16_t largest[kMmaBlock];
    std::copy_n(d_row + first, columns, d);
    const bool computed =
        mma_row_block(&a_value_[a_row], &a_exponent_[a_row], &b_value_[static_cast<std::size_t>(first)],
                      &b_exponent_[static_cast<std::size_t>(first)], padded_n_, d, largest);
    for (int j = 0; j < columns; ++j) {
      if (computed && is_fast_exponent(largest[j])) continue;
      d[j] = dot_accumulate_f32(a_type_, b_type_, &a_[a_row],
                                &b_[static_cast<std::size_t>(first + j) * kMmaK], d[j]);
    }
    std::copy_n(d, columns, d_row + first);
  }
}

void MmaOperands::accumulate_row_f16(int m, std::uint32_t* d_row) const {
  for (int n = 0; n < n_; ++n) {
    d_row[n] =
        dot_accumulate_f16(&a_[static_cast<std::size_t>(m) * kMmaK], &b_[static_cast<std::size_t>(n) * kMmaK],
                           static_cast<std::uint16_t>(d_row[n]));
  }
}

}  // namespace jfa::simulator
