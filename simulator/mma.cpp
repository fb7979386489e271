#include "simulator/mma.h"

#include <algorithm>
#include <bit>

#include "simulator/mma_kernel.h"

namespace jfa::simulator {
namespace {

constexpr int kMostElements = 32;
constexpr int kF32ZeroExponent = -126;

struct Format {
  int exponent_bits;
  int fraction_bits;
};

constexpr Format format_of(MmaElement type) {
  switch (type) {
    case MmaElement::kF16:
      return {5, 10};
    case MmaElement::kBF16:
      return {8, 7};
    case MmaElement::kTF32:
      return {8, 10};
    case MmaElement::kE4M3:
      return {4, 3};
    case MmaElement::kE5M2:
      return {5, 2};
    case MmaElement::kU8:
    case MmaElement::kS8:
      break;
  }
  return {0, 8};
}
constexpr Format kF32{8, 23}, kF16{5, 10};

MmaNumber unpack(std::uint32_t bits, Format format) {
  const std::uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const std::uint32_t highest = (1u << format.exponent_bits) - 1;
  const std::uint32_t biased = (bits >> format.fraction_bits) & highest;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  MmaNumber number;
  number.negative = ((bits >> (format.exponent_bits + format.fraction_bits)) & 1) != 0;
  if (biased == highest) {
    number.kind = fraction == 0 ? MmaNumber::kInfinite : MmaNumber::kNan;
  } else if (biased == 0 && fraction == 0) {
    number.exponent = kF32ZeroExponent;
  } else {
    number.exponent = static_cast<std::int16_t>(static_cast<int>(biased == 0 ? 1 : biased) - bias);
    number.significand = biased == 0 ? fraction : fraction | (1u << format.fraction_bits);
  }
  return number;
}

MmaNumber unpack(MmaElement type, std::uint32_t bits) {
  switch (type) {
    case MmaElement::kE4M3: {  // no infinity; its largest exponent is an ordinary one but for S.1111.111
      if ((bits & 0x7f) == 0x7f) return {MmaNumber::kNan, false, 0, 0};
      if ((bits & 0x78) != 0x78) return unpack(bits, format_of(type));
      return {MmaNumber::kFinite, (bits & 0x80) != 0, 8, 8 | (bits & 7)};
    }
    case MmaElement::kTF32:
      return unpack(bits >> 13, format_of(type));  // the low bits are not looked at
    default:
      return unpack(bits, format_of(type));
  }
}

// The exact sum of the aligned, truncated terms: sum * 2^(exponent - aligned bits), or a special value.
struct AlignedSum {
  enum Kind : std::uint8_t { kFinite, kPositiveInfinity, kNegativeInfinity, kNan } kind = kFinite;
  std::int64_t sum = 0;
  int exponent = 0;
  int aligned_bits = 25;
};

AlignedSum aligned_sum(std::span<const MmaNumber> a, std::span<const MmaNumber> b, int product_fraction_bits,
                       const MmaNumber& c, Format c_format, int aligned_bits) {
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
    const auto aligned = [&](const MmaNumber& term, int term_fraction_bits) {
      const int shift = result.exponent - term.exponent - (aligned_bits - term_fraction_bits);
      const std::uint64_t significand = term.significand;
      const auto magnitude =
          static_cast<std::int64_t>(shift <= 0 ? significand << -shift : significand >> std::min(shift, 63));
      return term.negative ? -magnitude : magnitude;
    };
    result.sum = aligned(c, c_format.fraction_bits);
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (product[k].significand != 0) result.sum += aligned(product[k], product_fraction_bits);
    }
  }
  return result;
}

// Rounds the sum to a binary format; `nearest` to nearest even, else toward zero.
std::uint32_t pack(const AlignedSum& value, Format format, bool nearest) {
  const int exponent_bits = format.exponent_bits;
  const int target_fraction_bits = format.fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << target_fraction_bits;
  const std::uint32_t sign_bit = 1u << (exponent_bits + target_fraction_bits);
  if (value.kind == AlignedSum::kNan) return sign_bit - 1;
  if (value.kind == AlignedSum::kPositiveInfinity) return infinity;
  if (value.kind == AlignedSum::kNegativeInfinity) return infinity | sign_bit;
  if (value.sum == 0) return 0;
  const std::uint32_t sign = value.sum < 0 ? sign_bit : 0;
  const auto magnitude = static_cast<std::uint64_t>(value.sum < 0 ? -value.sum : value.sum);
  // magnitude is below 2^34. Its leading bit has the weight 2^leading.
  const int leading = std::bit_width(magnitude) - 1 + value.exponent - value.aligned_bits;
  // The result is a multiple of 2^unit.
  const int unit = std::max(leading, 1 - bias) - target_fraction_bits;
  const int drop =
      unit - (value.exponent - value.aligned_bits);  // low bits of magnitude that are rounded away
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

// To f32 with as many fraction bits as the precision says, the low ones 0.
std::uint32_t pack_f32(const AlignedSum& value, MmaPrecision precision) {
  if (value.kind == AlignedSum::kNan) return kMmaNanF32;
  return pack(value, {kF32.exponent_bits, precision.result_bits}, /*nearest=*/false)
         << (kF32.fraction_bits - precision.result_bits);
}

float value_of(MmaElement type, const MmaNumber& number) {
  const int scale = number.exponent - format_of(type).fraction_bits;  // -133 … 120
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
  return format_of(a_type).fraction_bits + format_of(b_type).fraction_bits;
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
  const AlignedSum sum = aligned_sum(step.a, step.b, product_fraction_bits(a_type, b_type), unpack(c, kF32),
                                     kF32, MmaPrecision{}.aligned_bits);
  return pack_f32(sum, {});
}

std::uint16_t dot_accumulate_f16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t c) {
  const Step16 step(MmaElement::kF16, MmaElement::kF16, a, b);
  const AlignedSum sum = aligned_sum(step.a, step.b, 20, unpack(c, kF16), kF16, MmaPrecision{}.aligned_bits);
  return static_cast<std::uint16_t>(pack(sum, kF16, /*nearest=*/true));
}

void negate_elements(MmaElement type, std::span<std::uint16_t> rows) {
  const bool tf32 = element_bytes(type) == 4;
  const std::uint16_t sign = element_bytes(type) == 1 ? 0x8080 : 0x8000;
  for (std::size_t i = tf32 ? 1 : 0; i < rows.size(); i += tf32 ? 2 : 1) rows[i] ^= sign;
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
      d_row[n] = pack_f32(aligned_sum(a, {&b_number_[static_cast<std::size_t>(n) * count], count},
                                      fraction_bits, unpack(d_row[n], kF32), kF32, precision_.aligned_bits),
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
                                  unpack(d_row[n] & 0xffff, kF16), kF16, precision_.aligned_bits),
                      kF16, /*nearest=*/true);
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
