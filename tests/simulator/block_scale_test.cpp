// tcgen05.mma of 4-, 6- and 8-bit elements with and without block scales: small numbers, whose products and
// sums are exact, against double precision.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <random>

#include "simulator/tensor_core/tensor_memory_shape.h"
#include "tests/simulator/narrow_elements.h"
#include "tests/simulator/tensor_program.h"

namespace jfa::test::block_scale_test {
namespace {

using namespace simulator;

struct Case {
  MmaKind kind = MmaKind::kMxF8F6F4;
  const char* modifiers = "kind::mxf8f6f4.block_scale.scale_vec::1X";
  std::uint32_t scales = 1;
  ScaleType scale_type = ScaleType::kUe8m0;
  MmaElement a_type = MmaElement::kE4M3, b_type = MmaElement::kE4M3;
  std::uint32_t m = 128, n = 64, ctas = 1;
  std::uint32_t a_id = 0, b_id = 0;
  bool swizzled = true;
  MatrixMajor a_major = MatrixMajor::kK, b_major = MatrixMajor::kK;
  bool a_in_tensor_memory = false;
  bool accumulate = true;
  std::uint32_t negate = 0;  // bits 14:13 of the descriptor

  std::uint32_t elements() const { return is_packed_f4(kind) ? 64 : 32; }
};

// Where things are in tensor memory: D, A, and the scale factors.
constexpr std::uint32_t kAColumn = 256, kAScaleColumn = 264, kBScaleColumn = 272, kColumns = 280;
constexpr std::uint32_t kBOffset = 16384, kSharedBytes = 49152;

std::uint64_t descriptor_of(const Case& c, MatrixMajor major, std::uint32_t rows, std::uint32_t offset) {
  std::uint32_t leading = 16, stride = 1024;
  if (major == MatrixMajor::kMN) leading = c.swizzled ? 4096 : 128 * 16, stride = c.swizzled ? 1024 : 128;
  if (major == MatrixMajor::kK && !c.swizzled) leading = rows * 16, stride = 128;
  // Without swizzle and MN-major: groups of 16 rows are 128 bytes apart, groups of eight k 2048.
  return (c.swizzled ? std::uint64_t{2} << 61 : 0) | std::uint64_t{1} << 46 |
         std::uint64_t{stride >> 4} << 32 | std::uint64_t{leading >> 4} << 16 | offset >> 4;
}

TensorProgram make_program(const Case& c) {
  std::mt19937 random(c.m + c.n + c.scales + c.a_id);
  TensorProgram p;
  p.columns = p.filled_columns = kColumns;
  p.shared.assign(c.ctas, std::vector<std::byte>(kSharedBytes));
  p.tensor.assign(std::size_t{c.ctas} * kLanes * kColumns, 0);
  for (std::uint32_t& cell : p.tensor) cell = std::bit_cast<std::uint32_t>(static_cast<float>(random() % 64));

  const std::uint32_t a_rows = c.m / c.ctas, b_rows = c.n / c.ctas, elements = c.elements();
  const std::uint64_t a_descriptor = descriptor_of(c, c.a_major, a_rows, 0);
  const std::uint64_t b_descriptor = descriptor_of(c, c.b_major, b_rows, kBOffset);
  const auto cell = [&](std::uint32_t cta, std::uint32_t lane, std::uint32_t column) -> std::uint32_t& {
    return p.tensor[(cta * kLanes + lane) * kColumns + column];
  };
  const auto place_of = [&](std::uint32_t m, std::uint32_t n) {
    return accumulator_place(static_cast<int>(c.ctas), c.m, c.n, m, n);
  };

  std::vector<double> a(c.m * elements), b(c.n * elements);
  const auto bits_of = [&](double value, MmaElement type) {
    return encode_float(value, float_format(type), Rounding::kNearest);
  };
  for (std::uint32_t i = 0; i < a.size(); ++i) {
    a[i] = small_value(random, c.a_type);
    const std::uint32_t row = i / elements, k = i % elements, bits = bits_of(a[i], c.a_type);
    if (!c.a_in_tensor_memory) {
      store_element(p.shared[row / a_rows], c.kind, c.a_type, c.a_major, a_descriptor, row % a_rows, k, bits);
      continue;
    }
    const auto put = [&](std::uint32_t lane) {
      store_tensor_element(&cell(row / a_rows, lane, kAColumn), c.kind, c.a_type, k, bits);
    };
    put(place_of(row, 0).cell.lane);
    if (c.ctas == 2 && c.m == 128) put(place_of(row, c.n / 2).cell.lane);  // in both halves
  }
  for (std::uint32_t i = 0; i < b.size(); ++i) {
    b[i] = small_value(random, c.b_type);
    const std::uint32_t row = i / elements;
    store_element(p.shared[row / b_rows], c.kind, c.b_type, c.b_major, b_descriptor, row % b_rows,
                  i % elements, bits_of(b[i], c.b_type));
  }

  // Scale factors, in every copy.
  const auto scale_factors = [&](std::uint32_t rows, std::uint32_t rows_of_cta, std::uint32_t column,
                                 std::uint32_t id, bool in_halves) {
    std::vector<double> factors;
    for (std::uint32_t row = 0; row < rows; ++row)
      for (std::uint32_t s = 0; s < c.scales; ++s) {
        const bool power = c.scale_type == ScaleType::kUe8m0;
        const std::uint32_t bits = power ? 126 + random() % 3 : 0x30 + random() % 16;  // ½ … 2
        factors.push_back(power ? std::ldexp(1.0, static_cast<int>(bits) - 127) : decode_float(bits, kE4m3));
        for (std::uint32_t cta = 0; cta < c.ctas; ++cta) {
          if (rows != rows_of_cta && row / rows_of_cta != cta) continue;
          const ScalePlace place = scale_place(row % rows_of_cta, rows_of_cta, in_halves);
          for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
            if ((place.quarters >> quarter & 1) == 0) continue;
            std::uint32_t& word = cell(cta, quarter * 32 + place.cell.lane, column + place.cell.column);
            word = (word & ~(0xffu << 8 * (id + s))) | bits << 8 * (id + s);
          }
        }
      }
    return factors;
  };
  const bool scaled = is_block_scaled(c.kind);
  std::vector<double> a_factors, b_factors;
  if (scaled) {
    a_factors = scale_factors(c.m, a_rows, kAScaleColumn, c.a_id, false);
    b_factors = scale_factors(c.n, c.n, kBScaleColumn, c.b_id, c.ctas == 2 && c.m == 128);
  }

