#include "simulator/tensor_core/mma.h"

#include <algorithm>
#include <bit>

#include "simulator/tensor_core/mma_kernel.h"

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

int product_fraction_bits(MmaElement a_type, MmaElement b_type) {
  return mma_format(a_type).fraction_bits + mma_format(b_type).fraction_bits;
}

// Whether a step's elements have a NaN among them, which makes its sum one: buffers that tests fill with NaN
// are multiplied often enough for this to be worth knowing first.
bool has_nan(MmaElement type, const std::uint16_t* elements) {
  const MmaFormat format = mma_format(type);
  const std::uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
  bool nan = false;
  for (int k = 0; k < kMmaK; ++k) nan |= (elements[k] & 0x7fffu) > infinity;
  return nan;
}

struct Step16 {
  MmaNumber a[kMmaK], b[kMmaK];
  Step16(MmaElement a_type, MmaElement b_type, const std::uint16_t* a_bits, const std::uint16_t* b_bits) {
    for (int k = 0; k < kMmaK; ++k) a[k] = unpack(a_type, a_bits[k]), b[k] = unpack(b_type, b_bits[k]);
  }
};

}  // namespace

std::uint32_t dot_accumulate_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                                 const std::uint16_t* b, std::uint32_t c) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  if (has_nan(a_type, a) || has_nan(b_type, b) || (c & 0x7fffffff) > kInfinity) return kMmaNanF32;
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
  padded_n_ = (n_ + kMmaBlock - 1) / kMmaBlock * kMmaBlock;
  if (a_type == MmaElement::kU8 || a_type == MmaElement::kS8) return;
  a_elements_.decode(a_type, a);
  b_elements_.decode(b_type, b);
  transpose_b();
}

void MmaOperands::scale(std::span<const std::uint8_t> a_scales, std::span<const std::uint8_t> b_scales) {
  const auto count = static_cast<std::size_t>(elements());
  a_elements_.scale(a_scales, count);
  b_elements_.scale(b_scales, count);
  transpose_b();
}

void MmaOperands::transpose_b() {
  b_by_element_.transpose(b_elements_, static_cast<std::size_t>(n_), static_cast<std::size_t>(padded_n_));
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
  const int whole = n_ / kMmaBlock * kMmaBlock, rest = n_ - whole;
  accumulate_blocks(m, 0, whole, d_row);
  if (rest == 0) return;
  std::uint32_t block[kMmaBlock] = {};
  std::copy_n(d_row + whole, rest, block);
  accumulate_blocks(m, whole, kMmaBlock, block);
  std::copy_n(block, rest, d_row + whole);
}

void MmaOperands::accumulate_blocks(int m, int first, int columns, std::uint32_t* d) const {
  const std::size_t a_row = static_cast<std::size_t>(m) * static_cast<std::size_t>(elements());
  MmaRow row;
  row.a_value = &a_elements_.value[a_row];
  row.a_exponent = &a_elements_.exponent[a_row];
  row.b_value = b_by_element_.value.data() + first;
  row.b_exponent = b_by_element_.exponent.data() + first;
  row.stride = padded_n_;
  row.aligned_bits = precision_.aligned_bits;
  row.result_bits = precision_.result_bits;
  std::int32_t left[kMmaMostColumns];
  if (!kernel_(elements())(row, columns, d, left)) return;
  for (int j = 0; j < std::min(columns, n_ - first); ++j)
    if (left[j] != 0) d[j] = dot_f32(m, first + j, d[j]);
}

std::uint32_t MmaOperands::dot_f32(int m, int n, std::uint32_t c) const {
  const auto row = static_cast<std::size_t>(m), column = static_cast<std::size_t>(n);
  if (is_16_bit()) return dot_accumulate_f32(a_type_, b_type_, &a_[row * kMmaK], &b_[column * kMmaK], c);
  const auto count = static_cast<std::size_t>(elements());
  return pack_f32(
      aligned_sum({&a_elements_.number[row * count], count}, {&b_elements_.number[column * count], count},
                  product_fraction_bits(a_type_, b_type_), unpack(c, kMmaF32), kMmaF32,
                  precision_.aligned_bits),
      precision_);
}

void MmaOperands::accumulate_row_f16(int m, std::uint32_t* d_row) const {
  if (!is_16_bit()) {
    const auto count = static_cast<std::size_t>(elements());
    const std::span a(&a_elements_.number[static_cast<std::size_t>(m) * count], count);
    const int fraction_bits = product_fraction_bits(a_type_, b_type_);
    for (int n = 0; n < n_; ++n)
      d_row[n] = pack(
          aligned_sum(a, {&b_elements_.number[static_cast<std::size_t>(n) * count], count}, fraction_bits,
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
    const std::uint32_t bits = element_of(type, row, static_cast<std::size_t>(k));
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
