#include "generator/dtype.h"

#include <algorithm>
#include <array>

namespace jfa {
namespace {

constexpr std::array<DTypeRow, 2> kTable{{
    {DType::bf16, "bf16", "bf16", kElementBytes, 1, 9},
    {DType::fp16, "fp16", "f16", kElementBytes, 0, 6},
}};
constexpr DTypeRow kUnknown{};

}  // namespace

const DTypeRow& row_of(DType dtype) {
  const auto* row = std::ranges::find(kTable, dtype, &DTypeRow::dtype);
  return row == kTable.end() ? kUnknown : *row;
}

const DTypeRow* find_dtype(std::string_view name) {
  const auto* row = std::ranges::find(kTable, name, &DTypeRow::name);
  return row == kTable.end() ? nullptr : row;
}

}  // namespace jfa
