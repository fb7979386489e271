// mma.sync: products of matrices that lie in the registers of one warp.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "simulator/float_format.h"
#include "simulator/instruction_table.h"
#include "simulator/instructions/mma_types.h"
#include "simulator/machine.h"
#include "simulator/mma.h"

namespace jfa::simulator {
namespace {

constexpr int kColumns = 8;
constexpr int kMostRows = 16;
constexpr int kStepWords = kMmaStepBytes / 4;

/// Fragments: thread `lane` is in row group g = lane / 4 and has place t = lane % 4. Of A it holds words t
/// and t + 4 (of four bytes along K) of rows g and g + 8, of B those of column g, of C and D columns 2 t and
/// 2 t + 1 of rows g and g + 8.
struct Product {
  int rows = kMostRows;
  MmaElement a_type = MmaElement::kF16, b_type = MmaElement::kF16;
  MmaAccumulator accumulator = MmaAccumulator::kF32;
  bool saturate = false;
  std::vector<Slot> d, a, b, c;
};

struct MmaSyncScratch : Extension {
  explicit MmaSyncScratch(Machine&) {}
  MmaOperands operands;
};

// Registers that a warp's product has of an accumulator.
std::size_t accumulator_registers(const Product& p) {
  return static_cast<std::size_t>(p.rows / 8) * (p.accumulator == MmaAccumulator::kF16 ? 1 : 2);
}

// Calls function(register, first bit of it, column) for what the thread holds of row g + 8 * half.
template <class Function>
void for_each_column(MmaAccumulator type, int half, int lane, Function function) {
  const bool pairs = type == MmaAccumulator::kF16;
  for (int i = 0; i < 2; ++i) function(pairs ? half : 2 * half + i, pairs ? 16 * i : 0, 2 * (lane % 4) + i);
}

const FloatFormat& format_of(MmaElement type) { return type == MmaElement::kE4M3 ? kE4m3 : kE5m2; }

// The bytes 2 · step and 2 · step + 1 of every word, widened to f16.
template <std::size_t rows>
void widen(const std::uint32_t (&words)[rows][kStepWords], MmaElement type, int step, std::uint16_t* halves) {
  for (std::size_t row = 0; row < rows; ++row)
    for (int i = 0; i < kMmaK; ++i) {
      const std::uint32_t byte = words[row][i / 2] >> (16 * step + 8 * (i % 2)) & 0xff;
      *halves++ = static_cast<std::uint16_t>(
          encode_float(decode_float(byte, format_of(type)), kFloat16, Rounding::kNearest));
    }
}

std::uint32_t rounded_sum(MmaAccumulator type, std::uint32_t a, std::uint32_t b) {
  if (type == MmaAccumulator::kF16)
    return encode_float(decode_float(a, kFloat16) + decode_float(b, kFloat16), kFloat16, Rounding::kNearest);
  const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
  return std::isnan(sum) ? kMmaNanF32 : std::bit_cast<std::uint32_t>(sum);
}

// FP8 has no product of its own here: compilers widen it to f16, multiply the lower two bytes of the words,
// then the upper two on top, and add C last, as an H200 confirms bit for bit.
template <std::size_t rows>
void multiply_fp8(const Product& p, const std::uint32_t (&a)[rows][kStepWords],
                  const std::uint32_t (&b)[kColumns][kStepWords], MmaOperands& operands,
                  std::uint32_t (&d)[rows][kColumns]) {
  std::uint32_t sums[rows][kColumns] = {};
  for (int step = 0; step < 2; ++step) {
    std::uint16_t a_halves[rows * kMmaK], b_halves[kColumns * kMmaK];
    widen(a, p.a_type, step, a_halves);
    widen(b, p.b_type, step, b_halves);
    operands.load(MmaElement::kF16, MmaElement::kF16, a_halves, b_halves);
    for (std::size_t m = 0; m < rows; ++m)
      operands.accumulate_row(p.accumulator, static_cast<int>(m), sums[m]);
  }
  for (std::size_t m = 0; m < rows; ++m)
    for (int n = 0; n < kColumns; ++n) d[m][n] = rounded_sum(p.accumulator, d[m][n], sums[m][n]);
}

Step multiply(Warp& warp, const Instruction& in, LaneMask) {
  const auto& p = in.data<Product>();
  std::uint32_t a[kMostRows][kStepWords] = {}, b[kColumns][kStepWords] = {};
  const std::size_t halves = static_cast<std::size_t>(p.rows) / 8;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (std::size_t r = 0; r < p.a.size(); ++r)
      a[g + 8 * static_cast<int>(r % halves)][t + 4 * static_cast<int>(r / halves)] =
          warp.lanes<std::uint32_t>(p.a[r])[lane];
    for (std::size_t r = 0; r < p.b.size(); ++r)
      b[g][t + 4 * static_cast<int>(r)] = warp.lanes<std::uint32_t>(p.b[r])[lane];
  }
  std::uint32_t d[kMostRows][kColumns] = {};
  const std::uint32_t mask = p.accumulator == MmaAccumulator::kF16 ? 0xffff : ~0u;
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int half = 0; half < p.rows / 8; ++half)
      for_each_column(p.accumulator, half, lane, [&](int r, int shift, int column) {
        d[lane / 4 + 8 * half][column] =
            warp.lanes<std::uint32_t>(p.c[static_cast<std::size_t>(r)])[lane] >> shift & mask;
      });

