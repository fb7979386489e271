// Tensor maps of the simulated device. CUtensorMap is opaque, so the 128 bytes hold a private record
// (tensor_map_record.h) that encode_tiled_tensor_map makes, replace_tensor_map_field makes or changes, and
// decode_tensor_map reads; anything else in those bytes is an error.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace jfa::simulator {

constexpr uint32_t kTensorMapBytes = 128;
constexpr uint32_t kMaxTensorRank = 5;
constexpr uint32_t kMaxTensorBox = 256;
constexpr uint32_t kMaxElementStride = 8;

/// A decoded tensor map. Dimension 0 is the contiguous one; entries at and beyond `rank` have extent, box and
/// element stride 1, so that code may always loop over five dimensions.
struct TensorMap {
  uint64_t global_address = 0;
  std::array<uint64_t, kMaxTensorRank> dim{1, 1, 1, 1, 1};  // elements
  std::array<uint64_t, kMaxTensorRank> stride_bytes{};      // [0] is the element size, in whole bytes
  std::array<uint32_t, kMaxTensorRank> box{1, 1, 1, 1, 1};  // elements of the tensor a box spans
  std::array<uint32_t, kMaxTensorRank> element_stride{1, 1, 1, 1, 1};  // [0] is always 1
  uint32_t rank = 1;
  uint32_t element_bits = 8;  // in global memory
  bool padded = false;        // each 16 elements, of 4 or 6 bits, begin 16 bytes of shared memory
  CUtensorMapDataType data_type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;

  /// Elements of a box along one dimension: every element_stride-th of the elements it spans.
  uint32_t box_elements(uint32_t dimension) const {
    return (box[dimension] + element_stride[dimension] - 1) / element_stride[dimension];
  }
  /// Bytes of global memory that elements of a row take: the numbers of elements are such that they do.
  int64_t row_bytes(int64_t elements) const { return elements * element_bits / 8; }
  /// Bytes of shared memory from a row's first element to the end of its last.
  uint32_t box_row_bytes() const { return padded ? box[0] : static_cast<uint32_t>(row_bytes(box[0])); }
  uint32_t box_rows() const { return box_elements(1) * box_elements(2) * box_elements(3) * box_elements(4); }
  /// The bytes a load reports to its mbarrier, also for boxes partly or wholly outside the tensor: those of
  /// global memory, without padding.
  uint32_t box_bytes() const { return static_cast<uint32_t>(row_bytes(box[0])) * box_rows(); }
  /// Distance between rows in shared memory: the swizzle width where there is one, even if the row is
  /// shorter.
  uint32_t shared_pitch_bytes() const;
  /// The bytes of shared memory from the box's address to the end of its last row.
  uint32_t shared_bytes() const { return shared_pitch_bytes() * (box_rows() - 1) + swizzled_row_bytes(); }
  /// A swizzle permutes 16-byte chunks over its whole width, so a short row may touch all of it.
  uint32_t swizzled_row_bytes() const {
    return swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? box_row_bytes() : shared_pitch_bytes();
  }
};

/// cuTensorMapEncodeTiled with its documented constraints. On failure returns the driver's code
/// (CUDA_ERROR_INVALID_VALUE, or CUDA_ERROR_NOT_SUPPORTED for what the simulator does not model: interleaved
/// layouts, NaN fill, flushing and TF32 types, the swizzle that flips halves of chunks) and puts the
/// argument, its value and the rule into `reason`, which may be null.
CUresult encode_tiled_tensor_map(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank,
                                 void* global_address, const cuuint64_t* global_dim,
                                 const cuuint64_t* global_strides, const cuuint32_t* box_dim,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                 CUtensorMapFloatOOBfill oob_fill, std::string* reason);

/// Reads the 128 bytes of a map. Returns what is wrong with them, empty if nothing: also a field that a map
/// made on the device still lacks, or values that the encoder would not have taken.
std::string decode_tensor_map(const void* bytes, TensorMap* map);

/// Whether the bytes are a map, perhaps an unfinished one: what is wrong with them, empty if nothing.
std::string check_tensor_map_bytes(const void* bytes);

/// What tensormap.replace can change.
enum class TensorMapField : uint8_t {
  kGlobalAddress,
  kRank,  // less 1
  kBoxDim,
  kGlobalDim,
  kGlobalStride,  // bytes; ordinal 0 is dimension 1's
  kElementStride,
  kElementType,  // numbered otherwise than CUtensorMapDataType
  kInterleaveLayout,
  kSwizzleMode,
  kSwizzleAtomicity,
  kFillMode,
};

/// As PTX spells it: "global_address".
std::string_view name_of(TensorMapField field);
/// How many ordinals a field has; 0: it takes none.
uint32_t ordinals_of(TensorMapField field);

/// tensormap.replace of a map, or of 128 zero bytes, which become one. `ordinal`: 0 if the field takes none.
/// Returns why not, empty if it is done: a value that the field cannot hold, bytes that are no map. Whether
/// the fields go together is for decode_tensor_map.
std::string replace_tensor_map_field(void* bytes, TensorMapField field, uint32_t ordinal, uint64_t value);

/// The permutation of shared addresses: atoms of 16 bytes (or 32, or 64) within 256, 512 or 1024 bytes, by
/// absolute address.
uint32_t swizzle_shared_address(CUtensorMapSwizzle swizzle, uint32_t address);

}  // namespace jfa::simulator
