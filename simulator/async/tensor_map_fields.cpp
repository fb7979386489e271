// tensormap.replace on the record of a tensor map.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/async/tensor_map_record.h"

namespace jfa::simulator {
namespace {

constexpr CUtensorMapDataType kElementTypes[] = {
    CU_TENSOR_MAP_DATA_TYPE_UINT8,         CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT32,        CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64,        CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,       CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,   CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,      CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,  CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B};

struct Field {
  std::string_view name;
  std::uint64_t least, most;  // of its values; what a whole map must obey besides is for the copy to check
  std::uint32_t ordinals;     // 0: it takes none
};

const Field& field_of(TensorMapField field) {
  constexpr std::uint64_t kAny = ~std::uint64_t{0};
  static constexpr Field kFields[] = {
      {"global_address", 0, kAny, 0},
      {"rank", 0, kMaxTensorRank - 1, 0},
      {"box_dim", 1, kMaxTensorBox, kMaxTensorRank},
      {"global_dim", 0, kAny, kMaxTensorRank},
      {"global_stride", 0, kAny, kMaxTensorRank - 1},
      {"element_stride", 1, kMaxElementStride, kMaxTensorRank},
      {"elemtype", 0, std::size(kElementTypes) - 1, 0},
      {"interleave_layout", 0, 2, 0},
      {"swizzle_mode", 0, 4, 0},
      {"swizzle_atomicity", 0, 3, 0},
      {"fill_mode", 0, 1, 0},
  };
  return kFields[static_cast<std::size_t>(field)];
}

bool all_zero(const TensorMapRecord& record) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&record);
  return std::all_of(bytes, bytes + sizeof(record), [](unsigned char byte) { return byte == 0; });
}

void set(TensorMapRecord& record, TensorMapField field, std::uint32_t ordinal, std::uint64_t value) {
  const auto small = static_cast<std::uint8_t>(value);
  switch (field) {
    case TensorMapField::kGlobalAddress:
      record.global_address = value;
      break;
    case TensorMapField::kRank:
      record.rank_minus_1 = small;
      break;
    case TensorMapField::kBoxDim:
      record.box[ordinal] = static_cast<std::uint16_t>(value);
      break;
    case TensorMapField::kGlobalDim:
      record.dim[ordinal] = value;
      break;
    case TensorMapField::kGlobalStride:
      record.stride_bytes[ordinal] = value;
      break;
    case TensorMapField::kElementStride:
      record.element_stride[ordinal] = small;
      break;
    case TensorMapField::kElementType:
      record.data_type = static_cast<std::uint8_t>(kElementTypes[value]);
      break;
    case TensorMapField::kInterleaveLayout:
      record.interleave = small;
      break;
    case TensorMapField::kSwizzleMode:
      record.swizzle_mode = small;
      break;
    case TensorMapField::kSwizzleAtomicity:
      record.swizzle_atomicity = small;
      break;
    case TensorMapField::kFillMode:
      record.fill_mode = small;
      break;
  }
}

}  // namespace

std::string_view name_of(TensorMapField field) { return field_of(field).name; }

std::uint32_t ordinals_of(TensorMapField field) { return field_of(field).ordinals; }

std::string replace_tensor_map_field(void* bytes, TensorMapField field, std::uint32_t ordinal,
                                     std::uint64_t value) {
  const Field& f = field_of(field);
  if (value < f.least || value > f.most)
    return f.ordinals == 0
               ? fmt::format("{} = {} is not in {}..{}", f.name, value, f.least, f.most)
               : fmt::format("{}[{}] = {} is not in {}..{}", f.name, ordinal, value, f.least, f.most);
  TensorMapRecord record;
  std::memcpy(&record, bytes, sizeof(record));
  if (all_zero(record))
    record.magic = TensorMapRecord::kMagic;
  else if (const std::string wrong = check_tensor_map_bytes(bytes); !wrong.empty())
    return wrong;
  set(record, field, ordinal, value);
  record.fields |= TensorMapRecord::bit(field, ordinal);
  record.changed = 1;
  record.checksum = record.computed_checksum();
  std::memcpy(bytes, &record, sizeof(record));
  return {};
}

}  // namespace jfa::simulator
