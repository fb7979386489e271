#include "runtime/tensor_maps.h"

#include <algorithm>

#include "generator/dtype.h"

namespace jfa {
namespace {

constexpr std::uint64_t kRaggedExtent = std::uint64_t{1} << 30;  // E
constexpr std::uint64_t kWrapBytes = std::uint64_t{1} << 34;     // kWrapBytes * kRaggedExtent = 2^64

CUtensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

RaggedMap ragged_map(const Tensor& tensor, const OperandPlan& operand, int box_rows) {
  const auto element_bytes = static_cast<std::uint64_t>(row_of(tensor.dtype).bytes);
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(tensor.row_stride) * element_bytes;
  const std::uint64_t head_bytes = static_cast<std::uint64_t>(tensor.head_stride) * element_bytes;
  // No extent may be 0. An empty tensor's rows are beyond the third extent all the same.
  const std::uint64_t heads = static_cast<std::uint64_t>(std::max<std::int64_t>(tensor.heads, 1));
  return {
      {static_cast<std::uint64_t>(tensor.head_dim), heads, kRaggedExtent, kRaggedExtent, kRaggedExtent + 1},
      {head_bytes, row_bytes, row_bytes, kWrapBytes - row_bytes},
      {static_cast<std::uint32_t>(operand.box_dim), 1, static_cast<std::uint32_t>(box_rows), 1, 1},
  };
}

CUresult encode_ragged_map(const DriverTable& driver, const Tensor& tensor, const OperandPlan& operand,
                           int box_rows, std::uint64_t substitute, CUtensorMap* map) {
  static constexpr std::uint32_t kElementStrides[RaggedMap::kRank] = {1, 1, 1, 1, 1};
  const RaggedMap ragged = ragged_map(tensor, operand, box_rows);
  cuuint64_t extents[RaggedMap::kRank], strides[RaggedMap::kRank - 1];
  std::ranges::copy(ragged.extents, extents);
  std::ranges::copy(ragged.stride_bytes, strides);
  const bool empty = tensor.rows == 0 || tensor.heads == 0;
  return driver.cuTensorMapEncodeTiled(
      map, static_cast<CUtensorMapDataType>(row_of(tensor.dtype).tensor_map_format), RaggedMap::kRank,
      reinterpret_cast<void*>(empty ? substitute : tensor.address), extents, strides, ragged.box,
      kElementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(operand.swizzle_bytes),
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace jfa
