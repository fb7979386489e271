// Experiments with tcgen05.mma of a pair of CTAs.
#include <fmt/format.h>

#include "conformance/doubts.h"
#include "conformance/product_program.h"

namespace jfa::conformance {
namespace {

ExactProduct pair(std::uint32_t m, std::uint32_t n) {
  ExactProduct product;
  product.opcode = "tcgen05.mma.cta_group::2.kind::f16";
  product.ctas = 2;
  product.m = m;
  product.n = n;
  return product;
}

// Disables lanes 0 to 31 of the odd CTA, by word 4, and 32 to 63 of the even one, by word 1.
TestKernel disabled_lanes(std::string_view name) {
  ExactProduct product = pair(256, 64);
  product.before = "mov.b32 %b1, 0;\nmov.b32 %b2, -1;\n";
  product.operands = ", {%b1, %b2, %b1, %b1, %b2, %b1, %b1, %b1}";
  TensorProgram program = exact_program(product, name);
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t column = 0; column < product.n; ++column) {
      program.cell(program.expected, 1, lane, column) = program.cell(program.tensor, 1, lane, column);
      program.cell(program.expected, 0, 32 + lane, column) =
          program.cell(program.tensor, 0, 32 + lane, column);
    }
  return kernel_of(program);
}

}  // namespace

void add_pair_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, std::function<TestKernel()> make) {
    cases.push_back({name, "doubt", Needs::kBlackwell, std::move(make)});
  };
  const auto exact = [&](const std::string& name, const ExactProduct& product) {
    add(name, [product, name] { return kernel_of(exact_program(product, name)); });
  };
  for (const std::uint32_t m : {128u, 256u})
    exact(fmt::format("doubt 2: a pair of CTAs with N = 48 and M = {}", m), pair(m, 48));
  const std::string disabled = "doubt 5: word 4 disables lanes of the odd CTA, word 1 of the even one";
  add(disabled, [disabled] { return disabled_lanes(disabled); });
  ExactProduct odd = pair(256, 64);
  odd.issuer = 1;
  exact("doubt 6: the odd CTA issues", odd);
  ExactProduct tensor = pair(128, 64);
  tensor.a_in_tensor_memory = true;
  exact("doubt 23: A in both halves of the lanes", tensor);
}

}  // namespace jfa::conformance