  p.expected = p.tensor;
  for (std::uint32_t m = 0; m < c.m; ++m)
    for (std::uint32_t n = 0; n < c.n; ++n) {
      const AccumulatorPlace place = place_of(m, n);
      std::uint32_t& d = p.cell(p.expected, place.cta, place.cell.lane, place.cell.column);
      double sum = 0;
      for (std::uint32_t k = 0; k < elements; ++k) {
        const std::uint32_t s = scaled ? k * c.scales / elements : 0;
        const double factor = scaled ? a_factors[m * c.scales + s] * b_factors[n * c.scales + s] : 1.0;
        sum += a[m * elements + k] * b[n * elements + k] * factor;
      }
      if (c.negate == 1u << 13 || c.negate == 1u << 14) sum = -sum;
      sum += c.accumulate ? std::bit_cast<float>(d) : 0.0f;  // no sum is -0
      d = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
    }

  const std::uint32_t types = type_code(c.a_type, c.kind) << 7 | type_code(c.b_type, c.kind) << 10;
  const std::uint32_t shape = static_cast<std::uint32_t>(c.a_major) << 15 |
                              static_cast<std::uint32_t>(c.b_major) << 16 | (c.n >> 3) << 17 |
                              (c.m >> 4) << 24;
  const std::uint32_t kind_bits =
      scaled ? c.b_id << 4 | static_cast<std::uint32_t>(c.scale_type) << 23 | c.a_id << 29 : 1u << 4;
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\nadd.u32 %b1, %t, {};\nadd.u32 %b2, %t, {};\n"
      "tcgen05.mma.{}.{} [%t], {}, %a1, {}{}, {};\n",
      a_descriptor, b_descriptor, kAScaleColumn, kBScaleColumn, p.cta_group(), c.modifiers,
      c.a_in_tensor_memory ? fmt::format("[%t+{}]", kAColumn) : "%a0", types | shape | kind_bits | c.negate,
      scaled ? ", [%b1], [%b2]" : "", c.accumulate ? "%p" : "%q");
  return p;
}

