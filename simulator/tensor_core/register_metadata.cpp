#include "simulator/tensor_core/register_metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/decode/instruction_table.h"
#include "simulator/tensor_core/metadata_nibble.h"

namespace jfa::simulator {

std::uint32_t RegisterMetadata::holders() const { return k / metadata_group(element_bytes(type)) / 4; }

// Threads 4 g … 4 g + 3 hold the metadata of rows g and g + 8: each thread four nibbles of either, or, of
// 8-bit elements, eight of one.
RegisterMetadata::Place RegisterMetadata::place(std::uint32_t m, std::uint32_t first) const {
  const std::uint32_t bytes = element_bytes(type), nibble = first / metadata_group(bytes), half = m / 8;
  const std::uint32_t lane = 4 * (m % 8) + holders() * selector;
  if (bytes == 1) return {lane + half + nibble / 8 * 2, nibble % 8 * 4};
  return {lane + nibble / 4, 16 * half + nibble % 4 * 4};
}

void RegisterMetadata::read(Warp& warp, std::uint32_t first_row, std::span<std::uint8_t> positions,
                            const ProgramPoint& point) const {
  const std::uint32_t* words = warp.lanes<std::uint32_t>(slot);
  const std::uint32_t group = metadata_group(element_bytes(type));
  for (std::uint32_t m = 0; m < kRows; ++m) {
    std::uint8_t* row = &positions[std::size_t{m} * stride()];
    std::fill_n(row, stride(), static_cast<std::uint8_t>(k));
    for (std::uint32_t first = 0; first < k; first += group) {
      const auto [lane, shift] = place(m, first);
      const std::uint32_t nibble = words[lane] >> shift & 0xf;
      const MetadataNibble kept = decode_metadata_nibble(nibble, group, ascending);
      if (kept.wrong != nullptr) {
        ProgramPoint at = point;
        at.lane = static_cast<int>(lane);
        fail(ErrorKind::kInvalidOperand, at,
             fmt::format("the sparse metadata of row {}, k = {} … {}, bits {} … {} of {:#010x}, is {:#x}: {}",
                         first_row + m, first, first + group - 1, shift, shift + 3, words[lane], nibble,
                         kept.wrong));
      }
      for (std::uint32_t i = 0; i < kept.count; ++i)
        *row++ = static_cast<std::uint8_t>(first + kept.positions[i]);
    }
  }
}

RegisterMetadata decode_register_metadata(Decoder& d, int index, MmaElement type, std::uint32_t k,
                                          bool ascending) {
  RegisterMetadata metadata{d.source(index, 32), type, k, 0, ascending};
  const std::int64_t selector = d.immediate(index + 1);
  const std::int64_t most = 4 / metadata.holders() - 1;
  if (selector < 0 || selector > most)
    d.fail(fmt::format("the sparsity selector is {}: with k = {} of these elements it must be 0{}", selector,
                       k, most == 0 ? "" : fmt::format(" to {}", most)));
  metadata.selector = static_cast<std::uint32_t>(selector);
  return metadata;
}

}  // namespace jfa::simulator
