// The approximations of the special-function unit. Their bits are not public, so they are held against the
// exact result and the bound that the PTX ISA states, over every mantissa of a binade.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/test_kernel.h"

namespace jfa::conformance {

struct Sweep {
  std::string name;              // "ex2.approx.ftz.f32 of [1, 2)"
  std::string instruction;       // `<instruction> %d, %a;`
  std::uint32_t first_bits = 0;  // of the first input; the others follow
  double (*exact)(double) = nullptr;
  // One of them is set: ulps from the exact value rounded to nearest, or the difference from the exact value.
  double bound_ulp = 0, bound_absolute = 0, bound_relative = 0;
};

inline constexpr std::uint32_t kSweepRows = 1u << 23;

struct SweepResult {
  std::uint64_t worst_ulp = 0;    // floats between the result and the exact value rounded to nearest
  std::uint32_t worst_input = 0;  // bits
  double worst_in_bound = 0;      // worst error as a part of the bound: above 1, it is broken
  std::uint64_t nearest = 0;      // results that are the exact ones rounded to nearest
  std::string digest;             // of the results
};

const std::vector<Sweep>& sweeps();
TestKernel sweep_kernel(const Sweep& sweep);
SweepResult judge(const Sweep& sweep, std::span<const std::byte> results);

/// FNV-1a of 64 bits, as 16 hexadecimal digits.
std::string digest(std::span<const std::byte> bytes);

}  // namespace jfa::conformance
