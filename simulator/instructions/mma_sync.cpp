// mma.sync and mma.sp: products of matrices that lie in the registers of one warp.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>
#include <span>

#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/mma_types.h"
#include "simulator/machine/float_format.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/mma_sparse.h"
#include "simulator/tensor_core/register_metadata.h"

namespace jfa::simulator {
namespace {

constexpr int kColumns = 8;
constexpr int kMostRows = 16;
constexpr int kMostSteps = 2;  // of B along K, if A is sparse

/// Rows of A or columns of B, one step of each: kMmaK words of 16 bits.
using HalfRows = std::span<const std::uint16_t>;

/// Fragments: thread `lane` is in row group g = lane / 4 and has place t = lane % 4. Of A it holds words t
/// and t + 4 (of four bytes along K) of rows g and g + 8, of B words t, t + 4, t + 8 … of column g, of C and
/// D columns 2 t and 2 t + 1 of rows g and g + 8.
struct Product {
  int rows = kMostRows;
  MmaElement a_type = MmaElement::kF16, b_type = MmaElement::kF16;
  MmaAccumulator accumulator = MmaAccumulator::kF32;
  bool saturate = false;
  std::optional<RegisterMetadata> metadata;  // of a sparse A
  std::vector<Slot> d, a, b, c;
};

struct MmaSyncScratch : Extension {
  explicit MmaSyncScratch(Machine&) {}
  MmaOperands operands;
  // Sparse forms: what each row of A meets, and that of B.
  std::vector<std::uint8_t> positions;
  std::vector<std::uint16_t> gathered;
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

void store_word(std::uint16_t* rows, int row, int word, std::uint32_t bits) {
  std::uint16_t* halves = rows + row * kMmaK + 2 * word;
  halves[0] = static_cast<std::uint16_t>(bits);
  halves[1] = static_cast<std::uint16_t>(bits >> 16);
}

// Half `half` of every four bytes: two elements, widened to f16.
void widen(HalfRows rows, MmaElement type, std::size_t half, std::uint16_t* widened) {
  for (std::size_t i = half; i < rows.size(); i += 2)
    for (const int shift : {0, 8})
      *widened++ = static_cast<std::uint16_t>(
          encode_float(decode_float(rows[i] >> shift & 0xff, format_of(type)), kFloat16, Rounding::kNearest));
}

std::uint32_t rounded_sum(MmaAccumulator type, std::uint32_t a, std::uint32_t b) {
  if (type == MmaAccumulator::kF16)
    return encode_float(decode_float(a, kFloat16) + decode_float(b, kFloat16), kFloat16, Rounding::kNearest);
  const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
  return std::isnan(sum) ? kMmaNanF32 : std::bit_cast<std::uint32_t>(sum);
}

// FP8 has no product of its own here: compilers widen it to f16, multiply the lower two bytes of the words,
// then the upper two on top, and add C last, as an H200 confirms bit for bit.
void multiply_fp8(const Product& p, HalfRows a, HalfRows b, MmaOperands& operands,
                  std::uint32_t (*d)[kColumns]) {
  const std::size_t rows = a.size() / kMmaK;
  std::uint32_t sums[kMostRows][kColumns] = {};
  for (const std::size_t half : {0, 1}) {
    std::uint16_t a_halves[kMostRows * kMmaK], b_halves[kColumns * kMmaK];
    widen(a, p.a_type, half, a_halves);
    widen(b, p.b_type, half, b_halves);
    operands.load(MmaElement::kF16, MmaElement::kF16, HalfRows(a_halves).first(a.size()), b_halves);
    for (std::size_t m = 0; m < rows; ++m)
      operands.accumulate_row(p.accumulator, static_cast<int>(m), sums[m]);
  }
  for (std::size_t m = 0; m < rows; ++m)
    for (int n = 0; n < kColumns; ++n) d[m][n] = rounded_sum(p.accumulator, d[m][n], sums[m][n]);
}

// Rows of A with all columns of B, into rows of D.
void multiply_rows(const Product& p, HalfRows a, HalfRows b, MmaOperands& operands,
                   std::uint32_t (*d)[kColumns]) {
  if (p.a_type == MmaElement::kE4M3 || p.a_type == MmaElement::kE5M2)
    return multiply_fp8(p, a, b, operands, d);
  operands.load(p.a_type, p.b_type, a, b);
  for (int m = 0; m < operands.m(); ++m) operands.accumulate_row(p.accumulator, m, d[m], p.saturate);
}

Step multiply(Warp& warp, const Instruction& in, LaneMask) {
  const auto& p = in.data<Product>();
  std::uint16_t a[kMostRows * kMmaK] = {}, b[kMostSteps][kColumns * kMmaK] = {};
  const int halves = p.rows / 8;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < static_cast<int>(p.a.size()); ++r)
      store_word(a, g + 8 * (r % halves), t + 4 * (r / halves),
                 warp.lanes<std::uint32_t>(p.a[static_cast<std::size_t>(r)])[lane]);
    for (int r = 0; r < static_cast<int>(p.b.size()); ++r)
      store_word(b[r / 2], g, t + 4 * (r % 2),
                 warp.lanes<std::uint32_t>(p.b[static_cast<std::size_t>(r)])[lane]);
  }
  std::uint32_t d[kMostRows][kColumns] = {};
  const std::uint32_t mask = p.accumulator == MmaAccumulator::kF16 ? 0xffff : ~0u;
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int half = 0; half < p.rows / 8; ++half)
      for_each_column(p.accumulator, half, lane, [&](int r, int shift, int column) {
        d[lane / 4 + 8 * half][column] =
            warp.lanes<std::uint32_t>(p.c[static_cast<std::size_t>(r)])[lane] >> shift & mask;
      });

