// Experiments with tcgen05.mma.sp and .ws.sp: where the metadata of A lies, and which of two columns the
// selector picks.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "conformance/doubts.h"
#include "conformance/operands.h"
#include "conformance/product_program.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kN = 64, kSparseBOffset = 4096, kMetadata = kProductFreeColumn;
constexpr std::uint32_t kSparseAScales = kMetadata + 4, kSparseBScales = kSparseAScales + 4;

struct SparseProduct {
  std::string opcode;
  const ElementCode& (*code)();
  std::uint32_t types;  // bits 12:4 of the instruction descriptor
  std::uint32_t selector = 0;
  std::uint32_t m = 128;
  std::uint32_t scales = 0;

  bool weight_stationary() const { return opcode.starts_with("ws."); }
  /// Lanes from 16 rows to the next, and from one piece of D's columns to the next.
  std::uint32_t lanes_of_group() const { return m == 64 && !weight_stationary() ? 32 : 16; }
  std::uint32_t pieces() const { return weight_stationary() ? kTensorProgramLanes / m : 1; }
};

struct Nibble {
  std::uint32_t lane, index;  // of the eight or more in a lane's cells
};

// Of 16 rows, for four elements along k from k on; two of tf32, eight of packed 4-bit ones.
Nibble nibble_of(std::uint32_t elements, std::uint32_t m, std::uint32_t k) {
  if (elements >= 32) return {m, k * 8 / elements};
  const std::uint32_t along_k = elements == 8 ? k / 2 : k / 4;
  return {m % 8 + along_k / 4 * 8, m / 8 * 4 + along_k % 4};
}

// The factors of a row, powers of two, in every quarter of the lanes.
void store_scales(TensorProgram& p, std::uint32_t column, std::uint32_t rows, std::uint32_t scales) {
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
      std::uint32_t& word = p.cell(p.tensor, 0, quarter * 32 + row % 32, column + row / 32);
      word = 0;
      for (std::uint32_t block = 0; block < scales; ++block)
        word |= static_cast<std::uint32_t>(127 + scale_exponent(row, block)) << 8 * block;
    }
}

TestKernel sparse_product(const SparseProduct& product, std::string_view name) {
  Random random(seed_of(name));
  const ElementCode& code = product.code();
  const std::uint32_t kept = code.elements, depth = 2 * kept, rows = product.m;
  const std::uint32_t pair = kept == 64 ? 2 : 1;         // packed elements stay in pairs
  const std::uint32_t group = kept == 8 ? 2 : 4 * pair;  // elements along k, of which half are kept
  TensorProgram p;
  p.columns = p.filled_columns = kProductColumns;
  p.shared = {std::vector<std::byte>(12288)};
  p.tensor.resize(std::size_t{kTensorProgramLanes} * p.columns);
  for (std::uint32_t& cell : p.tensor)
    cell = std::bit_cast<std::uint32_t>(static_cast<float>(random.below(100)));
  const auto any_value = [&] {
    return code.values[random.below(static_cast<std::uint32_t>(code.values.size()))];
  };
  std::vector<int> a(rows * depth, 0), b(kN * depth);
  for (std::uint32_t m = 0; m < rows; ++m) {
    OperandRow row{};
    for (std::uint32_t k = 0; k < depth; k += group) {
      const std::uint32_t first = group == 2 ? random.below(2) : random.below(3);
      const std::uint32_t second = first + 1 + (group == 2 ? 0 : random.below(3 - first));
      const auto put = [&](std::uint32_t place, std::uint32_t position) {
        for (std::uint32_t i = 0; i < pair; ++i) {
          int& value = a[m * depth + k + position * pair + i] = any_value();
          code.put(row, k / 2 + place * pair + i, value);
        }
      };
      put(0, first);
      if (group != 2) put(1, second);
      const std::uint32_t bits = group != 2 ? second << 2 | first : first == 0 ? 0b0100 : 0b1110;
      const Nibble nibble = nibble_of(kept, m % 16, k);
      const std::uint32_t shift = nibble.index % 8 * 4;
      for (std::uint32_t piece = 0; piece < product.pieces(); ++piece) {
        const std::uint32_t lane = m / 16 * product.lanes_of_group() + nibble.lane + piece * rows;
        std::uint32_t& cell = p.cell(p.tensor, 0, lane, kMetadata + product.selector + nibble.index / 8);
        cell = (cell & ~(0xfu << shift)) | bits << shift;
      }
    }
    store_operand_row(p.shared[0], 0, rows, m, 0, row);
  }
  for (std::uint32_t n = 0; n < kN; ++n)
    for (std::uint32_t step = 0; step < 2; ++step) {
      OperandRow row{};
      for (std::uint32_t k = 0; k < kept; ++k) code.put(row, k, b[n * depth + step * kept + k] = any_value());
      store_operand_row(p.shared[0], kSparseBOffset, kN, n, step, row);
    }
  if (product.scales != 0) {
    store_scales(p, kSparseAScales, rows, product.scales);
    store_scales(p, kSparseBScales, kN, product.scales);
  }
  p.expected = p.tensor;
  const std::uint32_t columns = kN / product.pieces();
  for (std::uint32_t m = 0; m < rows; ++m)
    for (std::uint32_t n = 0; n < kN; ++n) {
      const std::uint32_t lane = m / 16 * product.lanes_of_group() + m % 16 + rows * (n / columns);
      std::uint32_t& d = p.cell(p.expected, 0, lane, n % columns);
      double sum = std::bit_cast<float>(d);
      for (std::uint32_t k = 0; k < depth; ++k) {
        const std::uint32_t block = k * product.scales / depth;
        const int exponent = product.scales == 0 ? 0 : scale_exponent(m, block) + scale_exponent(n, block);
        sum += std::ldexp(a[m * depth + k] * b[n * depth + k], exponent);
      }
      d = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
    }
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n"
      "add.u32 %b1, %t, {};\nadd.u32 %b2, %t, {};\nadd.u32 %b3, %t, {};\n"
      "tcgen05.mma.{} [%t], %a0, %a1, [%b1], {}{}, %p;\n",
      operand_descriptor(rows, 0), operand_descriptor(kN, kSparseBOffset), kMetadata, kSparseAScales,
      kSparseBScales, product.opcode,
      product.types | 1u << 2 | product.selector | (kN >> 3) << 17 | (rows >> 4) << 24,
      product.scales != 0 ? ", [%b2], [%b3]" : "");
  return kernel_of(p);
}

}  // namespace

