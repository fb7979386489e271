// Where the operands of tensor core instructions lie in shared memory, worked out once for each descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

struct SharedOperand;

constexpr std::uint32_t kOperandChunkBytes = 16;

struct OperandLayout {
  struct Interval {
    std::uint32_t begin = 0, bytes = 0;
  };
  /// Addresses of 16-byte chunks: row after row and along K; or, if M or N is the major dimension, chunks of
  /// several rows, one for each K.
  std::vector<std::uint32_t> chunks;
  std::vector<Interval> intervals;  ///< as few as hold the chunks, in ascending order
};

/// The layouts that a running grid has used.
class OperandLayouts : public Extension {
 public:
  explicit OperandLayouts(Machine&) {}
  /// Of rows [first_row, first_row + row_count). Valid until the next call.
  const OperandLayout& of(const SharedOperand& operand, std::uint32_t first_row, std::uint32_t row_count);

 private:
  using Key = std::array<std::uint32_t, 11>;
  std::map<Key, OperandLayout> layouts_;
};

}  // namespace jfa::simulator
