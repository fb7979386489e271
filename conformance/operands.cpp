#include "conformance/operands.h"

#include <iterator>
#include <utility>

#include "base/random.h"

namespace jfa::conformance {
namespace {

// A binary floating-point format, to make interesting bit patterns of.
struct Format {
  int exponent_bits = 0;
  int mantissa_bits = 0;
};
constexpr Format kHalf{5, 10}, kBfloat{8, 7}, kSingle{8, 23}, kDouble{11, 52};

std::uint64_t float_bits(const Format& format, Random& random) {
  const int exponent_bits = format.exponent_bits, mantissa_bits = format.mantissa_bits;
  const std::uint64_t sign = random.next() >> 63 << (exponent_bits + mantissa_bits);
  const std::uint64_t mantissa = random.next() & ((1ull << mantissa_bits) - 1);
  const std::uint64_t all_exponent = (1ull << exponent_bits) - 1, bias = all_exponent >> 1;
  const auto make = [&](std::uint64_t exponent, std::uint64_t fraction) {
    return sign | exponent << mantissa_bits | fraction;
  };
  const std::uint64_t all_mantissa = (1ull << mantissa_bits) - 1;
  switch (random.below(8)) {
    case 0:
      switch (random.below(9)) {
        case 0:
          return make(0, 0);
        case 1:
          return make(all_exponent, 0);
        case 2:
          return make(all_exponent, mantissa | 1);  // NaN
        case 3:
          return make(0, 1);
        case 4:
          return make(0, all_mantissa);
        case 5:
          return make(0, mantissa);
        case 6:
          return make(1, 0);
        case 7:
          return make(all_exponent - 1, all_mantissa);
        default:
          return make(bias, 0);  // 1
      }
    case 1:
      return make(bias - 1 + random.below(3), mantissa);  // ½ … 4
    default:
      return make(random.next() & all_exponent, mantissa);
  }
}

std::uint64_t integer_bits(int bits, Random& random) {
  const std::uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  const std::uint64_t special[] = {
      0, 1, 2, mask, mask - 1, mask >> 1, mask / 3, mask / 3 * 2, (mask >> 1) + 1, 0x80};
  switch (random.below(8)) {
    case 0:
      return special[random.below(static_cast<std::uint32_t>(std::size(special)))] & mask;
    case 1:
      return random.next() % 200 & mask;
    case 2:
      return (0 - random.next() % 200) & mask;
    default:
      return random.next() & mask;
  }
}

}  // namespace

std::uint64_t Random::next() { return splitmix64(state_); }

std::uint64_t seed_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::size_t operand_bytes(OperandType type) {
  switch (type) {
    case OperandType::kU16:
    case OperandType::kF16:
    case OperandType::kBf16:
      return 2;
    case OperandType::kU64:
    case OperandType::kF32x2:
    case OperandType::kF64:
      return 8;
    default:
      return 4;
  }
}

std::uint64_t random_operand(OperandType type, Random& random) {
  const auto pair = [&](const Format& format, int bits) {
    const std::uint64_t low = float_bits(format, random);
    return low | float_bits(format, random) << bits;
  };
  switch (type) {
    case OperandType::kU16:
      return integer_bits(16, random);
    case OperandType::kU32:
      return integer_bits(32, random);
    case OperandType::kU64:
      return integer_bits(64, random);
    case OperandType::kCount:
      return random.below(4) == 0 ? integer_bits(32, random) : random.below(40);
    case OperandType::kF16:
      return float_bits(kHalf, random);
    case OperandType::kBf16:
      return float_bits(kBfloat, random);
    case OperandType::kF16x2:
      return pair(kHalf, 16);
    case OperandType::kBf16x2:
      return pair(kBfloat, 16);
    case OperandType::kF32:
      return float_bits(kSingle, random);
    case OperandType::kF32x2:
      return pair(kSingle, 32);
    case OperandType::kF64:
      return float_bits(kDouble, random);
    case OperandType::kSmallF32: {
      const std::uint64_t bits = random.next();
      return (bits & 0x807fffff) | (97 + (bits >> 40) % 60) << 23;
    }
  }
  return 0;
}

std::uint32_t random_metadata(Metadata metadata, Random& random) {
  std::uint32_t word = 0;
  for (int group = 0; group < 8; ++group) {
    std::uint32_t nibble = random.below(2) == 0 ? 0b0100 : 0b1110;
    if (metadata != Metadata::kOneOfTwo) {
      std::uint32_t first = random.below(4), second = (first + 1 + random.below(3)) % 4;
      if (metadata == Metadata::kAscending && first > second) std::swap(first, second);
      nibble = second << 2 | first;
    }
    word |= nibble << 4 * group;
  }
  return word;
}

}  // namespace jfa::conformance
