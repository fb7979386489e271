// What lies in the 128 bytes of a simulated tensor map: private to the files that make, change and decode
// maps. Every field has one fixed place, so that a copied map decodes anywhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>

#include "simulator/async/tensor_map.h"

namespace jfa::simulator {

/// A map that cuTensorMapEncodeTiled made, or one under construction: `fields` says which fields have values.
struct TensorMapRecord {
  static constexpr std::uint64_t kMagic = 0x50414d5352544d53;

  std::uint64_t magic;
  std::uint64_t fields;  // a bit for each, see bit()
  std::uint64_t global_address;
  std::uint64_t stride_bytes[kMaxTensorRank - 1];
  std::uint64_t dim[kMaxTensorRank];
  std::uint16_t box[kMaxTensorRank];
  std::uint8_t element_stride[kMaxTensorRank];
  std::uint8_t rank_minus_1;
  std::uint8_t data_type;  // CUtensorMapDataType
  std::uint8_t interleave;
  std::uint8_t swizzle_mode;  // this and the next as tensormap.replace numbers them
  std::uint8_t swizzle_atomicity;
  std::uint8_t fill_mode;
  std::uint8_t changed;  // by the device
  std::uint8_t unused[2];
  std::uint64_t checksum;  // of everything before it

  static constexpr std::uint64_t bit(TensorMapField field, std::uint32_t ordinal = 0) {
    return std::uint64_t{1} << (static_cast<std::uint32_t>(field) * kMaxTensorRank + ordinal);
  }
  std::uint64_t computed_checksum() const {
    std::uint64_t words[kTensorMapBytes / 8];
    std::memcpy(words, this, sizeof(words));
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::size_t i = 0; i + 1 < std::size(words); ++i) {
      hash = (hash ^ words[i]) * 0x100000001b3;
      hash ^= hash >> 32;
    }
    return hash;
  }
};
static_assert(sizeof(TensorMapRecord) == kTensorMapBytes);
static_assert(sizeof(CUtensorMap) == kTensorMapBytes);

}  // namespace jfa::simulator
