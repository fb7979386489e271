#include "simulator/async/tensor_map.h"

#include <fmt/format.h>

#include "simulator/async/tensor_map_record.h"

namespace jfa::simulator {
namespace {

constexpr uint32_t kAlignmentBytes = 16;
constexpr uint32_t kMapAlignmentBytes = 64;
constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint64_t kMaxStrideBytes = uint64_t{1} << 40;
constexpr uint32_t kPaddedElements = 128;  // of a row of a padded type

// Bits of an element; 0 for a type outside the enumeration.
uint32_t element_bits(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 64;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
      return 6;
    default:
      return 0;
  }
}

bool is_padded(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

bool is_float(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ||
         (type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT32 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
}

uint32_t swizzle_width(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B:
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B:
      return 128;
    default:
      return 0;
  }
}

// Of cuTensorMapEncodeTiled, or of a record that claims to be its work.
struct Arguments {
  CUtensorMapDataType data_type;
  cuuint32_t rank;
  uint64_t global_address;
  const cuuint64_t* global_dim;
  const cuuint64_t* global_strides;
  const cuuint32_t* box_dim;
  const cuuint32_t* element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion l2_promotion;
  CUtensorMapFloatOOBfill oob_fill;
};

uint32_t global_alignment(const Arguments& a) {
  return a.interleave == CU_TENSOR_MAP_INTERLEAVE_32B || is_padded(a.data_type) ? 32 : kAlignmentBytes;
}

// Why the driver would refuse; empty if it would not.
std::string invalid_scalar(const Arguments& a) {
  if (a.data_type < 0 || a.data_type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B)
    return fmt::format("tensorDataType = {} is not a CUtensorMapDataType", int(a.data_type));
  if (a.rank < 1 || a.rank > kMaxTensorRank) return fmt::format("tensorRank = {} is not in 1..5", a.rank);
  if (a.interleave < 0 || a.interleave > CU_TENSOR_MAP_INTERLEAVE_32B)
    return fmt::format("interleave = {} is not a CUtensorMapInterleave", int(a.interleave));
  if (a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && a.rank < 3)
    return fmt::format("tensorRank = {} with an interleaved layout, which needs at least 3", a.rank);
  if (a.swizzle < 0 || a.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B)
    return fmt::format("swizzle = {} is not a CUtensorMapSwizzle", int(a.swizzle));
  if (a.interleave == CU_TENSOR_MAP_INTERLEAVE_32B && a.swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
    return fmt::format("swizzle = {} with INTERLEAVE_32B, which needs SWIZZLE_32B", int(a.swizzle));
  if (a.l2_promotion < 0 || a.l2_promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
    return fmt::format("l2Promotion = {} is not a CUtensorMapL2promotion", int(a.l2_promotion));
  if (a.oob_fill < 0 || a.oob_fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return fmt::format("oobFill = {} is not a CUtensorMapFloatOOBfill", int(a.oob_fill));
  if (a.oob_fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(a.data_type))
    return fmt::format("oobFill = {} asks for NaN with tensorDataType = {}, which is not a float type",
                       int(a.oob_fill), int(a.data_type));
  const uint32_t alignment = global_alignment(a);
  if (a.global_address % alignment != 0)
    return fmt::format("globalAddress = {:#x} is not {}-byte aligned", a.global_address, alignment);
  if (!a.global_dim || !a.box_dim || !a.element_strides || (a.rank > 1 && !a.global_strides))
    return "globalDim, globalStrides, boxDim or elementStrides is null";
  return {};
}

std::string invalid_array(const Arguments& a) {
  const uint32_t alignment = global_alignment(a);
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (a.global_dim[i] < 1 || a.global_dim[i] > kMaxDim)
      return fmt::format("globalDim[{}] = {} is not in 1..2^32", i, a.global_dim[i]);
    if (a.box_dim[i] < 1 || a.box_dim[i] > kMaxTensorBox)
      return fmt::format("boxDim[{}] = {} is not in 1..256", i, a.box_dim[i]);
    const bool stride_used = i > 0 || a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
    if (stride_used && (a.element_strides[i] < 1 || a.element_strides[i] > kMaxElementStride))
      return fmt::format("elementStrides[{}] = {} is not in 1..8", i, a.element_strides[i]);
  }
  for (uint32_t i = 0; i + 1 < a.rank; ++i) {
    if (a.global_strides[i] % alignment != 0)
      return fmt::format("globalStrides[{}] = {} is not a multiple of {}", i, a.global_strides[i], alignment);
    if (a.global_strides[i] >= kMaxStrideBytes)
      return fmt::format("globalStrides[{}] = {} is not below 2^40", i, a.global_strides[i]);
  }
  if (a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return {};
  if (const uint32_t bits = element_bits(a.data_type)) {
    const bool padded = is_padded(a.data_type);
    if (padded && (a.box_dim[0] != kPaddedElements || a.global_dim[0] % kPaddedElements != 0))
      return fmt::format(
          "boxDim[0] = {} and globalDim[0] = {} of a padded type: they must be 128 and a multiple of 128",
          a.box_dim[0], a.global_dim[0]);
    if (bits == 4 && a.global_dim[0] % 2 != 0)
      return fmt::format("globalDim[0] = {} of 4-bit elements is odd", a.global_dim[0]);
    const uint32_t row_bits = a.box_dim[0] * (padded ? 8 : bits);
    if (row_bits % (8 * kAlignmentBytes) != 0)
      return fmt::format("boxDim[0] = {} elements are {} bytes, not a multiple of 16", a.box_dim[0],
                         row_bits / 8.0);
    const uint32_t width = swizzle_width(a.swizzle);
    if (width != 0 && row_bits > 8 * width)
      return fmt::format("boxDim[0] = {} elements are {} bytes, more than the swizzle's {}", a.box_dim[0],
                         row_bits / 8, width);
  }
  return {};
}

// What a real device may accept and the simulator does not model.
std::string unsupported(const Arguments& a) {
  if (a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return fmt::format("interleave = {}: interleaved layouts are not simulated", int(a.interleave));
  if (a.swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B)
    return fmt::format("swizzle = {}: flipped halves of chunks are not simulated", int(a.swizzle));
  if (a.oob_fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return fmt::format("oobFill = {}: NaN fill is not simulated", int(a.oob_fill));
  if (a.data_type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ &&
      a.data_type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ)
    return fmt::format("tensorDataType = {}: flushing and TF32 types are not simulated", int(a.data_type));
  return {};
}

// Why the encoder refuses, with the code it gives; empty if it does not.
std::string refusal(const Arguments& arguments, CUresult* result) {
  *result = CUDA_ERROR_INVALID_VALUE;
  std::string why = invalid_scalar(arguments);
  if (why.empty()) why = invalid_array(arguments);
  if (!why.empty()) return why;
  *result = CUDA_ERROR_NOT_SUPPORTED;
  return unsupported(arguments);
}

// --- What tensormap.replace tells apart and the encoder does not.

struct SwizzleOfReplace {
  uint8_t mode, atomicity;
  CUtensorMapSwizzle swizzle;
};
constexpr SwizzleOfReplace kSwizzles[] = {
    {0, 0, CU_TENSOR_MAP_SWIZZLE_NONE},          {1, 0, CU_TENSOR_MAP_SWIZZLE_32B},
    {2, 0, CU_TENSOR_MAP_SWIZZLE_64B},           {3, 0, CU_TENSOR_MAP_SWIZZLE_128B},
    {3, 1, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B}, {3, 2, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B},
    {3, 3, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B}};

const SwizzleOfReplace* find_swizzle(const TensorMapRecord& record) {
  for (const SwizzleOfReplace& s : kSwizzles)
    if (s.mode == record.swizzle_mode && s.atomicity == record.swizzle_atomicity) return &s;
  return nullptr;
}

// Fields that compilers leave at 0 when they make a map of zero bytes: no interleaving, zeros outside.
bool may_stay_zero(TensorMapField field) {
  return field == TensorMapField::kInterleaveLayout || field == TensorMapField::kSwizzleAtomicity ||
         field == TensorMapField::kFillMode;
}

// The first field that a map of this rank needs and nothing has set; empty if there is none.
std::string missing_field(const TensorMapRecord& record) {
  for (int i = 0; i <= static_cast<int>(TensorMapField::kFillMode); ++i) {
    const auto field = static_cast<TensorMapField>(i);
    if (may_stay_zero(field)) continue;
    const uint32_t dimensions = record.rank_minus_1 + (field == TensorMapField::kGlobalStride ? 0u : 1u);
    const uint32_t count = ordinals_of(field) == 0 ? 1 : dimensions;
    for (uint32_t ordinal = 0; ordinal < count; ++ordinal)
      if ((record.fields & TensorMapRecord::bit(field, ordinal)) == 0)
        return ordinals_of(field) == 0 ? std::string(name_of(field))
                                       : fmt::format("{}[{}]", name_of(field), ordinal);
  }
  return {};
}

// What the encoder would have said to the values that the device has put together.
std::string check_changed(const TensorMapRecord& record) {
  if (const std::string field = missing_field(record); !field.empty())
    return fmt::format("the tensor map is incomplete: nothing has set its {}", field);
  const SwizzleOfReplace* swizzle = find_swizzle(record);
  if (swizzle == nullptr)
    return fmt::format("swizzle_mode = {} with swizzle_atomicity = {} is not simulated", record.swizzle_mode,
                       record.swizzle_atomicity);
  cuuint64_t dim[kMaxTensorRank], stride_bytes[kMaxTensorRank - 1];
  cuuint32_t box[kMaxTensorRank], element_stride[kMaxTensorRank];
  std::copy(std::begin(record.dim), std::end(record.dim), dim);
  std::copy(std::begin(record.stride_bytes), std::end(record.stride_bytes), stride_bytes);
  std::copy(std::begin(record.box), std::end(record.box), box);
  std::copy(std::begin(record.element_stride), std::end(record.element_stride), element_stride);
  const Arguments arguments{static_cast<CUtensorMapDataType>(record.data_type),
                            record.rank_minus_1 + 1u,
                            record.global_address,
                            dim,
                            stride_bytes,
                            box,
                            element_stride,
                            static_cast<CUtensorMapInterleave>(record.interleave),
                            swizzle->swizzle,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE,  // which tensormap.replace cannot change
                            static_cast<CUtensorMapFloatOOBfill>(record.fill_mode)};
  CUresult ignored;
  return refusal(arguments, &ignored);
}

}  // namespace

uint32_t TensorMap::shared_pitch_bytes() const {
  const uint32_t width = swizzle_width(swizzle);
  return width ? width : box_row_bytes();
}

CUresult encode_tiled_tensor_map(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank,
                                 void* global_address, const cuuint64_t* global_dim,
                                 const cuuint64_t* global_strides, const cuuint32_t* box_dim,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                 CUtensorMapFloatOOBfill oob_fill, std::string* reason) {
  const Arguments arguments{data_type,       rank,           reinterpret_cast<uint64_t>(global_address),
                            global_dim,      global_strides, box_dim,
                            element_strides, interleave,     swizzle,
                            l2_promotion,    oob_fill};
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  std::string why;
  if (!map)
    why = "tensorMap is null";
  else if (reinterpret_cast<uintptr_t>(map) % kMapAlignmentBytes != 0)
    why = fmt::format("tensorMap at {} is not 64-byte aligned", fmt::ptr(map));
  else
    why = refusal(arguments, &result);
  if (!why.empty()) {
    if (reason) *reason = std::move(why);
    return result;
  }

  TensorMapRecord record{};
  record.magic = TensorMapRecord::kMagic;
  record.global_address = arguments.global_address;
  for (int i = 0; i <= static_cast<int>(TensorMapField::kFillMode); ++i)
    record.fields |= TensorMapRecord::bit(static_cast<TensorMapField>(i));
  for (uint32_t i = 0; i < kMaxTensorRank; ++i) {
    record.dim[i] = i < rank ? global_dim[i] : 1;
    record.box[i] = i < rank ? static_cast<uint16_t>(box_dim[i]) : 1;
    record.element_stride[i] = i > 0 && i < rank ? static_cast<uint8_t>(element_strides[i]) : 1;
    if (i + 1 < rank) record.stride_bytes[i] = global_strides[i];
    if (i >= rank) continue;
    for (const TensorMapField field :
         {TensorMapField::kGlobalDim, TensorMapField::kBoxDim, TensorMapField::kElementStride})
      record.fields |= TensorMapRecord::bit(field, i);
    if (i + 1 < rank) record.fields |= TensorMapRecord::bit(TensorMapField::kGlobalStride, i);
  }
  record.rank_minus_1 = static_cast<uint8_t>(rank - 1);
  record.data_type = static_cast<uint8_t>(data_type);
  record.interleave = static_cast<uint8_t>(interleave);
  for (const SwizzleOfReplace& s : kSwizzles)
    if (s.swizzle == swizzle) record.swizzle_mode = s.mode, record.swizzle_atomicity = s.atomicity;
  record.fill_mode = static_cast<uint8_t>(oob_fill);
  record.checksum = record.computed_checksum();
  std::memcpy(map, &record, sizeof(record));
  return CUDA_SUCCESS;
}

std::string check_tensor_map_bytes(const void* bytes) {
  TensorMapRecord record;
  std::memcpy(&record, bytes, sizeof(record));
  if (record.magic != TensorMapRecord::kMagic)
    return "these bytes are not a tensor map made by cuTensorMapEncodeTiled or tensormap.replace";
  if (record.checksum != record.computed_checksum())
    return "the tensor map was changed by something else than tensormap.replace";
  return {};
}

std::string decode_tensor_map(const void* bytes, TensorMap* map) {
  if (std::string wrong = check_tensor_map_bytes(bytes); !wrong.empty()) return wrong;
  TensorMapRecord record;
  std::memcpy(&record, bytes, sizeof(record));
  if (record.changed != 0)
    if (std::string wrong = check_changed(record); !wrong.empty()) return wrong;
  map->global_address = record.global_address;
  map->rank = record.rank_minus_1 + 1u;
  map->data_type = static_cast<CUtensorMapDataType>(record.data_type);
  map->element_bits = element_bits(map->data_type);
  map->padded = is_padded(map->data_type);
  map->swizzle = find_swizzle(record)->swizzle;
  for (uint32_t i = 0; i < kMaxTensorRank; ++i) {
    const bool used = i < map->rank;  // others may be left over from a map of a higher rank
    map->dim[i] = used ? record.dim[i] : 1;
    map->box[i] = used ? record.box[i] : 1;
    map->element_stride[i] = used && i > 0 ? record.element_stride[i] : 1;
    map->stride_bytes[i] = i == 0 ? map->element_bits / 8 : used ? record.stride_bytes[i - 1] : 0;
  }
  return {};
}

uint32_t swizzle_shared_address(CUtensorMapSwizzle swizzle, uint32_t address) {
  const uint32_t width = swizzle_width(swizzle);
  const uint32_t atom = swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B   ? 32
                        : swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ? 64
                                                                         : 16;
  const uint32_t mask = width / atom ? width / atom - 1 : 0;  // which row bits enter the atom's index
  return address ^ ((address >> 7) & mask) * atom;
}

}  // namespace jfa::simulator
