// Runs one PTX instruction (or a few) on columns of operands, a thread each.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/launch.h"

namespace jfa::simulator::test {

/// One operand: its register width and a value for each thread.
struct Column {
  int bits = 32;
  std::vector<std::uint64_t> values;
};

Column u16s(std::vector<std::uint64_t> values);
Column u32s(std::vector<std::uint64_t> values);
Column u64s(std::vector<std::uint64_t> values);
Column f32s(const std::vector<float>& values);
Column f64s(const std::vector<double>& values);

/// Executes `code` in as many threads as the columns have rows. It reads %a, %b, %c, %e (the columns) and
/// writes %d, of `result_bits` (1: the predicate %p, returned as 0 or 1). %q is a spare predicate, %t0 … %t3
/// spare .b32. Fails the test if the run fails.
std::vector<std::uint64_t> run_op(const std::string& code, int result_bits,
                                  const std::vector<Column>& columns);

std::vector<std::uint32_t> run_op32(const std::string& code, const std::vector<Column>& columns);
std::vector<float> run_f32(const std::string& code, const std::vector<Column>& columns);
std::vector<double> run_f64(const std::string& code, const std::vector<Column>& columns);

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// An entry `kernel` with one .u64 parameter, its address in %out; ordinary registers declared: %r0…%r31,
/// %rd0…%rd15, %p0…%p7, %f0…%f15.
std::string kernel_text(const std::string& body, const std::string& module_level = {},
                        const std::string& directives = {});

struct Run {
  LaunchResult result;
  std::vector<std::uint32_t> output;  // what lies at %out
  std::string load_error;
  std::string failure() const { return load_error + result.report.text(); }
};

struct RunShape {
  Dim3 grid{}, block{32, 1, 1}, cluster{};
  std::uint32_t dynamic_shared_bytes = 0;
  RunOptions options{};
};

/// Loads and runs such an entry with an output of `words` zeroed .b32.
Run run_kernel(const std::string& ptx, std::size_t words, const RunShape& shape = {});

}  // namespace jfa::simulator::test
