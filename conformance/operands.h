// Operands for instruction tests: from a fixed seed, many of them where instructions go wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace jfa::conformance {

/// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

/// A seed from a name (FNV-1a), so that each test has numbers of its own.
std::uint64_t seed_of(std::string_view name);

/// What a column of operands holds.
enum class OperandType : std::uint8_t {
  kU16,
  kU32,
  kU64,
  kCount,  // u32, mostly a shift distance or a bit position
  kF16,
  kBf16,
  kF16x2,
  kBf16x2,
  kF32,
  kF32x2,
  kF64,
  kSmallF32,  // of magnitude 2^-30 … 2^30, none special
};

/// Bytes of one operand: 2, 4 or 8.
std::size_t operand_bytes(OperandType type);

/// One operand, in the low bytes. An eighth are special values (zeros, infinities, NaNs, denormals, limits)
/// and another eighth near 1, so that sums cancel.
std::uint64_t random_operand(OperandType type, Random& random);

/// What metadata of sparse products says of a group along k.
enum class Metadata : std::uint8_t {
  kAscending,  ///< two of four, in ascending order
  kAnyOrder,   ///< two of four
  kOneOfTwo,   ///< of tf32
};

/// A word of it: eight groups.
std::uint32_t random_metadata(Metadata metadata, Random& random);

}  // namespace jfa::conformance
