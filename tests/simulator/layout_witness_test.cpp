// Where things lie, held against independent public encodings: the tables here are CuTe's facts
// (BSD-3-Clause, github.com/NVIDIA/cutlass, include/cute/atom: mma_traits_sm100.hpp canonical layouts of
// shared memory, copy_traits_sm100.hpp Copy_Traits of TMEM loads and UTCCP, mma_traits_sm100.hpp tmem_frg and
// A/B layouts, mma_traits_sm90_gmma_sparse.hpp ELayout) in its notation of shapes and strides, evaluated by
// our own few lines. And sums, against the widths and roundings that arXiv 2511.10909 measured.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simulator/async/tensor_map.h"
#include "simulator/tensor_core/instruction_descriptor.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/mma_sparse.h"
#include "simulator/tensor_core/register_metadata.h"
#include "simulator/tensor_core/tensor_memory_shape.h"

namespace jfa::simulator::layout_witness_test {
namespace {

/// (s0, s1, …) : (d0, d1, …). An index counts the first mode fastest.
struct Modes {
  std::vector<std::uint32_t> shape, stride;
  std::uint32_t operator()(std::uint32_t index) const {
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      // The last mode goes on as far as it is asked.
      const std::uint32_t coordinate = i + 1 < shape.size() ? index % shape[i] : index;
      index /= shape[i];
      offset += coordinate * stride[i];
    }
    return offset;
  }
};

// Swizzle<bits, 4, 3> of a byte address.
std::uint32_t swizzle(std::uint32_t bits, std::uint32_t address) {
  return address ^ ((address >> 7 & ((1u << bits) - 1)) << 4);
}

TEST_CASE("shared-memory descriptors: the canonical layouts, in 16-byte units") {
  // Elements of 16 bytes; L and S are the leading and stride byte offsets in 16-byte units.
  constexpr std::uint32_t kL = 640, kS = 72;
  struct Canonical {
    std::uint32_t swizzle_bytes, swizzle_bits;
    MatrixMajor major;
    Modes mn, k;
  };
  const Canonical canonical[] = {
      {0, 0, MatrixMajor::kK, {{8, 32}, {1, kS}}, {{2}, {kL}}},
      {32, 1, MatrixMajor::kK, {{8, 32}, {2, kS}}, {{2}, {1}}},
      {64, 2, MatrixMajor::kK, {{8, 32}, {4, kS}}, {{2}, {1}}},
      {128, 3, MatrixMajor::kK, {{8, 32}, {8, kS}}, {{2}, {1}}},
      {0, 0, MatrixMajor::kMN, {{32}, {kS}}, {{8, 4}, {1, kL}}},
      {32, 1, MatrixMajor::kMN, {{2, 16}, {1, kL}}, {{8, 4}, {2, kS}}},
      {64, 2, MatrixMajor::kMN, {{4, 8}, {1, kL}}, {{8, 4}, {4, kS}}},
      {128, 3, MatrixMajor::kMN, {{8, 4}, {1, kL}}, {{8, 4}, {8, kS}}},
  };
  for (const Canonical& c : canonical)
    for (const std::uint32_t bytes : {1u, 2u, 4u}) {
      MatrixDescriptor descriptor;
      descriptor.start_address = 0x2400;  // a multiple of 1024: the pattern starts there
      descriptor.leading_byte_offset = kL * 16;
      descriptor.stride_byte_offset = kS * 16;
      descriptor.swizzle_bytes = c.swizzle_bytes;
      const std::uint32_t per_unit = 16 / bytes;
      const bool k_major = c.major == MatrixMajor::kK;
      std::uint32_t wrong = 0;
      for (std::uint32_t mn = 0; mn < 256; ++mn)
        for (std::uint32_t k = 0; k < 32 / bytes; ++k) {
          const std::uint32_t units = k_major ? c.mn(mn) + c.k(k / per_unit) : c.mn(mn / per_unit) + c.k(k);
          const std::uint32_t within = (k_major ? k : mn) % per_unit * bytes;
          const std::uint32_t want = swizzle(c.swizzle_bits, descriptor.start_address + units * 16) + within;
          wrong += element_address(descriptor, c.major, mn, k, bytes) != want;
        }
      CAPTURE(c.swizzle_bytes);
      CAPTURE(bytes);
      CHECK(wrong == 0);
    }
}

TEST_CASE("shared-memory descriptors and tensor maps: 128 bytes in 32-byte atoms") {
  // Swizzle<2,5,2> o ((8,n),(4,k)):((1,L),(8,S)), of 32-bit elements along n.
  constexpr std::uint32_t kL = 640, kS = 72;
  MatrixDescriptor descriptor;
  descriptor.start_address = 0x2400;
  descriptor.leading_byte_offset = kL * 16;
  descriptor.stride_byte_offset = kS * 16;
  descriptor.swizzle_bytes = 128;
  descriptor.swizzle_atom_bytes = 32;
  const Modes mn{{8, 4}, {1, kL}}, k{{4, 2}, {8, kS}};
  std::uint32_t wrong = 0;
  for (std::uint32_t row = 0; row < 256; ++row)
    for (std::uint32_t depth = 0; depth < 8; ++depth) {
      const std::uint32_t linear = descriptor.start_address + (mn(row / 4) + k(depth)) * 16;
      const std::uint32_t want = linear ^ (linear >> 7 & 3) << 5;
      wrong += element_address(descriptor, MatrixMajor::kMN, row, depth, 4) != want + row % 4 * 4;
      wrong += swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, linear) != want;
    }
  CHECK(wrong == 0);
}