void check(const Case& c, const std::vector<std::string>& devices = {"sim:sm_100a"}) {
  CAPTURE(std::string(c.modifiers));
  CAPTURE(static_cast<int>(c.a_type));
  CAPTURE(static_cast<int>(c.b_type));
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.a_id);
  check_tensor_program(make_program(c), devices);
}

constexpr MmaElement kTypes[] = {MmaElement::kE4M3, MmaElement::kE5M2, MmaElement::kE2M3, MmaElement::kE3M2,
                                 MmaElement::kE2M1};

const Case kUnscaled{.kind = MmaKind::kF8F6F4, .modifiers = "kind::f8f6f4", .scales = 0};
const Case kMxF4{.kind = MmaKind::kMxF4,
                 .modifiers = "kind::mxf4.block_scale",
                 .scales = 2,
                 .a_type = MmaElement::kE2M1,
                 .b_type = MmaElement::kE2M1};
Case nvf4(const char* modifiers, std::uint32_t scales, ScaleType scale_type) {
  Case c = kMxF4;
  c.kind = MmaKind::kMxF4NvF4;
  c.modifiers = modifiers;
  c.scales = scales;
  c.scale_type = scale_type;
  return c;
}
const Case kNvF4 = nvf4("kind::mxf4nvf4.block_scale.scale_vec::4X", 4, ScaleType::kUe4m3);

TEST_CASE("elements of 4, 6 and 8 bits in every combination, scaled and not") {
  for (const MmaElement a : kTypes)
    for (const MmaElement b : kTypes) {
      Case c = kUnscaled;
      c.a_type = a, c.b_type = b;
      c.swizzled = a != MmaElement::kE2M3;
      check(c);
      c = Case{};
      c.a_type = a, c.b_type = b;
      check(c);
    }
}

TEST_CASE("elements of 4 and 6 bits of A in tensor memory, a byte each") {
  for (const Case& form : {kUnscaled, Case{}})
    for (const MmaElement type : {MmaElement::kE2M1, MmaElement::kE2M3, MmaElement::kE3M2}) {
      Case c = form;
      c.a_type = type;
      c.a_in_tensor_memory = true;
      check(c, kTensorSchedules);
      // Other bits than the element's: somebody else's idea of where it lies.
      for (const std::uint32_t bit : type == MmaElement::kE2M1 ? std::vector{0u, 7u} : std::vector{6u, 7u}) {
        TensorProgram program = make_program(c);
        program.cell(program.tensor, 0, 3, kAColumn + 1) |= 1u << (8 + bit);
        check_refused(program, "A in tensor memory, lane 3, k = 5: the byte is 0x");
      }
    }
}

TEST_CASE("padded elements that lie along m and n") {
  for (const MmaElement type : {MmaElement::kE4M3, MmaElement::kE3M2, MmaElement::kE2M1})
    for (const bool swizzled : {true, false}) {
      Case c;
      c.a_type = c.b_type = type;
      c.swizzled = swizzled;
      c.a_major = c.b_major = MatrixMajor::kMN;
      check(c);
    }
}

