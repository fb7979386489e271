// tcgen05.mma.sp of elements of 4, 6 and 8 bits, with and without block scales: small numbers, whose products
// and sums are exact, against the dense product in double precision.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "simulator/tensor_core/tensor_memory_shape.h"
#include "tests/simulator/narrow_elements.h"
#include "tests/simulator/tensor_program.h"

namespace jfa::test::mma_sparse_narrow_test {
namespace {

using namespace simulator;

struct Case {
  MmaKind kind = MmaKind::kMxF8F6F4;
  const char* modifiers = "kind::mxf8f6f4.block_scale";
  std::uint32_t scales = 1;
  ScaleType scale_type = ScaleType::kUe8m0;
  MmaElement a_type = MmaElement::kE4M3, b_type = MmaElement::kE4M3;
  std::uint32_t n = 64, ctas = 1;
  MatrixMajor b_major = MatrixMajor::kK;
  bool a_in_tensor_memory = false;
  std::uint32_t negate = 0;  // bits 14:13 of the descriptor
};
const Case kUnscaled{.kind = MmaKind::kF8F6F4, .modifiers = "kind::f8f6f4", .scales = 0};
const Case kMxF4{.kind = MmaKind::kMxF4,
                 .modifiers = "kind::mxf4.block_scale.block32",
                 .scales = 2,
                 .a_type = MmaElement::kE2M1,
                 .b_type = MmaElement::kE2M1};
const Case kNvF4{.kind = MmaKind::kMxF4NvF4,
                 .modifiers = "kind::mxf4nvf4.block_scale.scale_vec::4X",
                 .scales = 4,
                 .scale_type = ScaleType::kUe4m3,
                 .a_type = MmaElement::kE2M1,
                 .b_type = MmaElement::kE2M1};

constexpr std::uint32_t kRows = 128;  // of A in a CTA
constexpr std::uint32_t kAColumn = 256, kMetadataColumn = 264, kAScaleColumn = 272, kBScaleColumn = 280,
                        kColumns = 288;
constexpr std::uint32_t kBOffset = 16384, kSharedBytes = 65536;

// Under the 128-byte swizzle.
constexpr std::uint64_t kLayout =
    std::uint64_t{2} << 61 | std::uint64_t{1} << 46 | std::uint64_t{1024 >> 4} << 32;

// The factors of the rows that a CTA knows, which are powers of two or have three more bits.
std::vector<double> store_factors(TensorProgram& p, const Case& c, std::mt19937& random, std::uint32_t rows,
                                  std::uint32_t rows_of_cta, std::uint32_t column) {
  std::vector<double> factors;
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t s = 0; s < c.scales; ++s) {
      const bool power = c.scale_type == ScaleType::kUe8m0;
      const std::uint32_t bits = power ? 126 + random() % 3 : 0x30 + random() % 16;  // ½ … 2
      factors.push_back(power ? std::ldexp(1.0, static_cast<int>(bits) - 127)
                              : decode_float(bits, float_format(MmaElement::kE4M3)));
      const std::uint32_t place = row % rows_of_cta;
      for (std::uint32_t cta = 0; cta < c.ctas; ++cta)
        for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
          if (rows != rows_of_cta && row / rows_of_cta != cta) continue;
          std::uint32_t& word = p.cell(p.tensor, cta, quarter * 32 + place % 32, column + place / 32);
          word = (word & ~(0xffu << 8 * s)) | bits << 8 * s;
        }
    }
  return factors;
}