TEST_CASE("tcgen05.ld and st: bits of threads' values to bits of tensor memory") {
  // Copy_Traits of the SM100_TMEM_LOAD of N repetitions: a row of the pattern has R = width * N bits.
  for (const std::uint32_t n : {1u, 2u, 4u, 16u, 32u}) {
    struct Load {
      TensorShape shape;
      std::uint32_t row_bits;
      Modes thread, value;
      std::uint32_t value_bits;
    };
    const std::uint32_t r32 = 32 * n, r64 = 64 * n, r128 = 128 * n, r256 = 256 * n;
    const Load loads[] = {
        {TensorShape::k32x32b, r32, {{32}, {r32}}, {{32 * n}, {1}}, 32 * n},
        {TensorShape::k16x64b, r64, {{2, 2, 8}, {8 * r64, 32, r64}}, {{32, n}, {1, 64}}, 32 * n},
        {TensorShape::k16x128b, r128, {{4, 8}, {32, r128}}, {{32, 2, n}, {1, 8 * r128, 128}}, 64 * n},
        {TensorShape::k16x256b, r256, {{4, 8}, {64, r256}}, {{64, 2, n}, {1, 8 * r256, 256}}, 128 * n},
        // 16dp32b: the second half of the threads reads n columns further on: immHalfSplitoff = n.
        {TensorShape::k16x32bx2, 2 * r32, {{16, 2}, {2 * r32, r32}}, {{32 * n}, {1}}, 32 * n},
    };
    for (const Load& load : loads) {
      if (load.shape == TensorShape::k16x256b && n > 32) continue;
      std::uint32_t wrong = 0;
      for (std::uint32_t thread = 0; thread < 32; ++thread)
        for (std::uint32_t bit = 0; bit < load.value_bits; ++bit) {
          const std::uint32_t place = load.thread(thread) + load.value(bit);
          const TensorCell cell =
              register_cell(load.shape, static_cast<int>(bit / 32), static_cast<int>(thread), n, false);
          wrong += cell.lane != place / load.row_bits || cell.column * 32 + bit % 32 != place % load.row_bits;
        }
      CAPTURE(n);
      CHECK_MESSAGE(wrong == 0, static_cast<int>(load.shape));
    }
  }
}

