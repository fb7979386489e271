// Test kernels that run one PTX instruction, or a few, on columns of operands, a thread each.
#pragma once

#include <string>
#include <vector>

#include "conformance/operands.h"
#include "conformance/test_kernel.h"

namespace jfa::conformance {

struct OneOp {
  std::string name;  // of the case
  std::string code;  // reads %a, %b, %c, %e (the columns), writes %d; %p, %q, %t0 … %t7, %l0 … %l3 are spare
  int result_bits = 32;  // of %d; 1: the predicate %p, as 0 or 1
  std::vector<OperandType> columns;
  std::uint32_t rows = 4096;  // a multiple of 64
};

/// The columns are random, from a seed that the name gives; a single column of 16 bits counts through all
/// values.
TestCase one_op_case(const std::string& group, OneOp op, Needs needs = Needs::kAny);

/// A case whose name is its instruction: code is `<instruction> %d, %a, %b, …;` with as many sources as
/// columns.
TestCase plain_case(const std::string& group, const std::string& instruction, int result_bits,
                    std::vector<OperandType> columns, Needs needs = Needs::kAny);

}  // namespace jfa::conformance