  MmaOperands& operands = warp.machine().extension<MmaSyncScratch>().operands;
  if (p.a_type == MmaElement::kE4M3 || p.a_type == MmaElement::kE5M2) {
    multiply_fp8(p, a, b, operands, d);
  } else {
    std::uint16_t a_words[kMostRows * kMmaK], b_words[kColumns * kMmaK];
    std::memcpy(a_words, a, sizeof a);
    std::memcpy(b_words, b, sizeof b);
    operands.load(p.a_type, p.b_type, std::span(a_words).first(static_cast<std::size_t>(p.rows * kMmaK)),
                  b_words);
    for (int m = 0; m < p.rows; ++m) operands.accumulate_row(p.accumulator, m, d[m], p.saturate);
  }

  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int half = 0; half < p.rows / 8; ++half)
      for_each_column(p.accumulator, half, lane, [&](int r, int shift, int column) {
        std::uint32_t& word = warp.lanes<std::uint32_t>(p.d[static_cast<std::size_t>(r)])[lane];
        const std::uint32_t value = d[lane / 4 + 8 * half][column];
        word = shift != 0 ? (word & 0xffff) | value << 16 : value;
      });
  return Step::kNext;
}

// .shape .row .col (.kind)? (.satfinite)? .d .a .b .c
void decode_multiply(Decoder& d) {
  d.require_converged();
  Product p;
  const std::string_view shape = d.modifier(2);
  p.rows = shape.starts_with("m8") ? 8 : 16;
  p.saturate = d.has("satfinite");
  p.accumulator = mma_accumulator(d.modifier(7));
  p.a_type = mma_element(d.modifier(8));
  p.b_type = mma_element(d.modifier(9));
  if (mma_accumulator(d.modifier(10)) != p.accumulator) d.fail("C and D of different types");
  const std::string_view k = shape.substr(shape.find('k') + 1);
  const std::size_t step_bytes =
      static_cast<std::size_t>(std::stoi(std::string(k))) * element_bytes(p.a_type);
  const std::size_t words = step_bytes / 16;  // of a row, a thread
  p.d = d.vector_destination(0, 32);
  p.a = d.vector_source(1, 32);
  p.b = d.vector_source(2, 32);
  p.c = d.vector_source(3, 32);
  const auto check = [&](const char* name, const std::vector<Slot>& slots, std::size_t wanted) {
    if (slots.size() != wanted)
      d.fail(fmt::format("{} of mma.sync {} has {} registers, not {}", name, shape, slots.size(), wanted));
  };
  check("A", p.a, static_cast<std::size_t>(p.rows) / 8 * words);
  check("B", p.b, words);
  check("C", p.c, accumulator_registers(p));
  check("D", p.d, accumulator_registers(p));
  d.emit(multiply).extra = d.attach(std::move(p));
}

}  // namespace

void register_mma_sync(InstructionTable& t) {
  const auto add = [&](const char* shapes, const char* types) {
    t.add(fmt::format("mma.sync.aligned.({}).row.col.kind::f8f6f4?.satfinite?.{}", shapes, types),
          decode_multiply);
  };
  add("m16n8k8|m16n8k16", "(f32|f16).f16.f16.(f32|f16)");
  add("m16n8k8|m16n8k16", "f32.bf16.bf16.f32");
  add("m16n8k4|m16n8k8", "f32.tf32.tf32.f32");
  add("m16n8k16|m16n8k32", "(f32|f16).(e4m3|e5m2).(e4m3|e5m2).(f32|f16)");
  add("m8n8k16|m16n8k16|m16n8k32", "s32.(u8|s8).(u8|s8).s32");
}

}  // namespace jfa::simulator
