#include "simulator/register_metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/instruction_table.h"
#include "simulator/metadata_nibble.h"

namespace jfa::simulator {
namespace {

struct Place {
  std::uint32_t lane = 0, shift = 0;
};

// Where the nibble of row m and of a group along k lies. Threads 4 g … 4 g + 3 hold the metadata of rows g
// and g + 8: each thread four nibbles of either, or, of 8-bit elements, eight of one.
Place place_of(const RegisterMetadata& metadata, std::uint32_t m, std::uint32_t nibble) {
  const std::uint32_t half = m / 8, first = 4 * (m % 8) + metadata.holders() * metadata.selector;
  if (element_bytes(metadata.type) == 1) return {first + half + nibble / 8 * 2, nibble % 8 * 4};
  return {first + nibble / 4, 16 * half + nibble % 4 * 4};
}

}  // namespace

std::uint32_t RegisterMetadata::holders() const { return k / metadata_group(element_bytes(type)) / 4; }

void RegisterMetadata::read(Warp& warp, std::uint32_t first_row, std::span<std::uint8_t> positions,
                            const ProgramPoint& point) const {
  const std::uint32_t* words = warp.lanes<std::uint32_t>(slot);
  const std::uint32_t group = metadata_group(element_bytes(type));
  for (std::uint32_t m = 0; m < kRows; ++m) {
    std::uint8_t* row = &positions[std::size_t{m} * stride()];
    std::fill_n(row, stride(), static_cast<std::uint8_t>(k));
    for (std::uint32_t first = 0; first < k; first += group) {
      const Place place = place_of(*this, m, first / group);
      const std::uint32_t nibble = words[place.lane] >> place.shift & 0xf;
      const MetadataNibble kept = decode_metadata_nibble(nibble, group, ascending);
      if (kept.wrong != nullptr) {
        ProgramPoint at = point;
        at.lane = static_cast<int>(place.lane);
        fail(ErrorKind::kInvalidOperand, at,
             fmt::format("the sparse metadata of row {}, k = {} … {}, bits {} … {} of {:#010x}, is {:#x}: {}",
                         first_row + m, first, first + group - 1, place.shift, place.shift + 3,
                         words[place.lane], nibble, kept.wrong));
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
