// What the translation units mma_kernel*.cpp compile, each for another kind of CPU. Everything is local to
// them: no inline function of one may stand in for that of another.
#pragma once

#include <cstdint>
#include <cstring>

#include "simulator/tensor_core/mma_kernel.h"

namespace jfa::simulator {
namespace {

/// The compiler's vectors: kLanes numbers of 32 bits and what fills the same bytes, or half of them.
template <int kLanes>
struct Vectors {
  typedef float Floats __attribute__((vector_size(4 * kLanes)));
  typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes)));
  typedef std::uint32_t UnsignedInts __attribute__((vector_size(4 * kLanes)));
  typedef std::int16_t Shorts __attribute__((vector_size(4 * kLanes)));
  typedef std::int64_t Longs __attribute__((vector_size(4 * kLanes)));
  typedef double Doubles __attribute__((vector_size(4 * kLanes)));
  typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));
  typedef std::int32_t HalfInts __attribute__((vector_size(2 * kLanes)));
  typedef std::int16_t HalfShorts __attribute__((vector_size(2 * kLanes)));
};

template <class Vector>
inline Vector load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class Vector>
inline void store(void* to, const Vector& vector) {
  std::memcpy(to, &vector, sizeof vector);
}

template <class Half, class Whole>
inline Half half_of(const Whole& whole, int which) {
  return load<Half>(reinterpret_cast<const char*>(&whole) + which * sizeof(Half));
}

// Between these largest exponents, single-precision arithmetic gives the exact aligned terms. Below every
// real exponent all terms are zero, and so is the sum.
constexpr std::int16_t kFastExponentMin = -60;
constexpr std::int16_t kFastExponentMax = 120;
constexpr std::int16_t kNoExponent = -1000;

constexpr int kGroup = 8;  // terms that fit an int32 together, and an accumulator

/// An aligned term is trunc(product * 2^(aligned bits - largest exponent)), an integer below 2^27 in
/// magnitude. Both operands have at most 11 significant bits, so the product is exact in f32; scaling by a
/// power of two is exact, or the term is 0 anyway; and conversion to int truncates toward zero: four
/// operations a term.
template <int kLanes, int kElements>
bool mma_row(const MmaRow& row, int columns, std::uint32_t* d, std::int32_t* left) {
  using V = Vectors<kLanes>;
  using Ints = typename V::Ints;
  using UnsignedInts = typename V::UnsignedInts;
  using Floats = typename V::Floats;
  using Shorts = typename V::Shorts;
  using Doubles = typename V::Doubles;
  using Longs = typename V::Longs;
  using HalfInts = typename V::HalfInts;
  constexpr int kGroups = kElements / kGroup;
  const std::int64_t dropped_bits = (std::int64_t{1} << (52 - row.result_bits)) - 1;

  Ints any_left = {};
  for (int first = 0; first < columns; first += 2 * kLanes) {
    Shorts largest_product = Shorts{} + kZeroExponent;
#pragma GCC unroll 32
    for (int k = 0; k < kElements; ++k) {
      const Shorts exponent = load<Shorts>(row.b_exponent + k * row.stride + first) + row.a_exponent[k];
      largest_product = largest_product > exponent ? largest_product : exponent;
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int at = first + half * kLanes;
      const Ints old = load<Ints>(d + at);
      // The accumulator's exponent; subnormals count as -126, infinities and NaN as 128.
      Ints largest = (old >> 23) & 0xff;
      largest = (largest > 1 ? largest : 1) - 127;
      largest = (old & 0x7fffffff) == 0 ? Ints{} + kZeroExponent : largest;
      const Ints product =
          __builtin_convertvector(half_of<typename V::HalfShorts>(largest_product, half), Ints);
      largest = largest > product ? largest : product;

      const Ints slow =
          ((largest < kFastExponentMin) & (largest > kNoExponent)) | (largest > kFastExponentMax);
      any_left |= slow;
      store(left + at, slow);
      largest = largest > kFastExponentMin ? largest : Ints{} + kFastExponentMin;
      largest = largest < kFastExponentMax ? largest : Ints{} + kFastExponentMax;

      const Floats scale = (Floats)((row.aligned_bits + 127 - largest) << 23);
      UnsignedInts sum[kGroups] = {};  // of ints: what slow lanes have in them may overflow
      sum[0] = (UnsignedInts) __builtin_convertvector((Floats)old * scale, Ints);
#pragma GCC unroll 8
      for (int k = 0; k < kGroup; ++k) {
#pragma GCC unroll 4
        for (int group = 0; group < kGroups; ++group) {
          const int element = group * kGroup + k;
          const Floats b = load<Floats>(row.b_value + element * row.stride + at);
          sum[group] += (UnsignedInts) __builtin_convertvector(row.a_value[element] * b * scale, Ints);
        }
      }
      // The sum is exact in double; clearing its low fraction bits rounds toward zero.
#pragma GCC unroll 2
      for (int quarter = 0; quarter < 2; ++quarter) {
        Doubles total = {};
        for (int group = 0; group < kGroups; ++group)
          total += __builtin_convertvector(half_of<HalfInts>(sum[group], quarter), Doubles);
        const Doubles truncated = (Doubles)((Longs)total & ~dropped_bits);
        const Longs exponent = __builtin_convertvector(half_of<HalfInts>(largest, quarter), Longs);
        const Doubles unscale = (Doubles)((exponent + (1023 - row.aligned_bits)) << 52);
        const auto result = __builtin_convertvector(truncated * unscale, typename V::HalfFloats);
        store(d + at + quarter * kLanes / 2,
              half_of<HalfInts>(slow, quarter) ? half_of<HalfInts>(old, quarter) : (HalfInts)result);
      }
    }
  }
  std::int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= any_left[lane];
  return any != 0;
}

/// The kernels of this translation unit.
template <int kLanes>
MmaRowKernel row_kernel(int elements) {
  switch (elements) {
    case 8:
      return mma_row<kLanes, 8>;
    case 16:
      return mma_row<kLanes, 16>;
    case 32:
      return mma_row<kLanes, 32>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace jfa::simulator
