#include "simulator/async/bulk_copy_reduction.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

// The narrow formats as numbers: float has more than twice their precision, so computing there and rounding
// once more gives the correctly rounded result.
struct Half {
  std::uint16_t bits;
  float value() const { return static_cast<float>(decode_float(bits, kFloat16)); }
  static Half round(float x) {
    return {static_cast<std::uint16_t>(encode_float(x, kFloat16, Rounding::kNearest))};
  }
};

struct Bfloat16 {
  std::uint16_t bits;
  float value() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static Bfloat16 round(float x) {
    if (std::isnan(x)) return {0x7fff};
    const auto wide = std::bit_cast<std::uint32_t>(x);
    return {static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

template <class T>
T apply_integer(ReductionOp op, T old, T value) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (op) {
    case ReductionOp::kAdd:
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
    case ReductionOp::kMin:
      return value < old ? value : old;
    case ReductionOp::kMax:
      return value > old ? value : old;
    case ReductionOp::kInc:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case ReductionOp::kDec:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case ReductionOp::kAnd:
      return old & value;
    case ReductionOp::kOr:
      return old | value;
    case ReductionOp::kXor:
      return old ^ value;
  }
  return old;
}

template <class T>
T apply_float(ReductionOp op, T old, T value) {
  if (op == ReductionOp::kAdd) return old + value;
  // A number wins over any NaN, which is not what std::fmin does with signalling ones.
  if (std::isnan(old) || std::isnan(value)) return std::isnan(old) ? value : old;
  return op == ReductionOp::kMin ? std::fmin(old, value) : std::fmax(old, value);
}

template <class T>
T apply(ReductionOp op, T old, T value) {
  if constexpr (std::is_integral_v<T>)
    return apply_integer(op, old, value);
  else if constexpr (std::is_same_v<T, float>)
    return flush(apply_float(op, flush(old), flush(value)));
  else if constexpr (std::is_same_v<T, double>)
    return apply_float(op, old, value);
  else
    return T::round(apply_float(op, old.value(), value.value()));
}

template <class T>
void reduce(ReductionOp op, std::byte* destination, const std::byte* source, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, destination + i, sizeof(T));
    std::memcpy(&value, source + i, sizeof(T));
    const T result = apply(op, old, value);
    std::memcpy(destination + i, &result, sizeof(T));
  }
}

constexpr std::pair<std::string_view, ReductionOp> kOps[] = {
    {"add", ReductionOp::kAdd}, {"min", ReductionOp::kMin}, {"max", ReductionOp::kMax},
    {"inc", ReductionOp::kInc}, {"dec", ReductionOp::kDec}, {"and", ReductionOp::kAnd},
    {"or", ReductionOp::kOr},   {"xor", ReductionOp::kXor},
};
constexpr std::pair<std::string_view, ReductionType> kTypes[] = {
    {"u32", ReductionType::kU32}, {"s32", ReductionType::kS32}, {"u64", ReductionType::kU64},
    {"s64", ReductionType::kS64}, {"f16", ReductionType::kF16}, {"bf16", ReductionType::kBf16},
    {"f32", ReductionType::kF32}, {"f64", ReductionType::kF64}, {"b32", ReductionType::kB32},
    {"b64", ReductionType::kB64},
};

}  // namespace

std::optional<ReductionOp> reduction_op(std::string_view name) {
  for (const auto& [text, op] : kOps)
    if (text == name) return op;
  return std::nullopt;
}

std::optional<ReductionType> reduction_type(std::string_view name) {
  for (const auto& [text, type] : kTypes)
    if (text == name) return type;
  return std::nullopt;
}

std::optional<ReductionType> reduction_type(const TensorMap& map, ReductionOp op) {
  const bool bits = op == ReductionOp::kAnd || op == ReductionOp::kOr || op == ReductionOp::kXor;
  switch (map.data_type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
      return bits ? ReductionType::kB32 : ReductionType::kU32;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return bits ? ReductionType::kB32 : ReductionType::kS32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return bits ? ReductionType::kB64 : ReductionType::kU64;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return bits ? ReductionType::kB64 : ReductionType::kS64;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return ReductionType::kF16;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return ReductionType::kBf16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return ReductionType::kF32;
    default:
      return std::nullopt;
  }
}

bool reduction_exists(ReductionOp op, ReductionType type) {
  using T = ReductionType;
  switch (op) {
    case ReductionOp::kAdd:
      return type == T::kU32 || type == T::kS32 || type == T::kU64 || type == T::kF16 || type == T::kBf16 ||
             type == T::kF32 || type == T::kF64;
    case ReductionOp::kMin:
    case ReductionOp::kMax:
      return type == T::kU32 || type == T::kS32 || type == T::kU64 || type == T::kS64 || type == T::kF16 ||
             type == T::kBf16;
    case ReductionOp::kInc:
    case ReductionOp::kDec:
      return type == T::kU32;
    default:
      return type == T::kB32 || type == T::kB64;
  }
}

void reduce_elements(ReductionOp op, ReductionType type, std::byte* destination, const std::byte* source,
                     std::uint32_t bytes) {
  switch (type) {
    case ReductionType::kU32:
    case ReductionType::kB32:
      return reduce<std::uint32_t>(op, destination, source, bytes);
    case ReductionType::kS32:
      return reduce<std::int32_t>(op, destination, source, bytes);
    case ReductionType::kU64:
    case ReductionType::kB64:
      return reduce<std::uint64_t>(op, destination, source, bytes);
    case ReductionType::kS64:
      return reduce<std::int64_t>(op, destination, source, bytes);
    case ReductionType::kF16:
      return reduce<Half>(op, destination, source, bytes);
    case ReductionType::kBf16:
      return reduce<Bfloat16>(op, destination, source, bytes);
    case ReductionType::kF32:
      return reduce<float>(op, destination, source, bytes);
    case ReductionType::kF64:
      return reduce<double>(op, destination, source, bytes);
  }
}

}  // namespace jfa::simulator
