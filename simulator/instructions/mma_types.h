// The types of matrix products as PTX writes them.
#pragma once

#include <string_view>

#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::simulator {

/// "f16", "bf16", "tf32", "e4m3", "e5m2", "u8" or "s8".
constexpr MmaElement mma_element(std::string_view type) {
  if (type == "bf16") return MmaElement::kBF16;
  if (type == "tf32") return MmaElement::kTF32;
  if (type == "e4m3") return MmaElement::kE4M3;
  if (type == "e5m2") return MmaElement::kE5M2;
  if (type == "u8") return MmaElement::kU8;
  if (type == "s8") return MmaElement::kS8;
  return MmaElement::kF16;
}

/// "f16", "f32" or "s32".
constexpr MmaAccumulator mma_accumulator(std::string_view type) {
  if (type == "f32") return MmaAccumulator::kF32;
  if (type == "s32") return MmaAccumulator::kS32;
  return MmaAccumulator::kF16;
}

}  // namespace jfa::simulator
