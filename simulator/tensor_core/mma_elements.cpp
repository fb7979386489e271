#include "simulator/tensor_core/mma_elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <optional>

#include "simulator/machine/vector_clones.h"
#include "simulator/tensor_core/mma_kernel.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kTf32Bits = ~0x1fffu;  // the others are not looked at

struct Decoded {
  float value;
  std::int16_t exponent;
};

// --- Types of 16 and 32 bits, in code that the compiler makes vectors of.

constexpr auto decode_f32_bits = [](std::uint32_t bits) -> Decoded {
  const auto biased = static_cast<int>(bits >> 23 & 0xff);
  const bool zero = (bits & 0x7fffffff) == 0, finite = biased != 0xff;
  const int exponent = zero ? kZeroExponent : std::max(biased, 1) - 127;
  return {std::bit_cast<float>(finite ? bits : 0),
          static_cast<std::int16_t>(finite ? exponent : kNotFiniteExponent)};
};

constexpr auto decode_f16_bits = [](std::uint32_t bits) -> Decoded {
  const auto biased = static_cast<int>(bits >> 10 & 0x1f);
  const bool zero = (bits & 0x7fff) == 0, finite = biased != 0x1f;
  const int exponent = zero ? kZeroExponent : std::max(biased, 1) - 15;
  // As the upper bits of an f32 whose exponents lie 112 lower.
  const float magnitude = std::bit_cast<float>((bits & 0x7fff) << 13) * 0x1p112f;
  const std::uint32_t value = std::bit_cast<std::uint32_t>(magnitude) | (bits & 0x8000) << 16;
  return {std::bit_cast<float>(finite ? value : 0),
          static_cast<std::int16_t>(finite ? exponent : kNotFiniteExponent)};
};

template <class DecodeWord>
[[gnu::always_inline]] inline void decode_words(std::span<const std::uint16_t> words, float* value,
                                                std::int16_t* exponent, DecodeWord decode_word) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Decoded element = decode_word(words[i]);
    value[i] = element.value;
    exponent[i] = element.exponent;
  }
}

JFA_VECTOR_CLONES void decode_bf16(std::span<const std::uint16_t> words, float* value,
                                   std::int16_t* exponent) {
  decode_words(words, value, exponent,
               [](std::uint16_t word) { return decode_f32_bits(std::uint32_t{word} << 16); });
}
JFA_VECTOR_CLONES void decode_f16(std::span<const std::uint16_t> words, float* value,
                                  std::int16_t* exponent) {
  decode_words(words, value, exponent, [](std::uint16_t word) { return decode_f16_bits(word); });
}

// --- Types of up to 8 bits

Decoded decode_number(const MmaNumber& number, int fraction_bits) {
  if (number.kind != MmaNumber::kFinite) return {0.0f, kNotFiniteExponent};
  if (number.significand == 0) return {0.0f, kZeroExponent};
  const auto unit = static_cast<std::uint32_t>(number.exponent - fraction_bits + 127) << 23;
  const float magnitude = static_cast<float>(number.significand) * std::bit_cast<float>(unit);
  return {number.negative ? -magnitude : magnitude, number.exponent};
}

// Every pattern of such a type: operands have far more elements than there are patterns.
struct ByteTable {
  std::array<MmaNumber, 256> number;
  std::array<Decoded, 256> decoded;

  explicit ByteTable(MmaElement type) {
    for (std::uint32_t bits = 0; bits < number.size(); ++bits) {
      number[bits] = unpack(type, bits);
      decoded[bits] = decode_number(number[bits], mma_format(type).fraction_bits);
    }
  }
};

std::optional<ByteTable> byte_table(MmaElement type) {
  if (element_bytes(type) != 1) return std::nullopt;
  return ByteTable(type);
}

}  // namespace

void MmaElements::decode(MmaElement type, std::span<const std::uint16_t> words) {
  const std::size_t count = words.size_bytes() / element_bytes(type);
  value.resize(count);
  exponent.resize(count);
  if (element_bytes(type) == 2) {
    number.clear();
    const auto decode_all = type == MmaElement::kBF16 ? decode_bf16 : decode_f16;
    return decode_all(words, value.data(), exponent.data());
  }
  number.resize(count);
  const std::optional<ByteTable> table = byte_table(type);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = element_of(type, words.data(), i);
    number[i] = table ? table->number[bits] : unpack(type, bits);
    const Decoded element = table ? table->decoded[bits] : decode_f32_bits(bits & kTf32Bits);
    value[i] = element.value;
    exponent[i] = element.exponent;
  }
}

void MmaElements::scale(std::span<const std::uint8_t> scales, std::size_t elements_per_scale) {
  constexpr int kMostExponent = 100;  // beyond it an f32 may not hold the value
  for (std::size_t i = 0; i < size(); ++i) {
    const MmaNumber scale = unpack_scale(ScaleType::kUe8m0, scales[i / elements_per_scale]);
    if (scale.kind == MmaNumber::kNan)
      number[i] = scale;
    else
      number[i].exponent = static_cast<std::int16_t>(number[i].exponent + scale.exponent);
    if (number[i].kind == MmaNumber::kFinite && number[i].significand == 0) continue;
    if (number[i].kind != MmaNumber::kFinite || std::abs(number[i].exponent) > kMostExponent) {
      value[i] = 0.0f;
      exponent[i] = kNotFiniteExponent;  // for the definition to compute
    } else {
      const auto power = static_cast<std::uint64_t>(scale.exponent + 1023) << 52;
      value[i] = static_cast<float>(value[i] * std::bit_cast<double>(power));
      exponent[i] = number[i].exponent;
    }
  }
}

void MmaElements::transpose(const MmaElements& from, std::size_t rows, std::size_t padded_rows) {
  const std::size_t count = rows == 0 ? 0 : from.size() / rows;
  value.assign(padded_rows * count, 0.0f);
  exponent.assign(padded_rows * count, kZeroExponent);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < count; ++k) {
      value[k * padded_rows + row] = from.value[row * count + k];
      exponent[k * padded_rows + row] = from.exponent[row * count + k];
    }
  }
}

}  // namespace jfa::simulator
