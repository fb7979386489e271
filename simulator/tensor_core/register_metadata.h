// The metadata of sparse products in registers: of mma.sp, and of each warp's 16 rows of wgmma.mma_async.sp.
#pragma once

#include <cstdint>
#include <span>

#include "simulator/machine/machine.h"
#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::simulator {

class Decoder;

struct RegisterMetadata {
  Slot slot = kNoSlot;
  MmaElement type = MmaElement::kF16;
  std::uint32_t k = 32;        ///< of the shape: A has half as many elements in a row
  std::uint32_t selector = 0;  ///< which threads of every four hold the metadata
  bool ascending = false;      ///< `ordered_metadata`

  static constexpr std::uint32_t kRows = 16;
  /// Positions of a row: one for each element of a whole step of A.
  std::uint32_t stride() const { return kMmaStepBytes / element_bytes(type); }
  /// Threads of every four that hold metadata: 1, 2 or 4.
  std::uint32_t holders() const;
  /// Where the nibble of row m, of kRows, and of the group along k that begins at `first` lies.
  struct Place {
    std::uint32_t lane = 0, shift = 0;
  };
  Place place(std::uint32_t m, std::uint32_t first) const;
  /// Fills kRows rows of stride() with the k that each element of A stands for; those beyond k / 2, of shapes
  /// of half a step, get a k beyond the shape's. Throws kInvalidOperand for metadata that means nothing;
  /// first_row: of the product, for the message.
  void read(Warp& warp, std::uint32_t first_row, std::span<std::uint8_t> positions,
            const ProgramPoint& point) const;
};

/// From the operands `index`, the metadata, and index + 1, the selector, which must be one that the shape
/// has.
RegisterMetadata decode_register_metadata(Decoder& d, int index, MmaElement type, std::uint32_t k,
                                          bool ascending);

}  // namespace jfa::simulator
