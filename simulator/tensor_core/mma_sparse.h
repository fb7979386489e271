// Sparse operands: of A only every second element is there, and metadata says which elements of B each of
// them meets; of tcgen05.mma.sp it lies in tensor memory (of mma.sp and wgmma.sp see register_metadata.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/machine/machine.h"
#include "simulator/tensor_core/instruction_descriptor.h"
#include "simulator/tensor_core/shared_operand.h"
#include "simulator/tensor_core/tensor_memory.h"

namespace jfa::simulator {

/// The lane of the nibble for row m and the elements along k from k on, and which nibble of the row of cells
/// it is, where 128 rows lie one in each lane. elements: see SparseMetadata.
struct MetadataPlace {
  std::uint32_t lane = 0, nibble = 0;
};
MetadataPlace metadata_place(std::uint32_t elements, std::uint32_t m, std::uint32_t k);

/// The metadata of one step. Of mma.ws with fewer than 128 rows every piece of the lanes has it; in half of
/// the datapath 16 rows lie in every quarter of them, as those of the accumulator.
struct SparseMetadata {
  std::uint32_t lane = 0;  ///< of the address
  std::uint32_t column = 0;
  std::uint32_t elements = 0;  ///< of A in a row, or pairs of packed 4-bit ones: half of those along k
  std::uint32_t rows = 128;    ///< in each CTA
  std::uint32_t unit = 1;      ///< 2: of pairs
  bool half_datapath = false;

  /// Of 8-bit elements two columns, else one.
  std::uint32_t columns() const { return elements == 32 ? 2 : 1; }
  TensorRegion region() const {
    const std::uint32_t blocks = half_datapath ? 0b01010101u << lane / kTensorBlockLanes : 0xff;
    return {blocks, column, column + columns()};
  }
  /// Appends, for each element of A, row by row, which k it stands for. Throws kInvalidOperand for metadata
  /// that means nothing, kTensorMemory if the pieces of the lanes differ in it.
  void read(Cta& cta, std::vector<std::uint8_t>& positions, const ProgramPoint& point) const;

 private:
  MetadataPlace place(std::uint32_t m, std::uint32_t k) const;
  std::uint32_t nibble(Cta& cta, std::uint32_t m, std::uint32_t k, const ProgramPoint& point) const;
};

/// Checks the address: an even column, to which the descriptor's selector adds.
SparseMetadata sparse_metadata(std::uint32_t address, const MmaForm& form,
                               const InstructionDescriptor& instruction, const ProgramPoint& point);

/// Of rows of two steps of B, the elements at `positions`: rows of one step. bytes: of an element.
void gather_step(std::span<const std::uint16_t> first_step, std::span<const std::uint16_t> second_step,
                 std::span<const std::uint8_t> positions, std::uint32_t bytes,
                 std::vector<std::uint16_t>& gathered);

/// The descriptor of an operand's next step along k.
MatrixDescriptor next_step(MatrixDescriptor descriptor, MatrixMajor major, std::uint32_t bytes_per_element);
/// B's second half along k. Throws kDescriptor if both do not lie in one swizzled row.
SharedOperand second_step(const SharedOperand& b, const ProgramPoint& point);

}  // namespace jfa::simulator
