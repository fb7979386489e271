#include "simulator/mma.h"

#include <algorithm>
#include <bit>

#include "simulator/mma_kernel.h"

namespace jfa::simulator {
namespace {

constexpr int kMostElements = 32;

AlignedSum aligned_sum(std::span<const MmaNumber> a, std::span<const MmaNumber> b, int product_fraction_bits,
                       const MmaNumber& c, MmaFormat c_format, int aligned_bits) {
  MmaNumber product[kMostElements];
  AlignedSum result;
  result.aligned_bits = aligned_bits;
  bool positive_infinity = c.kind == MmaNumber::kInfinite && !c.negative;
  bool negative_infinity = c.kind == MmaNumber::kInfinite && c.negative;
  bool nan = c.kind == MmaNumber::kNan;
  // Zeros never raise the largest exponent above f32's smallest, which they have.
  result.exponent = c.exponent;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const MmaNumber& x = a[k];
    const MmaNumber& y = b[k];
    product[k].negative = x.negative != y.negative;
    const bool x_zero = x.kind == MmaNumber::kFinite && x.significand == 0;
    const bool y_zero = y.kind == MmaNumber::kFinite && y.significand == 0;
    if (x.kind == MmaNumber::kNan || y.kind == MmaNumber::kNan) {
      nan = true;
    } else if (x.kind == MmaNumber::kInfinite || y.kind == MmaNumber::kInfinite) {
      nan |= x_zero || y_zero;
      (product[k].negative ? negative_infinity : positive_infinity) = true;
    } else if (!x_zero && !y_zero) {
      product[k].significand = x.significand * y.significand;
      product[k].exponent = static_cast<std::int16_t>(x.exponent + y.exponent);
      result.exponent = std::max<int>(result.exponent, product[k].exponent);
    }
  }
  if (nan || (positive_infinity && negative_infinity)) {
    result.kind = AlignedSum::kNan;
  } else if (positive_infinity) {
    result.kind = AlignedSum::kPositiveInfinity;
  } else if (negative_infinity) {
    result.kind = AlignedSum::kNegativeInfinity;
  } else {
    result.sum = result.align(c.negative, c.significand, c.exponent, c_format.fraction_bits);
    for (std::size_t k = 0; k < a.size(); ++k) {
      const MmaNumber& p = product[k];
      if (p.significand != 0)
        result.sum += result.align(p.negative, p.significand, p.exponent, product_fraction_bits);
    }
  }
  return result;
}

// To f32 with as many fraction bits as the precision says, the low ones 0.
std::uint32_t pack_f32(const AlignedSum& value, MmaPrecision precision) {
  if (value.kind == AlignedSum::kNan) return kMmaNanF32;
  return pack(value, {kMmaF32.exponent_bits, precision.result_bits}, /*nearest=*/false)
         << (kMmaF32.fraction_bits - precision.result_bits);
}

float value_of(MmaElement type, const MmaNumber& number) {
  const int scale = number.exponent - mma_format(type).fraction_bits;  // -133 … 120
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
  const MmaNumber number = unpack(type, bits);
  if (number.kind != MmaNumber::kFinite) return {0.0f, kNotFiniteExponent};
  if (number.significand == 0) return {0.0f, kZeroExponent};
  return {value_of(type, number), number.exponent};
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

namespace {

int product_fraction_bits(MmaElement a_type, MmaElement b_type) {
  return mma_format(a_type).fraction_bits + mma_format(b_type).fraction_bits;
}

struct Step16 {
  MmaNumber a[kMmaK], b[kMmaK];
  Step16(MmaElement a_type, MmaElement b_type, const std::uint16_t* a_bits, const std::uint16_t* b_bits) {
    for (int k = 0; k < kMmaK; ++k) a[k] = unpack(a_type, a_bits[k]), b[k] = unpack(b_type, b_bits[k]);
  }
};

// Element `index` of a row of 16 words.
std::uint32_t element_of(MmaElement type, const std::uint16_t* row, int index) {
  switch (element_bytes(type)) {
    case 1:
      return row[index / 2] >> 8 * (index % 2) & 0xff;
    case 2:
      return row[index];
    default:
      return row[2 * index] | std::uint32_t{row[2 * index + 1]} << 16;
  }
}

void unpack_all(MmaElement type, std::span<const std::uint16_t> rows, std::vector<MmaNumber>& numbers) {
  const int elements = static_cast<int>(kMmaStepBytes / element_bytes(type));
  numbers.clear();
  for (std::size_t row = 0; row < rows.size(); row += kMmaK)
    for (int k = 0; k < elements; ++k) numbers.push_back(unpack(type, element_of(type, &rows[row], k)));
}

}  // namespace

std::uint32_t dot_accumulate_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                                 const std::uint16_t* b, std::uint32_t c) {
  const Step16 step(a_type, b_type, a, b);
  const AlignedSum sum = aligned_sum(step.a, step.b, product_fraction_bits(a_type, b_type),
                                     unpack(c, kMmaF32), kMmaF32, MmaPrecision{}.aligned_bits);
  return pack_f32(sum, {});
}

std::uint16_t dot_accumulate_f16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t c) {
  const Step16 step(MmaElement::kF16, MmaElement::kF16, a, b);
  const AlignedSum sum =
      aligned_sum(step.a, step.b, 20, unpack(c, kMmaF16), kMmaF16, MmaPrecision{}.aligned_bits);
  return static_cast<std::uint16_t>(pack(sum, kMmaF16, /*nearest=*/true));
}

