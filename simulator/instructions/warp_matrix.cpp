// ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements between shared memory and the registers of
// a warp.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "simulator/instruction_table.h"
#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

constexpr int kRows = 8;
constexpr int kRowBytes = 16;

/// One 8 x 8 matrix, and where each thread's two elements are: in row lane / 4, columns 2 (lane % 4) and the
/// next; transposed, rows and columns change places.
struct Matrix {
  std::uint16_t element[kRows][kRows];

  std::uint16_t& of(int lane, int half, bool transposed) {
    const int line = lane / 4, place = 2 * (lane % 4) + half;
    return transposed ? element[place][line] : element[line][place];
  }
  std::uint32_t get(int lane, bool transposed) {
    return of(lane, 0, transposed) | std::uint32_t{of(lane, 1, transposed)} << 16;
  }
  void set(int lane, bool transposed, std::uint32_t pair) {
    of(lane, 0, transposed) = static_cast<std::uint16_t>(pair);
    of(lane, 1, transposed) = static_cast<std::uint16_t>(pair >> 16);
  }
};

struct Transfer {
  AddressOperand address;
  Space space = Space::kGeneric;
  bool transposed = false;
  std::vector<Slot> registers;  // one a matrix
};

// The address of a row of matrix i is what thread 8 i + row says.
std::uint64_t row_address(Warp& warp, const Transfer& t, int thread) {
  const auto displacement = static_cast<std::uint64_t>(t.address.displacement);
  return t.address.is_64_bit
             ? warp.lanes<std::uint64_t>(t.address.base)[thread] + displacement
             : static_cast<std::uint32_t>(warp.lanes<std::uint32_t>(t.address.base)[thread] + displacement);
}

Step load(Warp& warp, const Instruction& in, LaneMask) {
  const auto& t = in.data<Transfer>();
  Matrix matrix[4];
  for (std::size_t i = 0; i < t.registers.size(); ++i)
    for (int row = 0; row < kRows; ++row) {
      const int thread = static_cast<int>(i) * kRows + row;
      warp.read(t.space, row_address(warp, t, thread), kRowBytes, matrix[i].element[row],
                warp.point(in, thread));
    }
  for (std::size_t i = 0; i < t.registers.size(); ++i) {
    if (t.registers[i] == kNoSlot) continue;
    auto* d = warp.lanes<std::uint32_t>(t.registers[i]);
    for (int lane = 0; lane < kWarpSize; ++lane) d[lane] = matrix[i].get(lane, t.transposed);
  }
  return Step::kNext;
}

Step store(Warp& warp, const Instruction& in, LaneMask) {
  const auto& t = in.data<Transfer>();
  for (std::size_t i = 0; i < t.registers.size(); ++i) {
    Matrix matrix;
    const auto* s = warp.lanes<std::uint32_t>(t.registers[i]);
    for (int lane = 0; lane < kWarpSize; ++lane) matrix.set(lane, t.transposed, s[lane]);
    for (int row = 0; row < kRows; ++row) {
      const int thread = static_cast<int>(i) * kRows + row;
      warp.write(t.space, row_address(warp, t, thread), kRowBytes, matrix.element[row],
                 warp.point(in, thread));
    }
  }
  return Step::kNext;
}

Step transpose(Warp& warp, const Instruction& in, LaneMask) {
  Matrix matrix;
  const auto* s = warp.lanes<std::uint32_t>(in.operand[1]);
  for (int lane = 0; lane < kWarpSize; ++lane) matrix.set(lane, false, s[lane]);
  auto* d = warp.lanes<std::uint32_t>(in.operand[0]);
  for (int lane = 0; lane < kWarpSize; ++lane) d[lane] = matrix.get(lane, true);
  return Step::kNext;
}

void decode_transfer(Decoder& d, bool stores) {
  d.require_converged();
  Transfer t;
  t.space = d.has("shared") || d.has("shared::cta") ? Space::kShared : Space::kGeneric;
  t.transposed = d.has("trans");
  t.address = d.address(stores ? 0 : 1);
  t.registers = stores ? d.vector_source(1, 32) : d.vector_destination(0, 32);
  const auto count = static_cast<std::size_t>(d.first_of({"x1", "x2", "x4"})[1] - '0');
  if (t.registers.size() != count)
    d.fail(fmt::format("{} registers for {} matrices", t.registers.size(), count));
  d.emit(stores ? store : load).extra = d.attach(std::move(t));
}

}  // namespace

void register_warp_matrix(InstructionTable& t) {
  t.add("ldmatrix.sync.aligned.m8n8.(x1|x2|x4).trans?.(shared|shared::cta)?.b16",
        [](Decoder& d) { decode_transfer(d, false); });
  t.add("stmatrix.sync.aligned.m8n8.(x1|x2|x4).trans?.(shared|shared::cta)?.b16",
        [](Decoder& d) { decode_transfer(d, true); });
  t.add("movmatrix.sync.aligned.m8n8.trans.b16", [](Decoder& d) {
    d.require_converged();
    const Slot source = d.source(1, 32), result = d.destination(0, 32);
    d.emit(transpose).operand = {result, source};
  });
}

}  // namespace jfa::simulator