TEST_CASE("shapes, bytes of scale factors, signs, on every schedule") {
  for (const std::uint32_t n : {8u, 40u, 256u}) {
    Case c;
    c.n = n;
    check(c, kTensorSchedules);
    c.a_id = 3, c.b_id = 1;
    check(c);
  }
  Case c;
  c.negate = 1u << 13;
  c.accumulate = false;
  check(c);
  c.a_in_tensor_memory = true;
  check(c, kTensorSchedules);
  c = kMxF4;
  c.negate = 1u << 14;
  check(c);
}

TEST_CASE("packed 4-bit elements with 2 and 4 scale factors of both types") {
  Case c = kMxF4;
  check(c, kTensorSchedules);
  c.swizzled = false;
  c.a_id = 2;
  check(c);
  c = kMxF4;
  c.a_in_tensor_memory = true;
  c.b_id = 2;
  check(c);
  check(kNvF4, kTensorSchedules);
  check(nvf4("kind::mxf4nvf4.block_scale.block16", 4, ScaleType::kUe8m0));
  check(nvf4("kind::mxf4nvf4.block_scale.block32", 2, ScaleType::kUe8m0));
  check(nvf4("kind::mxf4nvf4.block_scale.scale_vec::2X.collector::a::fill", 2, ScaleType::kUe8m0));
  c = kNvF4;
  c.n = 8;
  check(c);
}

TEST_CASE("a pair of CTAs: each has the scale factors of its rows, and of all columns") {
  for (const Case& form : {Case{}, kMxF4, kNvF4})
    for (const std::uint32_t m : {128u, 256u})
      for (const bool tensor : {false, true}) {
        Case c = form;
        c.ctas = 2;
        c.m = m;
        c.n = 96;
        c.a_in_tensor_memory = tensor;
        check(c, tensor ? kTensorSchedules : std::vector<std::string>{"sim:sm_100a"});
      }
}

TEST_CASE("what is refused of block scales") {
  const auto edited = [](const Case& c, const std::string& from, const std::string& to) {
    return with_issue(make_program(c), from, to);
  };
  Case c;
  c.m = 64;
  check_refused(make_program(c), "M = 64 is not 128");
  c = kMxF4;
  c.a_id = 1;
  check_refused(make_program(c), "scale factor id 1 with .scale_vec::2X: it must be 0 or 2");
  c = kMxF4;
  c.scale_type = ScaleType::kUe4m3;
  check_refused(make_program(c), "scale type 0 (ue4m3, bit 23) is for kind::mxf4nvf4");
  check_refused(edited({}, "add.u32 %b1, %t, 264;", "add.u32 %b1, %t, 2097416;"),
                "the scale factors of A at lane 32");
  check_refused(edited(kMxF4, "kind::mxf4.block_scale", "kind::mxf4.block_scale.scale_vec::1X"),
                "scale_vec::1X");
  check_refused(edited(kNvF4, ".scale_vec::4X", ""), "kind::mxf4nvf4");
  check_refused(edited(kMxF4, ", [%b1]", ""), "has 7 operands, not 6");

  // Copies run behind what products read, not behind what they write.
  TensorProgram program = make_program({});
  program.issue += "tcgen05.cp.cta_group::1.32x128b.warpx4 [%t], %a0;\n";
  check_refused(program,
                "tcgen05.cp writes tensor memory lanes 0..127, columns 0..3 while tcgen05.mma is still");
  program = make_program({});
  program.tensor[40 * kColumns + kAScaleColumn] ^= 1;
  check_refused(program, "the scale factors of row 8 of A differ between lanes 8 and 40 of column 264");
  program = make_program({});
  program.filled_columns = kBScaleColumn;
  check_refused(program, "with scale factors of B reads tensor memory lane 0 column 272, which nothing has");
}

}  // namespace
}  // namespace jfa::test::block_scale_test
