// ldmatrix, stmatrix, movmatrix: matrices between rows of 16 bytes in shared memory and the registers of a
// warp.
#include <fmt/format.h>

#include <cstring>

#include "simulator/decode/instruction_table.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr int kRowBytes = 16;
constexpr int kMostMatrixRows = 16;

/// A byte of a matrix in memory.
struct Place {
  int row, byte;
};

/// Where byte `byte` of a thread's register `index` (of those that hold one matrix) lies in memory.
using PlaceOf = Place (*)(int lane, int index, int byte);

/// How a matrix is spread over the warp.
struct Shape {
  int rows;       // in memory
  int registers;  // a thread
  PlaceOf place;
};

// 8 x 8 elements of 16 bits: a thread holds two neighbours of a row; transposed, of a column.
constexpr Shape kHalves{8, 1, [](int lane, int, int byte) { return Place{lane / 4, 4 * (lane % 4) + byte}; }};
constexpr Shape kHalvesTransposed{8, 1, [](int lane, int, int byte) {
                                    return Place{2 * (lane % 4) + byte / 2, 2 * (lane / 4) + byte % 2};
                                  }};
// 8-bit elements, transposed: two neighbours of a column, and of the one eight further on (CuTe's Copy_Traits
// of SM100_U8x4_STSM_T and SM100_U8x8_LDSM_T).
constexpr Shape kBytesStored{8, 1, [](int lane, int, int byte) {
                               return Place{2 * (lane % 4) + byte % 2, lane / 4 + 8 * (byte / 2)};
                             }};
constexpr Shape kBytesLoaded{16, 2, [](int lane, int index, int byte) {
                               return Place{4 * (lane % 4) + 2 * index + byte % 2, lane / 4 + 8 * (byte / 2)};
                             }};

struct Transfer {
  Shape shape = kHalves;
  AddressOperand address;
  Space space = Space::kGeneric;
  std::vector<Slot> registers;  // of the first matrix, then of the next
};

// Row r of matrix i lies where thread rows * i + r says.
std::uint64_t row_address(Warp& warp, const Transfer& t, int thread) {
  const auto displacement = static_cast<std::uint64_t>(t.address.displacement);
  return t.address.is_64_bit
             ? warp.lanes<std::uint64_t>(t.address.base)[thread] + displacement
             : static_cast<std::uint32_t>(warp.lanes<std::uint32_t>(t.address.base)[thread] + displacement);
}

using MatrixRows = std::uint8_t[kMostMatrixRows][kRowBytes];

void gather(const Shape& shape, const MatrixRows& rows, int lane, int index, std::uint32_t& value) {
  value = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const Place place = shape.place(lane, index, byte);
    value |= std::uint32_t{rows[place.row][place.byte]} << 8 * byte;
  }
}

void scatter(const Shape& shape, MatrixRows& rows, int lane, int index, std::uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) {
    const Place place = shape.place(lane, index, byte);
    rows[place.row][place.byte] = static_cast<std::uint8_t>(value >> 8 * byte);
  }
}

int matrices(const Transfer& t) { return static_cast<int>(t.registers.size()) / t.shape.registers; }
Slot register_of(const Transfer& t, int matrix, int index) {
  return t.registers[static_cast<std::size_t>(matrix * t.shape.registers + index)];
}

Step load_matrices(Warp& warp, const Instruction& in, LaneMask) {
  const auto& t = in.data<Transfer>();
  MatrixRows rows[4];
  for (int i = 0; i < matrices(t); ++i)
    for (int row = 0; row < t.shape.rows; ++row) {
      const int thread = i * t.shape.rows + row;
      warp.read(t.space, row_address(warp, t, thread), kRowBytes, rows[i][row], warp.point(in, thread));
    }
  for (int i = 0; i < matrices(t); ++i)
    for (int index = 0; index < t.shape.registers; ++index)
      if (const Slot slot = register_of(t, i, index); slot != kNoSlot)
        for (int lane = 0; lane < kWarpSize; ++lane)
          gather(t.shape, rows[i], lane, index, warp.lanes<std::uint32_t>(slot)[lane]);
  return Step::kNext;
}

Step store_matrices(Warp& warp, const Instruction& in, LaneMask) {
  const auto& t = in.data<Transfer>();
  for (int i = 0; i < matrices(t); ++i) {
    MatrixRows rows;
    for (int index = 0; index < t.shape.registers; ++index)
      for (int lane = 0; lane < kWarpSize; ++lane)
        scatter(t.shape, rows, lane, index, warp.lanes<std::uint32_t>(register_of(t, i, index))[lane]);
    for (int row = 0; row < t.shape.rows; ++row) {
      const int thread = i * t.shape.rows + row;
      warp.write(t.space, row_address(warp, t, thread), kRowBytes, rows[row], warp.point(in, thread));
    }
  }
  return Step::kNext;
}

Step transpose(Warp& warp, const Instruction& in, LaneMask) {
  MatrixRows rows;
  const auto* s = warp.lanes<std::uint32_t>(in.operand[1]);
  for (int lane = 0; lane < kWarpSize; ++lane) scatter(kHalves, rows, lane, 0, s[lane]);
  auto* d = warp.lanes<std::uint32_t>(in.operand[0]);
  for (int lane = 0; lane < kWarpSize; ++lane) gather(kHalvesTransposed, rows, lane, 0, d[lane]);
  return Step::kNext;
}

void decode_matrix_transfer(Decoder& d, bool stores, const Shape& shape) {
  d.require_converged();
  Transfer t;
  t.shape = shape;
  t.space = d.has("shared") || d.has("shared::cta") ? Space::kShared : Space::kGeneric;
  t.address = d.address(stores ? 0 : 1);
  t.registers = stores ? d.vector_source(1, 32) : d.vector_destination(0, 32);
  const int count = d.first_of({"x1", "x2", "x4"})[1] - '0';
  if (static_cast<int>(t.registers.size()) != count * shape.registers)
    d.fail(
        fmt::format("{} registers for {} matrices of {} each", t.registers.size(), count, shape.registers));
  d.emit(stores ? store_matrices : load_matrices).extra = d.attach(std::move(t));
}

void decode_halves(Decoder& d, bool stores) {
  decode_matrix_transfer(d, stores, d.has("trans") ? kHalvesTransposed : kHalves);
}

}  // namespace

void register_warp_matrix(InstructionTable& t) {
  t.add("ldmatrix.sync.aligned.m8n8.(x1|x2|x4).trans?.(shared|shared::cta)?.b16",
        [](Decoder& d) { decode_halves(d, false); });
  t.add("stmatrix.sync.aligned.m8n8.(x1|x2|x4).trans?.(shared|shared::cta)?.b16",
        [](Decoder& d) { decode_halves(d, true); });
  t.add("ldmatrix.sync.aligned.m16n16.(x1|x2).trans.(shared|shared::cta)?.b8",
        [](Decoder& d) { decode_matrix_transfer(d, false, kBytesLoaded); });
  t.add("stmatrix.sync.aligned.m16n8.(x1|x2|x4).trans.(shared|shared::cta)?.b8",
        [](Decoder& d) { decode_matrix_transfer(d, true, kBytesStored); });
  t.add("movmatrix.sync.aligned.m8n8.trans.b16", [](Decoder& d) {
    d.require_converged();
    const Slot source = d.source(1, 32), result = d.destination(0, 32);
    d.emit(transpose).operand = {result, source};
  });
}

}  // namespace jfa::simulator
