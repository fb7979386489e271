#include "simulator/checkers/loaded_registers.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa::simulator {

void LoadedRegisters::access(const Indices& registers, const ProgramPoint& point) const {
  if (loads_.empty()) return;
  for (const std::uint16_t index : registers)
    if (loading_[index] != 0)
      fail(ErrorKind::kInFlight, point,
           fmt::format("the instruction uses register {}, a destination of tcgen05.ld that no "
                       "tcgen05.wait::ld has followed",
                       watch_.names[index]),
           fmt::format("it is loaded by {}", loads_[loading_[index] - 1].describe()));
}

void LoadedRegisters::load(const Indices& registers, const ProgramPoint& point) {
  loads_.push_back(point);
  for (const std::uint16_t index : registers) loading_[index] = static_cast<std::uint32_t>(loads_.size());
}

void LoadedRegisters::release() {
  if (loads_.empty()) return;
  std::fill(loading_.begin(), loading_.end(), 0);
  loads_.clear();
}

}  // namespace jfa::simulator
