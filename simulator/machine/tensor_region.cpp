#include "simulator/machine/tensor_region.h"

#include <fmt/format.h>

namespace jfa::simulator {

std::string TensorRegion::describe() const {
  std::string lanes;
  for (std::uint32_t block = 0; block < kTensorBlocks;) {
    if ((blocks >> block & 1) == 0) {
      ++block;
      continue;
    }
    std::uint32_t end = block;
    while (end < kTensorBlocks && (blocks >> end & 1) != 0) ++end;
    lanes += fmt::format("{}{}..{}", lanes.empty() ? "" : ",", block * kTensorBlockLanes,
                         end * kTensorBlockLanes - 1);
    block = end;
  }
  return fmt::format("lanes {}, columns {}..{}", lanes, first_column, end_column - 1);
}

}  // namespace jfa::simulator
