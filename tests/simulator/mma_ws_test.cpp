// tcgen05.mma.ws, whose accumulators use all lanes whatever M is, and tf32 operands in 32-byte atoms.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "simulator/tensor_core/instruction_descriptor.h"
#include "simulator/tensor_core/tensor_memory_shape.h"
#include "simulator/tensor_core/zero_column_mask.h"
#include "tests/simulator/tensor_program.h"

namespace jfa::test::mma_ws_test {
namespace {

using namespace simulator;

struct Case {
  const char* opcode = "tcgen05.mma.ws.cta_group::1.kind::tf32";
  std::uint32_t m = 64, n = 64;
  bool weight_stationary = true;
  bool in_32_byte_atoms = true;  // and MN-major
  bool a_in_tensor_memory = false;
  std::uint64_t zero_column_mask = 0;
  std::vector<bool> zero_columns{};  // of B, by that
};

constexpr std::uint32_t kDepth = 8, kBOffset = 16384, kAColumn = 256, kColumns = 264;

// tf32 of small integers: A · B + D, with tensor memory full of other integers.
TensorProgram make_program(const Case& c) {
  std::mt19937 random(c.m + c.n);
  TensorProgram p;
  p.columns = p.filled_columns = kColumns;
  p.shared = {std::vector<std::byte>(49152)};
  p.tensor.resize(kLanes * kColumns);
  for (std::uint32_t& cell : p.tensor)
    cell = std::bit_cast<std::uint32_t>(static_cast<float>(random() % 100));
  const MatrixMajor major = c.in_32_byte_atoms ? MatrixMajor::kMN : MatrixMajor::kK;
  const auto descriptor_of = [&](std::uint32_t offset) {
    // Atoms of 32 elements, four k to a group of 512 bytes; or K-major under the 128-byte swizzle.
    const std::uint64_t swizzle = c.in_32_byte_atoms ? 1 : 2;
    const std::uint32_t leading = c.in_32_byte_atoms ? 1024 : 16, stride = c.in_32_byte_atoms ? 512 : 1024;
    return swizzle << 61 | std::uint64_t{1} << 46 | std::uint64_t{stride >> 4} << 32 |
           std::uint64_t{leading >> 4} << 16 | offset >> 4;
  };
  const auto make = [&](std::uint32_t rows, std::uint64_t descriptor, bool in_tensor_memory) {
    std::vector<float> values(rows * kDepth);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(random() % 15) - 7);
      if (in_tensor_memory)
        p.cell(p.tensor, 0, i / kDepth, kAColumn + i % kDepth) = std::bit_cast<std::uint32_t>(values[i]);
      else
        std::memcpy(&p.shared[0][element_address(*decode_matrix_descriptor(descriptor), major, i / kDepth,
                                                 i % kDepth, 4)],
                    &values[i], 4);
    }
    return values;
  };
  const std::uint64_t a_descriptor = descriptor_of(0), b_descriptor = descriptor_of(kBOffset);
  const std::vector<float> a = make(c.m, a_descriptor, c.a_in_tensor_memory);
  const std::vector<float> b = make(c.n, b_descriptor, false);
  p.expected = p.tensor;
  for (std::uint32_t m = 0; m < c.m; ++m)
    for (std::uint32_t n = 0; n < c.n; ++n) {
      const TensorCell cell = accumulator_place(1, c.m, c.n, m, n,
                                                c.weight_stationary ? AccumulatorForm::kWeightStationary
                                                                    : AccumulatorForm::kDense)
                                  .cell;
      std::uint32_t& d = p.cell(p.expected, 0, cell.lane, cell.column);
      float sum = std::bit_cast<float>(d);
      const bool zero = n < c.zero_columns.size() && c.zero_columns[n];
      for (std::uint32_t k = 0; k < kDepth && !zero; ++k) sum += a[m * kDepth + k] * b[n * kDepth + k];
      d = std::bit_cast<std::uint32_t>(sum);
    }
  const std::uint32_t majors = c.in_32_byte_atoms ? (c.a_in_tensor_memory ? 1u << 16 : 3u << 15) : 0;
  p.issue =
      fmt::format("add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n{} [%t], {}, %a1, {}, %p{};\n", a_descriptor,
                  b_descriptor, c.opcode, c.a_in_tensor_memory ? fmt::format("[%t+{}]", kAColumn) : "%a0",
                  1u << 4 | 2u << 7 | 2u << 10 | majors | (c.n >> 3) << 17 | (c.m >> 4) << 24,
                  c.zero_column_mask != 0 ? fmt::format(", {}", c.zero_column_mask) : "");
  return p;
}

void check(const Case& c) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  check_tensor_program(make_program(c));
}

TEST_CASE("mma.ws of every shape") {
  for (const std::uint32_t m : {32u, 64u, 128u})
    for (const std::uint32_t n : {64u, 128u, 256u}) check({.m = m, .n = n, .in_32_byte_atoms = n == 64});
  check({.opcode = "tcgen05.mma.ws.cta_group::1.kind::tf32.collector::b2::lastuse",
         .m = 128,
         .in_32_byte_atoms = false,
         .a_in_tensor_memory = true});
}