  auto& scratch = warp.machine().extension<MmaSyncScratch>();
  const HalfRows a_rows = HalfRows(a).first(static_cast<std::size_t>(p.rows * kMmaK));
  if (!p.metadata) {
    multiply_rows(p, a_rows, b[0], scratch.operands, d);
  } else {  // each row of A meets other elements of B
    const std::size_t elements = p.metadata->stride();
    scratch.positions.resize(kMostRows * elements);
    p.metadata->read(warp, 0, scratch.positions, warp.point(in));
    for (std::size_t m = 0; m < kMostRows; ++m) {
      gather_step(b[0], b[1], std::span(scratch.positions).subspan(m * elements, elements),
                  element_bytes(p.b_type), scratch.gathered);
      multiply_rows(p, a_rows.subspan(m * kMmaK, kMmaK), scratch.gathered, scratch.operands, d + m);
    }
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

// (.sp)? .sync .aligned .shape .row .col (.kind)? .satfinite? .d .a .b .c: either .sp or .kind has a place,
// so that those behind it have the same.
void decode_multiply(Decoder& d) {
  d.require_converged();
  Product p;
  const bool ordered = d.has("sp::ordered_metadata"), sparse = ordered || d.has("sp");
  const std::string_view name = sparse ? "mma.sp" : "mma.sync", shape = d.modifier(sparse ? 3 : 2);
  p.rows = shape.starts_with("m8") ? 8 : 16;
  p.saturate = d.has("satfinite");
  p.accumulator = mma_accumulator(d.modifier(7));
  p.a_type = mma_element(d.modifier(8));
  p.b_type = mma_element(d.modifier(9));
  if (mma_accumulator(d.modifier(10)) != p.accumulator) d.fail("C and D of different types");
  const auto k = static_cast<std::uint32_t>(std::stoi(std::string(shape.substr(shape.find('k') + 1))));
  const std::size_t b_words = k * element_bytes(p.a_type) / 16;  // of a column, a thread
  const std::size_t a_words = sparse ? b_words / 2 : b_words;
  p.d = d.vector_destination(0, 32);
  p.a = d.vector_source(1, 32);
  p.b = d.vector_source(2, 32);
  p.c = d.vector_source(3, 32);
  const auto check = [&](const char* matrix, const std::vector<Slot>& slots, std::size_t wanted) {
    if (slots.size() != wanted)
      d.fail(fmt::format("{} of {} {} has {} registers, not {}", matrix, name, shape, slots.size(), wanted));
  };
  check("A", p.a, static_cast<std::size_t>(p.rows) / 8 * a_words);
  check("B", p.b, b_words);
  check("C", p.c, accumulator_registers(p));
  check("D", p.d, accumulator_registers(p));
  if (sparse) p.metadata = decode_register_metadata(d, 4, p.a_type, k, ordered);
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
  const auto add_sparse = [&](const char* shapes, const char* types) {
    t.add(fmt::format("mma.(sp|sp::ordered_metadata).sync.aligned.({}).row.col.satfinite?.{}", shapes, types),
          decode_multiply);
  };
  add_sparse("m16n8k16|m16n8k32", "(f32|f16).f16.f16.(f32|f16)");
  add_sparse("m16n8k16|m16n8k32", "f32.bf16.bf16.f32");
  add_sparse("m16n8k8|m16n8k16", "f32.tf32.tf32.f32");
  add_sparse("m16n8k64", "f32.(e4m3|e5m2).(e4m3|e5m2).f32");
  add_sparse("m16n8k32|m16n8k64", "s32.(u8|s8).(u8|s8).s32");
}

}  // namespace jfa::simulator