TEST_CASE("accumulators: tmem_frg of one and two CTAs") {
  // Places count lanes fastest: lane + 128 * column.
  for (const std::uint32_t n : {32u, 64u, 256u}) {
    struct Fragment {
      int ctas;
      std::uint32_t m;
      Modes cta, row, column;  // cta: which CTA holds row m; row: of that CTA
    };
    const Fragment fragments[] = {
        {1, 128, {{1}, {0}}, {{128}, {1}}, {{n}, {128}}},
        {1, 64, {{1}, {0}}, {{16, 4}, {1, 32}}, {{n}, {128}}},
        {2, 256, {{128, 2}, {0, 1}}, {{128}, {1}}, {{n}, {128}}},
        {2, 128, {{64, 2}, {0, 1}}, {{64}, {1}}, {{n / 2, 2}, {128, 64}}},
    };
    for (const Fragment& f : fragments) {
      std::uint32_t wrong = 0;
      const std::uint32_t rows = f.m / static_cast<std::uint32_t>(f.ctas);
      for (std::uint32_t m = 0; m < f.m; ++m)
        for (std::uint32_t column = 0; column < n; ++column) {
          const AccumulatorPlace place = accumulator_place(f.ctas, f.m, n, m, column);
          wrong += place.cta != (f.ctas == 1 ? 0 : f.cta(m)) ||
                   place.cell.lane + 128 * place.cell.column != f.row(m % rows) + f.column(column);
        }
      CAPTURE(n);
      CAPTURE(f.m);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("accumulators of mma.ws: tmem_frg_ws") {
  for (const std::uint32_t n : {64u, 128u, 256u}) {
    struct Fragment {
      std::uint32_t m;
      Modes column;
    };
    const Fragment fragments[] = {
        {32, {{n / 4, 4}, {128, 32}}}, {64, {{n / 2, 2}, {128, 64}}}, {128, {{n}, {128}}}};
    for (const Fragment& f : fragments) {
      std::uint32_t wrong = 0;
      for (std::uint32_t m = 0; m < f.m; ++m)
        for (std::uint32_t column = 0; column < n; ++column) {
          const TensorCell cell =
              accumulator_place(1, f.m, n, m, column, AccumulatorForm::kWeightStationary).cell;
          wrong += cell.lane + 128 * cell.column != m + f.column(column);
        }
      CAPTURE(n);
      CAPTURE(f.m);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("sparse metadata: tmem_e_frg, and tmem_e_frg_ws of fewer rows") {
  // Places count lanes fastest, in elements along k: lane + 128 * element; a nibble covers two or four.
  struct Fragment {
    std::uint32_t elements, per_nibble;  // elements: of A in a row
    Modes row, k;
  };
  for (const std::uint32_t rows : {128u, 64u, 32u}) {
    const Fragment fragments[] = {{8, 2, {{8, 2, rows / 16}, {1, 1024, 16}}, {{8, 2}, {128, 8}}},
                                  {16, 4, {{8, 2, rows / 16}, {1, 2048, 16}}, {{16, 2}, {128, 8}}},
                                  {32, 4, {{rows}, {1}}, {{64}, {128}}}};
    for (const Fragment& f : fragments) {
      std::uint32_t wrong = 0;
      for (std::uint32_t m = 0; m < rows; ++m)
        for (std::uint32_t k = 0; k < 2 * f.elements; ++k) {
          const std::uint32_t want = f.row(m) + f.k(k);
          const MetadataPlace place = metadata_place(f.elements, m, k);
          wrong += place.lane != want % 128 || place.nibble != want / 128 / f.per_nibble;
        }
      CAPTURE(rows);
      CAPTURE(f.elements);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("sparse metadata in registers: ELayout of a warpgroup") {
  // Threads and their elements along k, of which a nibble covers two or four, to row + 64 * k.
  struct Layout {
    MmaElement type;
    std::uint32_t per_nibble, selectors;
    Modes thread, element;
  };
  const Layout layouts[] = {{MmaElement::kTF32, 2, 2, {{2, 2, 8, 4}, {512, 0, 1, 16}}, {{8, 2}, {64, 8}}},
                            {MmaElement::kF16, 4, 2, {{2, 2, 8, 4}, {1024, 0, 1, 16}}, {{16, 2}, {64, 8}}},
                            {MmaElement::kE4M3, 4, 1, {{2, 2, 8, 4}, {8, 2048, 1, 16}}, {{32}, {64}}}};
  for (const Layout& l : layouts)
    for (std::uint32_t selector = 0; selector < l.selectors; ++selector) {
      const std::uint32_t k_extent = 2 * kMmaStepBytes / element_bytes(l.type);
      const RegisterMetadata metadata{kNoSlot, l.type, k_extent, selector, false};
      std::uint32_t wrong = 0;
      for (std::uint32_t thread = 0; thread < 128; ++thread) {
        if (l.selectors == 2 && thread / 2 % 2 != selector) continue;
        for (std::uint32_t nibble = 0; nibble < 8; ++nibble) {
          const std::uint32_t at = l.thread(thread) + l.element(nibble * l.per_nibble);
          const std::uint32_t row = at % 64, k = at / 64;
          const auto [lane, shift] = metadata.place(row % RegisterMetadata::kRows, k);
          wrong += row / RegisterMetadata::kRows != thread / 32 || lane != thread % 32 || shift != 4 * nibble;
        }
      }
      CAPTURE(k_extent);
      CAPTURE(selector);
      CHECK(wrong == 0);
    }
}

TEST_CASE("scale factors: tmem_sf_frg of both data paths") {
  // Places count lanes fastest, in bytes: lane + 128 * byte column. Rows, then copies, then factors of a row.
  for (const std::uint32_t rows : {32u, 64u, 128u, 256u})
    for (const bool in_halves : {false, true}) {
      if (in_halves && rows == 32) continue;
      const std::uint32_t columns = rows / 32;
      const Modes row =
          in_halves ? Modes{{32, columns / 2, 2}, {1, 512, 64}} : Modes{{32, columns}, {1, 512}};
      const Modes copy = in_halves ? Modes{{2}, {32}} : Modes{{4}, {32}};
      std::uint32_t wrong = 0;
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::uint32_t quarters = 0;
        const ScalePlace place = scale_place(r, rows, in_halves);
        for (std::uint32_t i = 0; i < copy.shape[0]; ++i) {
          const std::uint32_t want = row(r) + copy(i);
          const std::uint32_t lane = want % 128, byte_column = want / 128;
          quarters |= 1u << lane / 32;
          wrong += lane % 32 != place.cell.lane || byte_column != 4 * place.cell.column;
        }
        wrong += quarters != place.quarters;
      }
      CAPTURE(rows);
      CHECK(wrong == 0);
    }
}

// --- Sums. A row of 32 bytes of one type.
template <class Element>
std::vector<std::uint16_t> row_of(const std::vector<Element>& elements) {
  std::vector<std::uint16_t> row(kMmaK);
  std::memcpy(row.data(), elements.data(), elements.size() * sizeof(Element));
  return row;
}

struct Sum {
  MmaElement type;
  MmaPrecision precision{};
  template <class Element>
  float operator()(const std::vector<Element>& a, const std::vector<Element>& b, float c) const {
    MmaOperands operands;
    operands.load(type, type, row_of(a), row_of(b), precision);
    std::uint32_t d = std::bit_cast<std::uint32_t>(c);
    operands.accumulate_row_f32(0, &d);
    return std::bit_cast<float>(d);
  }
};

TEST_CASE("FP8: 25 aligned bits on Blackwell, 13 and an 8 + 13 bit result on Hopper's wgmma") {
  using Row = std::vector<std::uint8_t>;
  const std::uint8_t one = 0x38, smallest = 0x01;  // e4m3: 1 and 2^-9
  const Sum blackwell{MmaElement::kE4M3}, hopper{MmaElement::kE4M3, kHopperFp8Precision};
  // 2^k + 1: the 1 survives while it is within the aligned bits of the largest term.
  for (int k = 0; k < 24; ++k) {
    const float large = std::ldexp(1.0f, k);
    CHECK(blackwell(Row{one}, Row{one}, large) == large + 1);
    CHECK(hopper(Row{one}, Row{one}, large) == (k <= 13 ? large + 1 : large));
  }
  // Each term is cut by itself: 32 of 2^-18 beside 2^8 are 2^-13 together, but none reaches 2^(8 - 25).
  const Row small(32, smallest);
  CHECK(blackwell(small, small, 256.0f) == 256.0f);
  CHECK(blackwell(small, small, 0.0f) == std::ldexp(1.0f, -13));
  // Hopper's accumulator itself has 13 bits: 1 + 2^-14 loses its tail even if nothing is added.
  CHECK(hopper(Row{0}, Row{0}, 1.0f + std::ldexp(1.0f, -14)) == 1.0f);
  CHECK(blackwell(Row{0}, Row{0}, 1.0f + std::ldexp(1.0f, -14)) == 1.0f + std::ldexp(1.0f, -14));
  // e4m3 has no infinity, and one NaN.
  CHECK(blackwell(Row{0x7e}, Row{one}, 0.0f) == 448.0f);
  CHECK(std::isnan(blackwell(Row{0x7f}, Row{one}, 0.0f)));
  CHECK(Sum{MmaElement::kE5M2}(Row{0x7c}, Row{0x3c}, 0.0f) == INFINITY);
}

TEST_CASE("tf32: inputs are cut to 10 fraction bits, sums truncated") {
  using Row = std::vector<float>;
  const Sum sum{MmaElement::kTF32};
  const float ulp = std::ldexp(1.0f, -10);
  CHECK(sum(Row{1 + ulp}, Row{1}, 0.0f) == 1 + ulp);
  CHECK(sum(Row{1 + ulp / 2}, Row{1}, 0.0f) == 1.0f);
  CHECK(sum(Row{-(1 + ulp * 0.99f)}, Row{1}, 0.0f) == -1.0f);
  // Rounding is toward zero, on both sides.
  const float tail = std::ldexp(1.0f, -24);
  CHECK(sum(Row{tail, tail / 2}, Row{1, 1}, 1.0f) == 1.0f);
  CHECK(sum(Row{-tail, -tail / 2}, Row{1, 1}, -1.0f) == -1.0f);
  // 2^24 + 1 is exact in the aligned sum, and cut in the result.
  CHECK(sum(Row{4096, 1, -1}, Row{4096, 1, 1}, 0.0f) == 16777216.0f);
}

TEST_CASE("integers wrap, or saturate") {
  using Row = std::vector<std::uint8_t>;
  MmaOperands operands;
  operands.load(MmaElement::kS8, MmaElement::kU8, row_of(Row(32, 0x80)), row_of(Row(32, 0xff)));
  std::uint32_t d[] = {0x80000000u};
  operands.accumulate_row_s32(0, d, false);
  CHECK(d[0] == 0x80000000u - 32u * 128u * 255u);
  d[0] = 0x80000000u;
  operands.accumulate_row_s32(0, d, true);
  CHECK(d[0] == 0x80000000u);
}

TEST_CASE("instruction descriptors of the other kinds") {
  const auto decode = [](MmaKind kind, std::uint32_t bits) {
    return decode_instruction_descriptor(bits, {.kind = kind});
  };
  const std::uint32_t shape = 8u << 17 | 8u << 24;  // N = 64, M = 128
  const auto tf32 = decode(MmaKind::kTF32, shape | 1 << 4 | 2 << 7 | 2 << 10);
  REQUIRE(tf32.ok());
  CHECK(tf32->a_type == MmaElement::kTF32);
  const auto fp8 = decode(MmaKind::kF8F6F4, shape | 1 << 4 | 0 << 7 | 1 << 10);
  REQUIRE(fp8.ok());
  CHECK(fp8->a_type == MmaElement::kE4M3);
  CHECK(fp8->b_type == MmaElement::kE5M2);
  const auto i8 = decode(MmaKind::kI8, shape | 1 << 3 | 2 << 4 | 1 << 7 | 0 << 10);
  REQUIRE(i8.ok());
  CHECK(i8->d_type == MmaAccumulator::kS32);
  CHECK(i8->a_type == MmaElement::kS8);
  CHECK(i8->saturate);
  const auto refused = [&](MmaKind kind, std::uint32_t bits, const char* part) {
    const std::string message = decode(kind, bits).status().message();
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  refused(MmaKind::kTF32, shape | 1 << 4, "A type 0 is not 2 (tf32)");
  refused(MmaKind::kTF32, shape | 2 << 7 | 2 << 10, "D type 0 is not 1 (f32)");
  refused(MmaKind::kF8F6F4, shape | 1 << 4 | 2 << 7, "A type 2 is none of 0 (e4m3), 1 (e5m2)");
  refused(MmaKind::kI8, shape | 1 << 4, "D type 1 is not 2 (s32)");
  refused(MmaKind::kI8, shape | 2 << 4 | 1 << 13, "negation");
  refused(MmaKind::kI8, 5u << 17 | 8u << 24 | 2 << 4, "N = 40 is not a multiple of 16");
}

}  // namespace
}  // namespace jfa::simulator::layout_witness_test