// Column n of a piece by a text of the manual's: lowest bit last, and on and on.
std::vector<bool> repeated(const std::string& bits, std::uint32_t period, std::uint32_t columns) {
  std::vector<bool> mask;
  for (std::uint32_t i = 0; i < columns; ++i)
    mask.push_back(i < bits.size() ? bits[bits.size() - 1 - i] == '1' : bool{mask[i - period]});
  return mask;
}

struct Mask {
  std::uint32_t start[4] = {}, zeros_first[4] = {};
  std::uint32_t skip = 2, use = 3, shift = 0;
  std::uint64_t bits(bool non_zero = true) const {
    std::uint64_t descriptor = std::uint64_t{non_zero} << 39 | std::uint64_t{skip} << 40 |
                               std::uint64_t{use} << 48 | std::uint64_t{shift} << 56;
    for (int i = 0; i < 4; ++i)
      descriptor |= std::uint64_t{start[i]} << 8 * i | std::uint64_t{zeros_first[i]} << (32 + i);
    return descriptor;
  }
};

TEST_CASE("masks of columns, as the manual's examples have them") {
  const auto mask = [](const Mask& m, std::uint32_t rows, std::uint32_t n) {
    return *decode_zero_column_mask(m.bits(), rows, n);
  };
  CHECK(*decode_zero_column_mask(Mask{}.bits(false), 128, 64) == std::vector<bool>(64, false));
  CHECK(mask({}, 128, 64) == repeated("1110000", 7, 64));
  const auto concatenated = [](const std::vector<std::vector<bool>>& pieces) {
    std::vector<bool> all;
    for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    return all;
  };
  CHECK(mask({.zeros_first = {1, 0}}, 64, 64) ==
        concatenated({repeated("0000111", 7, 32), repeated("1110000", 7, 32)}));
  CHECK(mask({.start = {0, 1, 2, 1}, .zeros_first = {1, 1, 0, 0}}, 32, 128) ==
        concatenated({repeated("0000111", 7, 32), repeated("111000011", 7, 32), repeated("000011100", 7, 32),
                      repeated("0000111000", 7, 32)}));
  const auto refused = [](std::uint64_t bits, const char* part) {
    const std::string message = decode_zero_column_mask(bits, 64, 64).status().message();
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  refused(Mask{.shift = 2}.bits(), "column shift (bits 61:56)");
  refused(Mask{}.bits() | std::uint64_t{1} << 37, "reserved bits 38:36");
  refused(Mask{}.bits() | std::uint64_t{1} << 63, "reserved bits 63:62");
}

TEST_CASE("mma.ws with columns of zeros") {
  for (const std::uint32_t m : {32u, 64u, 128u}) {
    const Mask mask{.start = {3, 9, 0, 1}, .zeros_first = {1, 0, 1, 0}, .skip = 4, .use = 1};
    Case c{.m = m, .n = 128, .zero_column_mask = mask.bits()};
    c.in_32_byte_atoms = false;
    c.zero_columns = *decode_zero_column_mask(c.zero_column_mask, m, c.n);
    REQUIRE(std::count(c.zero_columns.begin(), c.zero_columns.end(), true) > 64);
    check(c);
    c.zero_column_mask |= std::uint64_t{1} << 56;
    check_refused(make_program(c), "which columns a shift reads is not documented");
  }
}

TEST_CASE("MN-major tf32 operands in 32-byte atoms") {
  const Case dense{.opcode = "tcgen05.mma.cta_group::1.kind::tf32", .m = 128, .weight_stationary = false};
  check(dense);
  Case c = dense;
  c.n = 256;
  check(c);
}

TEST_CASE("what is refused of mma.ws and of 32-byte atoms") {
  check_refused(make_program({.m = 16}), "M = 16 is not 32, 64 or 128 (mma.ws)");
  check_refused(make_program({.n = 96}), "N = 96 is not 64, 128 or 256 (mma.ws)");
  check_refused(make_program({.m = 32, .a_in_tensor_memory = true}), "where it lies is not documented");
  check_refused(with_issue(make_program({}), "kind::tf32", "kind::f16"), "instruction descriptor");
  // Both operands in atoms, but K-major by the instruction descriptor.
  TensorProgram program = make_program({});
  const std::size_t at = program.issue.rfind("%a1, ") + 5;
  const std::size_t end = program.issue.find(',', at);
  const auto bits = static_cast<std::uint32_t>(std::stoul(program.issue.substr(at, end - at)));
  program.issue.replace(at, end - at, std::to_string(bits & ~(3u << 15)));
  check_refused(program, "swizzle 1 (128 bytes in 32-byte atoms) is for MN-major 32-bit elements");
}

}  // namespace
}  // namespace jfa::test::mma_ws_test
