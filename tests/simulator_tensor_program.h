// A kernel around a few tcgen05 instructions: shared memory and tensor memory are filled as a test says, one
// thread issues the instructions, and tensor memory comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace jfa::test {

constexpr std::uint32_t kLanes = 128;

struct TensorProgram {
  std::uint32_t ctas = 1;      ///< 2: a pair
  std::uint32_t columns = 64;  ///< of tensor memory, a multiple of 8 up to 512
  /// Shared memory of each CTA from 1024 bytes on, multiples of 16 bytes, the same number in each.
  std::vector<std::vector<std::byte>> shared;
  /// Cells, [CTA][128][columns]; the first `filled_columns` of each lane are stored, the others are left as
  /// the allocation made them.
  std::vector<std::uint32_t> tensor;
  std::uint32_t filled_columns = 0;
  /// Executed by thread 0 of the even CTA. %t: tensor memory's address. %s: the 64-bit address field of a
  /// descriptor of `shared`. %p, %q: predicates, true and false. Free: %a0 … %a3 (64 bits), %b0 … %b3 (32).
  std::string issue;
  std::string cta_group() const { return ctas == 2 ? "cta_group::2" : "cta_group::1"; }
};

struct TensorOutcome {
  bool ok = false;
  std::string report;                 // what is wrong, unless ok
  std::vector<std::uint32_t> tensor;  // [CTA][128][columns]
};

/// Runs the program on a simulated device, "sim:sm_100a?schedule=lazy".
TensorOutcome run_tensor_program(const std::string& device, const TensorProgram& program);

/// The schedules that tests of tensor memory run on.
extern const std::vector<std::string> kTensorSchedules;

}  // namespace jfa::test
