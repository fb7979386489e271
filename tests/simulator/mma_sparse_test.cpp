// tcgen05.mma.sp: small integers under random metadata, against the dense product that they stand for.
#include "simulator/tensor_core/mma_sparse.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <random>

#include "simulator/machine/float_format.h"
#include "simulator/tensor_core/tensor_memory_shape.h"
#include "tests/simulator/tensor_program.h"

namespace jfa::test::mma_sparse_test {
namespace {

using namespace simulator;

struct Case {
  const char* kind = "kind::f16";
  const FloatFormat* format = &kBfloat16;
  std::uint32_t bytes = 2, types = 1u << 4 | 1u << 7 | 1u << 10;
  std::uint32_t n = 64, ctas = 1, selector = 0;
  std::uint32_t m = 128;  // of a CTA
  bool weight_stationary = false;
  std::uint32_t lane = 0;  // that everything in tensor memory begins at

  // 16 rows in every quarter of the lanes.
  bool half_datapath() const { return m == 64 && !weight_stationary; }
  std::uint32_t lane_of(std::uint32_t row) const {
    return half_datapath() ? lane + row % 16 + row / 16 * 32 : row;
  }
  MatrixMajor b_major = MatrixMajor::kK;
  bool a_in_tensor_memory = false;
  std::uint32_t negate = 0;
};
const Case kTf32{
    .kind = "kind::tf32", .format = &kFloat32, .bytes = 4, .types = 1u << 4 | 2u << 7 | 2u << 10};
const Case kF8{.kind = "kind::f8f6f4", .format = &kE4m3, .bytes = 1, .types = 1u << 4};

constexpr std::uint32_t kAColumn = 256, kMetadataColumn = 264, kColumns = 272;
constexpr std::uint32_t kBOffset = 16384, kSharedBytes = 65536;

TensorProgram make_program(const Case& c) {
  std::mt19937 random(c.n + c.bytes + c.selector);
  const std::uint32_t m_extent = c.m * c.ctas, kept = 32 / c.bytes, depth = 2 * kept;
  const std::uint32_t b_rows = c.n / c.ctas, group = c.bytes == 4 ? 2 : 4;
  TensorProgram p;
  p.columns = p.filled_columns = kColumns;
  p.shared.assign(c.ctas, std::vector<std::byte>(kSharedBytes));
  p.tensor.assign(std::size_t{c.ctas} * kLanes * kColumns, 0);
  for (std::uint32_t& cell : p.tensor)
    cell = std::bit_cast<std::uint32_t>(static_cast<float>(random() % 100));
  const auto bits_of = [&](int value) { return encode_float(value, *c.format, Rounding::kNearest); };
  // Under the 128-byte swizzle; 8-bit A and B in rows of at least 64 bytes.
  const std::uint64_t layout =
      std::uint64_t{2} << 61 | std::uint64_t{1} << 46 | std::uint64_t{1024 >> 4} << 32;
  const std::uint64_t a_descriptor = layout | std::uint64_t{1} << 16;
  const std::uint64_t b_descriptor = layout | std::uint64_t{8192 >> 4} << 16 | kBOffset >> 4;
  const auto store = [&](std::uint32_t cta, std::uint64_t descriptor, MatrixMajor major, std::uint32_t row,
                         std::uint32_t k, std::uint32_t bits) {
    std::memcpy(
        &p.shared[cta][element_address(*decode_matrix_descriptor(descriptor), major, row, k, c.bytes)], &bits,
        c.bytes);
  };

  std::vector<int> a(m_extent * depth, 0), b(c.n * depth);
  for (std::uint32_t m = 0; m < m_extent; ++m)
    for (std::uint32_t k = 0; k < depth; k += group) {
      const std::uint32_t cta = m / c.m;
      std::vector<std::uint32_t> positions;
      std::uint32_t nibble;
      if (group == 2) {
        positions = {static_cast<std::uint32_t>(random() % 2)};
        nibble = positions[0] == 0 ? 0b0100 : 0b1110;
      } else {
        const auto first = static_cast<std::uint32_t>(random() % 3);
        const auto second = static_cast<std::uint32_t>(first + 1 + random() % (3 - first));
        positions = {first, second};
        nibble = second << 2 | first;
      }
      const std::uint32_t first_row = m % c.m / 16 * 16;  // metadata of 16 rows lies together
      const MetadataPlace place = metadata_place(kept, m % 16, k);
      const std::uint32_t shift = place.nibble % 8 * 4;
      const std::uint32_t copies = c.weight_stationary ? kLanes / c.m : 1;  // in every piece of the lanes
      for (std::uint32_t copy = 0; copy < copies; ++copy) {
        const std::uint32_t lane = c.lane_of(first_row) + place.lane + copy * c.m;
        std::uint32_t& cell = p.cell(p.tensor, cta, lane, kMetadataColumn + c.selector + place.nibble / 8);
        cell = (cell & ~(0xfu << shift)) | nibble << shift;
      }
      for (std::uint32_t i = 0; i < positions.size(); ++i) {
        const int value = static_cast<int>(random() % 9) - 4;
        a[m * depth + k + positions[i]] = value;
        const std::uint32_t place_of_it = k / 2 + i;
        if (c.a_in_tensor_memory) {
          std::uint32_t& word =
              p.cell(p.tensor, cta, c.lane_of(m % c.m), kAColumn + place_of_it * c.bytes / 4);
          const std::uint32_t at = place_of_it * c.bytes % 4 * 8;
          const std::uint32_t mask = c.bytes == 4 ? ~0u : ((1u << 8 * c.bytes) - 1) << at;
          word = (word & ~mask) | bits_of(value) << at;
        } else {
          store(cta, a_descriptor, MatrixMajor::kK, m % c.m, place_of_it, bits_of(value));
        }
      }
    }
  for (std::uint32_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<int>(random() % 9) - 4;
    store(i / depth / b_rows, b_descriptor, c.b_major, i / depth % b_rows, i % depth, bits_of(b[i]));
  }
  p.expected = p.tensor;
  for (std::uint32_t m = 0; m < m_extent; ++m)
    for (std::uint32_t n = 0; n < c.n; ++n) {
      const AccumulatorPlace place = accumulator_place(
          static_cast<int>(c.ctas), m_extent, c.n, m, n,
          c.weight_stationary ? AccumulatorForm::kWeightStationary : AccumulatorForm::kSparse);
      std::uint32_t& d = p.cell(p.expected, place.cta, c.lane + place.cell.lane, place.cell.column);
      int sum = 0;
      for (std::uint32_t k = 0; k < depth; ++k) sum += a[m * depth + k] * b[n * depth + k];
      d = std::bit_cast<std::uint32_t>(std::bit_cast<float>(d) +
                                       static_cast<float>(c.negate != 0 ? -sum : sum));
    }
  const std::uint32_t lane_bits = c.lane << 16;
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n"
      "add.u32 %b1, %t, {};\nadd.u32 %b2, %t, {};\nadd.u32 %b3, %t, {};\n"
      "tcgen05.mma.{}sp.{}.{} [%b2], {}, %a1, [%b1], {}, %p;\n",
      a_descriptor, b_descriptor, lane_bits | kMetadataColumn, lane_bits, lane_bits | kAColumn,
      c.weight_stationary ? "ws." : "", p.cta_group(), c.kind, c.a_in_tensor_memory ? "[%b3]" : "%a0",
      c.types | 1u << 2 | c.selector | c.negate | static_cast<std::uint32_t>(c.b_major) << 16 |
          (c.n >> 3) << 17 | (m_extent >> 4) << 24);
  return p;
}

void check(const Case& c) {
  CAPTURE(std::string(c.kind));
  CAPTURE(c.n);
  CAPTURE(c.ctas);
  check_tensor_program(make_program(c));
}

TEST_CASE("sparse products of 8, 16 and 32 bits") {
  for (const Case& kind : {Case{}, kTf32, kF8})
    for (const std::uint32_t n : {8u, 64u, 256u}) {
      Case c = kind;
      c.n = n;
      check(c);
    }
}

TEST_CASE("sparse products: the selector, A in tensor memory, B along n, signs, pairs of CTAs") {
  Case c;
  c.selector = 1;
  check(c);
  c.negate = 1u << 14;
  check(c);
  for (const Case& kind : {Case{}, kTf32, kF8}) {
    c = kind;
    c.a_in_tensor_memory = true;
    c.ctas = 2;
    check(c);
  }
  for (const Case& kind : {Case{}, kF8}) {
    c = kind;
    c.b_major = MatrixMajor::kMN;
    c.n = 128;
    check(c);
  }
}

TEST_CASE("sparse products of 64 rows in a CTA use half of the lanes") {
  for (const Case& kind : {Case{}, kTf32, kF8})
    for (const std::uint32_t ctas : {1u, 2u})
      for (const std::uint32_t lane : {0u, 16u}) {
        Case c = kind;
        c.m = 64;
        c.ctas = ctas;
        c.lane = lane;
        c.a_in_tensor_memory = lane == 16;
        check(c);
      }
}

TEST_CASE("sparse products of mma.ws: every piece of the lanes has the metadata") {
  for (const Case& kind : {Case{}, kTf32, kF8})
    for (const std::uint32_t m : {32u, 64u, 128u}) {
      Case c = kind;
      c.m = m;
      c.weight_stationary = true;
      c.n = m == 64 ? 128 : 64;
      c.selector = kind.bytes == 1 ? 0 : 1;
      check(c);
      if (m == 128) continue;
      TensorProgram program = make_program(c);
      program.cell(program.tensor, 0, m + 5, kMetadataColumn + c.selector) ^= 1u << 4;
      check_refused(program, fmt::format("differs between lanes 5 and {} of column", m + 5));
    }
  Case c;
  c.weight_stationary = true;
  c.a_in_tensor_memory = true;
  check(c);
}

TEST_CASE("what is refused of sparse products") {
  const auto edited = [](const Case& c, const std::string& from, const std::string& to) {
    return with_issue(make_program(c), from, to);
  };
  Case c = kF8;
  c.selector = 1;
  check_refused(make_program(c), "sparsity selector 1 (bits 1:0): it must be 0");
  check_refused(edited({}, "tcgen05.mma.sp.", "tcgen05.mma."), "operand");
  check_refused(edited({}, "add.u32 %b1, %t, 264", "add.u32 %b1, %t, 265"), "its column must be even");
  c = {};
  c.m = 64;
  check_refused(edited(c, "add.u32 %b1, %t, 264", "add.u32 %b1, %t, 1048840"),
                "the sparse metadata starts at lane 16, the accumulator at lane 0");
  // The second half of B would lie behind its 32-byte swizzled row.
  check_refused(edited({}, "add.u32 %b1", "or.b64 %a1, %a1, 0x8000000000000000;\nadd.u32 %b1"),
                "64 bytes of K from there cross the end of its 32-byte swizzled row");
  TensorProgram program = make_program({});
  program.cell(program.tensor, 0, 0, kMetadataColumn) |= 0xf;
  check_refused(program, "the sparse metadata of row 0, k = 0 … 3 is 0xf");
  program = make_program(kTf32);
  program.cell(program.tensor, 0, 0, kMetadataColumn) = 0;
  check_refused(program, "it must be 0x4 or 0xe");
  program = make_program({});
  program.filled_columns = kMetadataColumn;
  check_refused(program,
                "with sparse metadata reads tensor memory lane 0 column 264, which nothing has written");
}

}  // namespace
}  // namespace jfa::test::mma_sparse_test