TensorProgram make_program(const Case& c) {
  std::mt19937 random(c.n + c.scales);
  const bool packed = is_packed_f4(c.kind), scaled = is_block_scaled(c.kind);
  // Packed elements stay or go in pairs.
  const std::uint32_t pair = packed ? 2 : 1, kept = 32 * pair, depth = 2 * kept;
  const std::uint32_t m_extent = kRows * c.ctas, b_rows = c.n / c.ctas;
  TensorProgram p;
  p.columns = p.filled_columns = kColumns;
  p.shared.assign(c.ctas, std::vector<std::byte>(kSharedBytes));
  p.tensor.assign(std::size_t{c.ctas} * kLanes * kColumns, 0);
  for (std::uint32_t& cell : p.tensor) cell = std::bit_cast<std::uint32_t>(static_cast<float>(random() % 64));
  const std::uint64_t a_descriptor = kLayout | std::uint64_t{1} << 16;
  const std::uint64_t b_descriptor = kLayout | std::uint64_t{8192 >> 4} << 16 | kBOffset >> 4;
  const auto bits_of = [](double value, MmaElement type) {
    return encode_float(value, float_format(type), Rounding::kNearest);
  };

  std::vector<double> a(m_extent * depth, 0), b(c.n * depth);
  for (std::uint32_t m = 0; m < m_extent; ++m)
    for (std::uint32_t unit = 0; unit < depth / pair; unit += 4) {
      const std::uint32_t cta = m / kRows, first = random() % 3, second = first + 1 + random() % (3 - first);
      // Sixteen nibbles of a row in two cells of its lane.
      std::uint32_t& cell = p.cell(p.tensor, cta, m % kRows, kMetadataColumn + unit / 32);
      const std::uint32_t shift = unit / 4 % 8 * 4;
      cell = (cell & ~(0xfu << shift)) | (second << 2 | first) << shift;
      for (std::uint32_t i = 0; i < 2 * pair; ++i) {
        const std::uint32_t k = (unit + (i < pair ? first : second)) * pair + i % pair;
        const std::uint32_t place = unit / 2 * pair + i;
        a[m * depth + k] = small_value(random, c.a_type);
        const std::uint32_t bits = bits_of(a[m * depth + k], c.a_type);
        if (c.a_in_tensor_memory)
          store_tensor_element(&p.cell(p.tensor, cta, m % kRows, kAColumn), c.kind, c.a_type, place, bits);
        else
          store_element(p.shared[cta], c.kind, c.a_type, MatrixMajor::kK, a_descriptor, m % kRows, place,
                        bits);
      }
    }
  for (std::uint32_t i = 0; i < b.size(); ++i) {
    b[i] = small_value(random, c.b_type);
    store_element(p.shared[i / depth / b_rows], c.kind, c.b_type, c.b_major, b_descriptor, i / depth % b_rows,
                  i % depth, bits_of(b[i], c.b_type));
  }
  const std::vector<double> a_factors = store_factors(p, c, random, m_extent, kRows, kAScaleColumn);
  const std::vector<double> b_factors = store_factors(p, c, random, c.n, c.n, kBScaleColumn);

  p.expected = p.tensor;
  for (std::uint32_t m = 0; m < m_extent; ++m)
    for (std::uint32_t n = 0; n < c.n; ++n) {
      double sum = 0;
      for (std::uint32_t k = 0; k < depth; ++k) {
        const std::uint32_t s = k * c.scales / depth;
        const double factor = scaled ? a_factors[m * c.scales + s] * b_factors[n * c.scales + s] : 1.0;
        sum += a[m * depth + k] * b[n * depth + k] * factor;
      }
      const AccumulatorPlace place = accumulator_place(static_cast<int>(c.ctas), m_extent, c.n, m, n);
      std::uint32_t& d = p.cell(p.expected, place.cta, place.cell.lane, place.cell.column);
      d = std::bit_cast<std::uint32_t>(
          static_cast<float>((c.negate != 0 ? -sum : sum) + std::bit_cast<float>(d)));
    }

  const std::uint32_t kind_bits = scaled ? static_cast<std::uint32_t>(c.scale_type) << 23 : 1u << 4;
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n"
      "add.u32 %b1, %t, {};\nadd.u32 %b2, %t, {};\nadd.u32 %b3, %t, {};\n"
      "tcgen05.mma.sp.{}.{} [%t], {}, %a1, [%b3], {}{}, %p;\n",
      a_descriptor, b_descriptor, kAScaleColumn, kBScaleColumn, kMetadataColumn, p.cta_group(), c.modifiers,
      c.a_in_tensor_memory ? fmt::format("[%t+{}]", kAColumn) : "%a0",
      kind_bits | 1u << 2 | c.negate | type_code(c.a_type, c.kind) << 7 | type_code(c.b_type, c.kind) << 10 |
          static_cast<std::uint32_t>(c.b_major) << 16 | (c.n >> 3) << 17 | (m_extent >> 4) << 24,
      scaled ? ", [%b1], [%b2]" : "");
  return p;
}

