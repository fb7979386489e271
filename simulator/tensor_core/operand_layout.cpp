#include "simulator/tensor_core/operand_layout.h"

#include <algorithm>

#include "simulator/tensor_core/shared_operand.h"

namespace jfa::simulator {
namespace {

constexpr std::size_t kMostLayouts = 4096;  // more than kernels have stages, steps and operands

OperandLayout lay_out(const SharedOperand& operand, std::uint32_t first_row, std::uint32_t row_count) {
  constexpr std::uint32_t kGapBytes = 256;  // pieces closer than two swizzled rows are one interval
  OperandLayout layout;
  const bool k_major = operand.major == MatrixMajor::kK;
  const std::uint32_t bytes = operand.bytes_per_element;
  const std::uint32_t mn_step = k_major ? 1 : kOperandChunkBytes / bytes;
  const std::uint32_t k_step = k_major ? kOperandChunkBytes / bytes : 1;
  for (std::uint32_t mn = first_row; mn < first_row + row_count; mn += mn_step)
    for (std::uint32_t k = 0; k < operand.row_bytes / bytes; k += k_step)
      layout.chunks.push_back(chunk_address(operand.descriptor, operand.major, mn, k, bytes));

  std::vector<std::uint32_t> sorted = layout.chunks;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] <= sorted[end - 1] + kGapBytes) ++end;
    layout.intervals.push_back({sorted[i], sorted[end - 1] + kOperandChunkBytes - sorted[i]});
    i = end;
  }
  return layout;
}

}  // namespace

const OperandLayout& OperandLayouts::of(const SharedOperand& operand, std::uint32_t first_row,
                                        std::uint32_t row_count) {
  const MatrixDescriptor& d = operand.descriptor;
  const Key key{d.start_address,
                d.leading_byte_offset,
                d.stride_byte_offset,
                d.base_offset,
                d.swizzle_bytes,
                d.swizzle_atom_bytes,
                static_cast<std::uint32_t>(operand.major),
                operand.bytes_per_element,
                operand.row_bytes,
                first_row,
                row_count};
  const auto found = layouts_.find(key);
  if (found != layouts_.end()) return found->second;
  if (layouts_.size() >= kMostLayouts) layouts_.clear();
  return layouts_.emplace(key, lay_out(operand, first_row, row_count)).first->second;
}

}  // namespace jfa::simulator