void negate_elements(MmaElement type, std::span<std::uint16_t> rows) {
  const bool tf32 = element_bytes(type) == 4;
  const std::uint32_t sign = 1u << (tf32 ? 15 : element_bits(type) - 1);
  const auto signs = static_cast<std::uint16_t>(element_bytes(type) == 1 ? sign | sign << 8 : sign);
  for (std::size_t i = tf32 ? 1 : 0; i < rows.size(); i += tf32 ? 2 : 1) rows[i] ^= signs;
}

void MmaOperands::load(MmaElement a_type, MmaElement b_type, std::span<const std::uint16_t> a,
                       std::span<const std::uint16_t> b, MmaPrecision precision) {
  a_type_ = a_type;
  b_type_ = b_type;
  precision_ = precision;
  a_.assign(a.begin(), a.end());
  b_.assign(b.begin(), b.end());
  n_ = static_cast<int>(b.size()) / kMmaK;
  if (is_16_bit()) {
    load_16_bit(a, b);
  } else if (a_type != MmaElement::kU8 && a_type != MmaElement::kS8) {
    unpack_all(a_type, a, a_number_);
    unpack_all(b_type, b, b_number_);
  }
}

void MmaOperands::load_16_bit(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  padded_n_ = (n_ + kMmaBlock - 1) / kMmaBlock * kMmaBlock;
  a_value_.resize(a.size());
  a_exponent_.resize(a.size());
  const Decoded* table = decode_table(a_type_).data();
  for (std::size_t i = 0; i < a.size(); ++i) {
    a_value_[i] = table[a[i]].value;
    a_exponent_[i] = table[a[i]].exponent;
  }
  const auto padded = static_cast<std::size_t>(padded_n_);
  b_value_.assign(padded * kMmaK, 0.0f);
  b_exponent_.assign(padded * kMmaK, kZeroExponent);
  table = decode_table(b_type_).data();
  for (std::size_t column = 0; column < static_cast<std::size_t>(n_); ++column) {
    for (std::size_t k = 0; k < kMmaK; ++k) {
      const Decoded& element = table[b[column * kMmaK + k]];
      b_value_[k * padded + column] = element.value;
      b_exponent_[k * padded + column] = element.exponent;
    }
  }
}

void MmaOperands::scale(std::span<const std::uint8_t> a_scales, std::span<const std::uint8_t> b_scales) {
  const auto scale_rows = [&](std::span<const std::uint8_t> scales, std::vector<MmaNumber>& numbers) {
    const auto count = static_cast<std::size_t>(elements());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const MmaNumber scale = unpack_scale(ScaleType::kUe8m0, scales[i / count]);
      if (scale.kind == MmaNumber::kNan)
        numbers[i] = scale;
      else
        numbers[i].exponent = static_cast<std::int16_t>(numbers[i].exponent + scale.exponent);
    }
  };
  scale_rows(a_scales, a_number_);
  scale_rows(b_scales, b_number_);
}

void MmaOperands::accumulate_row(MmaAccumulator type, int m, std::uint32_t* d_row, bool saturate) const {
  switch (type) {
    case MmaAccumulator::kF32:
      return accumulate_row_f32(m, d_row);
    case MmaAccumulator::kF16:
      return accumulate_row_f16(m, d_row);
    case MmaAccumulator::kS32:
      return accumulate_row_s32(m, d_row, saturate);
  }
}

void MmaOperands::accumulate_row_f32(int m, std::uint32_t* d_row) const {
  if (!is_16_bit()) {
    const auto count = static_cast<std::size_t>(elements());
    const std::span a(&a_number_[static_cast<std::size_t>(m) * count], count);
    const int fraction_bits = product_fraction_bits(a_type_, b_type_);
    for (int n = 0; n < n_; ++n)
      d_row[n] =
          pack_f32(aligned_sum(a, {&b_number_[static_cast<std::size_t>(n) * count], count}, fraction_bits,
                               unpack(d_row[n], kMmaF32), kMmaF32, precision_.aligned_bits),
                   precision_);
    return;
  }
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
  if (!is_16_bit()) {
    const auto count = static_cast<std::size_t>(elements());
    const std::span a(&a_number_[static_cast<std::size_t>(m) * count], count);
    const int fraction_bits = product_fraction_bits(a_type_, b_type_);
    for (int n = 0; n < n_; ++n)
      d_row[n] = pack(aligned_sum(a, {&b_number_[static_cast<std::size_t>(n) * count], count}, fraction_bits,
                                  unpack(d_row[n] & 0xffff, kMmaF16), kMmaF16, precision_.aligned_bits),
                      kMmaF16, /*nearest=*/true);
    return;
  }
  for (int n = 0; n < n_; ++n) {
    d_row[n] =
        dot_accumulate_f16(&a_[static_cast<std::size_t>(m) * kMmaK], &b_[static_cast<std::size_t>(n) * kMmaK],
                           static_cast<std::uint16_t>(d_row[n]));
  }
}

void MmaOperands::accumulate_row_s32(int m, std::uint32_t* d_row, bool saturate) const {
  const auto value = [](MmaElement type, const std::uint16_t* row, int k) {
    const std::uint32_t bits = element_of(type, row, k);
    return type == MmaElement::kS8 ? std::int64_t{static_cast<std::int8_t>(bits)} : std::int64_t{bits};
  };
  const std::uint16_t* a = &a_[static_cast<std::size_t>(m) * kMmaK];
  for (int n = 0; n < n_; ++n) {
    const std::uint16_t* b = &b_[static_cast<std::size_t>(n) * kMmaK];
    std::int64_t sum = static_cast<std::int32_t>(d_row[n]);
    for (int k = 0; k < elements(); ++k) sum += value(a_type_, a, k) * value(b_type_, b, k);
    if (saturate) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
    d_row[n] = static_cast<std::uint32_t>(sum);
  }
}

}  // namespace jfa::simulator
