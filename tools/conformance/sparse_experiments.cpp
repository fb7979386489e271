// Experiments with tcgen05.mma.sp: where the metadata of A lies, and which of two columns the selector picks.
#include <fmt/format.h>

#include <bit>

#include "tools/conformance/doubts.h"
#include "tools/conformance/operands.h"
#include "tools/conformance/product_program.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kRows = 128, kN = 64, kBOffset = 4096, kMetadata = kProductFreeColumn;

struct SparseProduct {
  const char* kind;
  const ElementCode& (*code)();
  std::uint32_t types;  // bits 12:4 of the instruction descriptor
  std::uint32_t selector = 0;
};

struct Nibble {
  std::uint32_t lane, index;  // of the eight or more in a lane's cells
};

// For four elements along k from k on, or two of tf32.
Nibble nibble_of(std::uint32_t elements, std::uint32_t m, std::uint32_t k) {
  if (elements == 32) return {m, k / 4};
  const std::uint32_t along_k = elements == 8 ? k / 2 : k / 4;
  return {m % 8 + m / 16 * 16 + along_k / 4 * 8, m / 8 % 2 * 4 + along_k % 4};
}

TestKernel sparse_product(const SparseProduct& product, std::string_view name) {
  Random random(seed_of(name));
  const ElementCode& code = product.code();
  const std::uint32_t kept = code.elements, depth = 2 * kept;
  const std::uint32_t group = kept == 8 ? 2 : 4;  // elements along k, of which half are kept
  TensorProgram p;
  p.columns = p.filled_columns = kProductColumns;
  p.shared = {std::vector<std::byte>(12288)};
  p.tensor.resize(std::size_t{kTensorProgramLanes} * p.columns);
  for (std::uint32_t& cell : p.tensor)
    cell = std::bit_cast<std::uint32_t>(static_cast<float>(random.below(100)));
  const auto any_value = [&] {
    return code.values[random.below(static_cast<std::uint32_t>(code.values.size()))];
  };
  std::vector<int> a(kRows * depth, 0), b(kN * depth);
  for (std::uint32_t m = 0; m < kRows; ++m) {
    OperandRow row{};
    for (std::uint32_t k = 0; k < depth; k += group) {
      const std::uint32_t first = group == 2 ? random.below(2) : random.below(3);
      const std::uint32_t second = first + 1 + (group == 2 ? 0 : random.below(3 - first));
      const auto put = [&](std::uint32_t place, std::uint32_t position) {
        a[m * depth + k + position] = any_value();
        code.put(row, k / 2 + place, a[m * depth + k + position]);
      };
      put(0, first);
      if (group == 4) put(1, second);
      const std::uint32_t bits = group == 4 ? second << 2 | first : first == 0 ? 0b0100 : 0b1110;
      const Nibble nibble = nibble_of(kept, m, k);
      std::uint32_t& cell = p.cell(p.tensor, 0, nibble.lane, kMetadata + product.selector + nibble.index / 8);
      const std::uint32_t shift = nibble.index % 8 * 4;
      cell = (cell & ~(0xfu << shift)) | bits << shift;
    }
    store_operand_row(p.shared[0], 0, kRows, m, 0, row);
  }
  for (std::uint32_t n = 0; n < kN; ++n)
    for (std::uint32_t step = 0; step < 2; ++step) {
      OperandRow row{};
      for (std::uint32_t k = 0; k < kept; ++k) code.put(row, k, b[n * depth + step * kept + k] = any_value());
      store_operand_row(p.shared[0], kBOffset, kN, n, step, row);
    }
  p.expected = p.tensor;
  for (std::uint32_t m = 0; m < kRows; ++m)
    for (std::uint32_t n = 0; n < kN; ++n) {
      std::uint32_t& d = p.cell(p.expected, 0, m, n);
      int sum = 0;
      for (std::uint32_t k = 0; k < depth; ++k) sum += a[m * depth + k] * b[n * depth + k];
      d = std::bit_cast<std::uint32_t>(std::bit_cast<float>(d) + static_cast<float>(sum));
    }
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\nadd.u32 %b1, %t, {};\n"
      "tcgen05.mma.sp.cta_group::1.{} [%t], %a0, %a1, [%b1], {}, %p;\n",
      operand_descriptor(kRows, 0), operand_descriptor(kN, kBOffset), kMetadata, product.kind,
      product.types | 1u << 2 | product.selector | (kN >> 3) << 17 | (kRows >> 4) << 24);
  return kernel_of(p);
}

}  // namespace

void add_sparse_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, const SparseProduct& product) {
    cases.push_back(
        {name, "doubt", Needs::kBlackwell, [product, name] { return sparse_product(product, name); }});
  };
  const SparseProduct bf16{"kind::f16", bf16_code, 1u << 4 | 1u << 7 | 1u << 10};
  add("doubt 31: sparse bf16", bf16);
  SparseProduct second = bf16;
  second.selector = 1;
  add("doubt 31: sparse bf16, the second column of metadata", second);
  add("doubt 31: sparse tf32", {"kind::tf32", tf32_code, 1u << 4 | 2u << 7 | 2u << 10});
  add("doubt 31: sparse e4m3", {"kind::f8f6f4", e4m3_code, 1u << 4});
}

}  // namespace jfa::conformance
