// The element updates of cp.reduce.async.bulk, with and without a tensor map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/async/tensor_map.h"

namespace jfa::simulator {

enum class ReductionOp : std::uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };
enum class ReductionType : std::uint8_t { kU32, kS32, kU64, kS64, kF16, kBf16, kF32, kF64, kB32, kB64 };

/// By their PTX names; empty for what is none of them.
std::optional<ReductionOp> reduction_op(std::string_view name);
std::optional<ReductionType> reduction_type(std::string_view name);
/// The type a tensor map's elements are reduced as: bit operations take 4- and 8-byte integers as bits.
std::optional<ReductionType> reduction_type(const TensorMap& map, ReductionOp op);

/// Whether PTX has this combination.
bool reduction_exists(ReductionOp op, ReductionType type);

/// destination[i] = op(destination[i], source[i]) for whole elements. Additions round to nearest even; f32
/// flushes subnormals, f16, bf16 and f64 keep them. A NaN loses against a number in min and max.
void reduce_elements(ReductionOp op, ReductionType type, std::byte* destination, const std::byte* source,
                     std::uint32_t bytes);

}  // namespace jfa::simulator