void check(const Case& c, const std::vector<std::string>& devices = {"sim:sm_100a"}) {
  CAPTURE(std::string(c.modifiers));
  CAPTURE(static_cast<int>(c.a_type));
  CAPTURE(static_cast<int>(c.b_type));
  check_tensor_program(make_program(c), devices);
}

constexpr MmaElement kTypes[] = {MmaElement::kE4M3, MmaElement::kE5M2, MmaElement::kE2M3, MmaElement::kE3M2,
                                 MmaElement::kE2M1};

TEST_CASE("sparse products of elements of 4, 6 and 8 bits, scaled and not") {
  for (const Case& form : {kUnscaled, Case{}})
    for (const MmaElement a : kTypes)
      for (const MmaElement b : {MmaElement::kE4M3, MmaElement::kE3M2, MmaElement::kE2M1}) {
        Case c = form;
        c.a_type = a, c.b_type = b;
        c.n = 32;
        check(c);
      }
}

TEST_CASE("sparse products of packed 4-bit elements, which stay in pairs") {
  check(kMxF4, kTensorSchedules);
  check(kNvF4, kTensorSchedules);
  Case c = kNvF4;
  c.modifiers = "kind::mxf4nvf4.block_scale.block32.collector::a::fill";
  c.scales = 2;
  c.scale_type = ScaleType::kUe8m0;
  c.n = 8;
  check(c);
}

TEST_CASE("sparse products with scales: A in tensor memory, B along n, signs, pairs of CTAs") {
  for (const Case& form : {Case{}, kMxF4, kNvF4}) {
    Case c = form;
    c.a_in_tensor_memory = true;
    c.ctas = 2;
    check(c, kTensorSchedules);
    c = form;
    c.negate = 1u << 14;
    check(c);
    c.negate = 1u << 13;
    check(c);
  }
  for (const MmaElement type : {MmaElement::kE4M3, MmaElement::kE2M3}) {
    Case c;
    c.a_type = c.b_type = type;
    c.a_in_tensor_memory = true;
    c.b_major = MatrixMajor::kMN;
    c.n = 128;
    check(c);
  }
}

TEST_CASE("what is refused of sparse products with scales") {
  const auto edited = [](const Case& c, const std::string& from, const std::string& to) {
    return with_issue(make_program(c), from, to);
  };
  check_refused(edited({}, ", [%b1]", ""), "has 8 operands, not 7");
  check_refused(edited(kMxF4, ".block32", ".scale_vec::1X"), "scale_vec::1X");
  Case pair = kMxF4;
  pair.ctas = 2;
  const std::uint32_t m_field = 256u >> 4 << 24, fewer = 128u >> 4 << 24;
  TensorProgram halves = make_program(pair);
  const std::size_t descriptor = halves.issue.find("[%b3], ") + 7;
  const std::size_t end = halves.issue.find(',', descriptor);
  const auto bits = static_cast<std::uint32_t>(std::stoul(halves.issue.substr(descriptor, end - descriptor)));
  halves.issue.replace(descriptor, end - descriptor, std::to_string((bits & ~m_field) | fewer));
  check_refused(halves, "where factors of B lie is not known");
  TensorProgram program = make_program(kMxF4);
  program.cell(program.tensor, 0, 3, kMetadataColumn + 1) |= 0xf;
  check_refused(program, "the sparse metadata of row 3, k = 64 … 71 is 0xf: its two positions must ascend");
  program = make_program({});
  program.cell(program.tensor, 0, 40, kAScaleColumn) ^= 1;
  check_refused(program, "the scale factors of row 8 of A differ between lanes 8 and 40 of column 272");
  program = make_program({});
  program.filled_columns = kBScaleColumn;
  check_refused(program, "with scale factors of B reads tensor memory lane 0 column 280, which nothing has");
  program = make_program({});
  program.issue += "tcgen05.mma.cta_group::1.kind::f16 [%b3], %a0, %a1, 135266320, %q;\n";
  check_refused(program, "tcgen05.mma writes tensor memory lanes 0..127, columns 264", kTensorSchedules);
}

}  // namespace
}  // namespace jfa::test::mma_sparse_narrow_test
