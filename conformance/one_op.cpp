#include "conformance/one_op.h"

#include <fmt/format.h>

#include <cstring>

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kOneOpThreads = 64;
constexpr std::uint32_t kAllHalves = 65536;
constexpr const char* kNames[] = {"%a", "%b", "%c", "%e"};

int stored_bits(const OneOp& op) { return op.result_bits == 1 ? 32 : op.result_bits; }

std::string ptx_of(const OneOp& op) {
  std::string parameters = ".param .u64 out", loads, registers;
  for (std::size_t i = 0; i < op.columns.size(); ++i) {
    const std::size_t bytes = operand_bytes(op.columns[i]);
    parameters += fmt::format(", .param .u64 in{}", i);
    registers += fmt::format(".reg .b{} {};\n", bytes * 8, kNames[i]);
    loads += fmt::format(
        "ld.param.u64 %base, [in{}];\nmad.wide.u32 %address, %index, {}, %base;\nld.global.b{} {}, "
        "[%address];\n",
        i, bytes, bytes * 8, kNames[i]);
  }
  const int bits = stored_bits(op);
  return fmt::format(R"(.visible .entry test({})
{{
.reg .b32 %index, %block, %threads, %t<8>;
.reg .b64 %address, %base, %l<4>;
.reg .b16 %h<4>;
.reg .pred %p, %q;
{}.reg .b{} %d;
mov.u32 %index, %tid.x;
mov.u32 %block, %ctaid.x;
mov.u32 %threads, %ntid.x;
mad.lo.u32 %index, %block, %threads, %index;
{}{}
{}ld.param.u64 %base, [out];
mad.wide.u32 %address, %index, {}, %base;
st.global.b{} [%address], %d;
ret;
}}
)",
                     parameters, registers, bits, loads, op.code,
                     op.result_bits == 1 ? "selp.b32 %d, 1, 0, %p;\n" : "", bits / 8, bits);
}

TestKernel kernel_of(const OneOp& op) {
  TestKernel kernel;
  kernel.ptx = ptx_of(op);
  const bool all = op.columns.size() == 1 && operand_bytes(op.columns[0]) == 2;
  const std::uint32_t rows = all ? kAllHalves : op.rows;
  kernel.grid.x = rows / kOneOpThreads;
  kernel.block.x = kOneOpThreads;
  kernel.output_bytes = std::size_t{rows} * static_cast<std::size_t>(stored_bits(op)) / 8;
  Random random(seed_of(op.name));
  for (const OperandType type : op.columns) {
    const std::size_t bytes = operand_bytes(type);
    std::vector<std::byte> column(rows * bytes);
    for (std::uint32_t row = 0; row < rows; ++row) {
      const std::uint64_t value = all ? row : random_operand(type, random);
      std::memcpy(column.data() + row * bytes, &value, bytes);
    }
    kernel.inputs.push_back(std::move(column));
  }
  return kernel;
}

}  // namespace

TestCase one_op_case(const std::string& group, OneOp op, Needs needs) {
  TestCase test{op.name, group, needs, {}};
  test.make = [op = std::move(op)] { return kernel_of(op); };
  return test;
}

TestCase plain_case(const std::string& group, const std::string& instruction, int result_bits,
                    std::vector<OperandType> columns, Needs needs) {
  std::string code = instruction + (result_bits == 1 ? " %p" : " %d");
  for (std::size_t i = 0; i < columns.size(); ++i) code += fmt::format(", {}", kNames[i]);
  return one_op_case(group, {instruction, code + ";", result_bits, std::move(columns)}, needs);
}

}  // namespace jfa::conformance
