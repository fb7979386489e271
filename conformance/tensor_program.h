// A kernel around a few tcgen05 instructions: shared memory and tensor memory are filled, one thread issues
// the instructions, and tensor memory comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/test_kernel.h"

namespace jfa::conformance {

inline constexpr std::uint32_t kTensorProgramLanes = 128;

struct TensorProgram {
  std::uint32_t columns = 64;  ///< of tensor memory, a multiple of 8 up to 512
  /// Shared memory from a multiple of 1024 on, an image for each CTA, all of one size, a multiple of 16
  /// bytes: one, or two for a pair.
  std::vector<std::vector<std::byte>> shared;
  /// Cells, [CTA][128][columns]; the first `filled_columns` of each lane, a multiple of 8, are stored, the
  /// others are left as the allocation made them.
  std::vector<std::uint32_t> tensor;
  std::uint32_t filled_columns = 0;
  /// Executed by one thread. %t: tensor memory's address. %s: the 64-bit address field of a descriptor of
  /// `shared`. %p, %q: predicates, true and false. Free: %a0 … %a7 (64 bits), %b0 … %b7 (32).
  std::string issue;
  std::string uncommitted{};            ///< executed behind the commit, so that nobody waits for it
  std::uint32_t issuer = 0;             ///< the rank of the CTA whose first thread that is
  std::vector<std::uint32_t> expected;  ///< of `tensor`, afterwards; or none

  std::string cta_group() const { return shared.size() == 2 ? "cta_group::2" : "cta_group::1"; }
  std::uint32_t& cell(std::vector<std::uint32_t>& cells, std::size_t cta, std::uint32_t lane,
                      std::uint32_t column) const {
    return cells[(cta * kTensorProgramLanes + lane) * columns + column];
  }
};

/// Its output is all of `tensor`.
TestKernel kernel_of(const TensorProgram& program);

}  // namespace jfa::conformance
