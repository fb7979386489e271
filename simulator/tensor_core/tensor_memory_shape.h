// Where things lie in tensor memory: the registers of tcgen05.ld and tcgen05.st, the accumulator of an mma,
// and an A operand.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tensor_core/tensor_memory.h"

namespace jfa::simulator {

/// A cell relative to the address an instruction names.
struct TensorCell {
  std::uint32_t lane = 0;
  std::uint32_t column = 0;
};

/// The shapes of tcgen05.ld and tcgen05.st.
enum class TensorShape : std::uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

/// Registers that one repetition (.x1) moves per thread: 1, 2 or 4.
int registers_per_repetition(TensorShape shape);
/// Columns that one repetition spans (in 16x32bx2: of each half).
int columns_per_repetition(TensorShape shape);
/// Lanes of the shape: 16 or 32.
std::uint32_t shape_lanes(TensorShape shape);

/// The cell that register `index` of thread `lane` moves. half_split: immHalfSplitoff of 16x32bx2. With
/// packed
/// (.pack::16b, .unpack::16b) it is the first of two adjacent cells, whose low halves are the register's low
/// and high half.
TensorCell register_cell(TensorShape shape, int index, int lane, std::uint32_t half_split, bool packed);

/// Which products spread their accumulators alike: mma, mma.sp, and mma.ws and .ws.sp.
enum class AccumulatorForm : std::uint8_t { kDense, kSparse, kWeightStationary };

/// Which CTA of the pair (0 for cta_group::1) holds element (m, n) of an M x N accumulator, and where from
/// the accumulator's address. M = 32: of mma.ws only.
struct AccumulatorPlace {
  std::uint32_t cta = 0;
  TensorCell cell;
};
AccumulatorPlace accumulator_place(int cta_group, std::uint32_t m_extent, std::uint32_t n_extent,
                                   std::uint32_t m, std::uint32_t n,
                                   AccumulatorForm form = AccumulatorForm::kDense);

/// Columns of one accumulator in each CTA.
std::uint32_t accumulator_columns(int cta_group, std::uint32_t m_extent, std::uint32_t n_extent,
                                  AccumulatorForm form = AccumulatorForm::kDense);
/// Whether only 16 lanes of every quarter are used, the first or, from lane 16 on, the last.
bool half_datapath(int cta_group, std::uint32_t m_extent, AccumulatorForm form = AccumulatorForm::kDense);
/// Its blocks of 16 lanes, from lane 0.
std::uint32_t accumulator_blocks(int cta_group, std::uint32_t m_extent,
                                 AccumulatorForm form = AccumulatorForm::kDense);

/// Two 16-bit elements of A share a cell, even k in the low half: a step of K = 16 takes eight columns. Rows
/// lie in the lanes of the accumulator's rows (cta_group::2 with M = 128: again 64 lanes up, see
/// accumulator_blocks).
constexpr std::uint32_t kTensorOperandColumns = 8;

/// Scale factors of a block-scaled product: those of row r (of A in its CTA, or column of B) are bytes of one
/// cell, in the same place of several quarters of the lanes.
struct ScalePlace {
  std::uint32_t quarters = 0;  ///< bit q: lanes 32 q … 32 q + 31
  TensorCell cell;             ///< lane within the quarter
};
/// in_halves: of B in a pair of CTAs with M = 128, whose two halves of columns go to half of the lanes each.
ScalePlace scale_place(std::uint32_t row, std::uint32_t rows, bool in_halves);
/// All of them, from `column` on.
std::vector<TensorRegion> scale_regions(std::uint32_t column, std::uint32_t rows, bool in_halves);

}  // namespace jfa::simulator
