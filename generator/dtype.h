// The table of element types of the tensors. A type is one row here and its conversion in
// templates/attention/element.cuh.
#pragma once

#include <cstdint>
#include <string_view>

#include "jfa/attention.h"

namespace jfa {

/// Of every type there is: what the rules of strides and alignment count with.
inline constexpr std::int64_t kElementBytes = 2;

struct DTypeRow {
  DType dtype = {};
  std::string_view name;
  std::string_view ptx;       // its name in PTX instructions
  int bytes = kElementBytes;  // of an element
  int tcgen05_format = 0;     // in the instruction descriptors of tcgen05.mma
  int tensor_map_format = 0;  // CUtensorMapDataType
};

/// An empty name: no such type.
const DTypeRow& row_of(DType dtype);
/// nullptr if no type has that name.
const DTypeRow* find_dtype(std::string_view name);

}  // namespace jfa