void add_sparse_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, const SparseProduct& product) {
    cases.push_back(
        {name, "doubt", Needs::kBlackwell, [product, name] { return sparse_product(product, name); }});
  };
  constexpr std::uint32_t kPower = 1u << 23;  // factors are ue8m0
  const SparseProduct bf16{"sp.cta_group::1.kind::f16", bf16_code, 1u << 4 | 1u << 7 | 1u << 10};
  add("doubt 31: sparse bf16", bf16);
  SparseProduct second = bf16;
  second.selector = 1;
  add("doubt 31: sparse bf16, the second column of metadata", second);
  const SparseProduct tf32{"sp.cta_group::1.kind::tf32", tf32_code, 1u << 4 | 2u << 7 | 2u << 10};
  add("doubt 31: sparse tf32", tf32);
  const SparseProduct e4m3{"sp.cta_group::1.kind::f8f6f4", e4m3_code, 1u << 4};
  add("doubt 31: sparse e4m3", e4m3);
  add("doubt 31: sparse e2m1", {e4m3.opcode, e2m1_code, 1u << 4 | 5u << 7 | 5u << 10});
  add("doubt 31: sparse mxf8f6f4", {.opcode = "sp.cta_group::1.kind::mxf8f6f4.block_scale",
                                    .code = e4m3_code,
                                    .types = kPower,
                                    .scales = 1});
  add("doubt 31: sparse mxf4", {.opcode = "sp.cta_group::1.kind::mxf4.block_scale",
                                .code = packed_f4_code,
                                .types = kPower | 1u << 7 | 1u << 10,
                                .scales = 2});
  for (SparseProduct product : {bf16, e4m3}) {
    const char* const type = product.code == bf16_code ? "bf16" : "e4m3";
    product.m = 64;
    add(fmt::format("doubt 31: sparse {} with M = 64", type), product);
    product.opcode = "ws." + product.opcode;
    for (const std::uint32_t m : {32u, 64u}) {
      product.m = m;
      add(fmt::format("doubt 31: mma.ws.sp of {} with M = {}", type, m), product);
    }
  }
}

}  // namespace jfa::conformance
