#include "simulator/instructions/fused.h"

#include <bit>
#include <cstdint>

namespace jfa::simulator {

#if defined(__x86_64__) && defined(__GNUC__)

namespace {

template <bool flush>
[[gnu::target("avx2,fma")]] void multiply_add(float* d, const float* a, const float* b, const float* c,
                                              int count) {
  // Without a branch, so that the loop becomes vector code.
  const auto flushed = [](float value) __attribute__((target("avx2,fma"), always_inline)) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return flush ? std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits) : value;
  };
#pragma GCC ivdep
  for (int i = 0; i < count; ++i) {
    const float value = flushed(__builtin_fmaf(flushed(a[i]), flushed(b[i]), flushed(c[i])));
    const auto bits = std::bit_cast<std::uint32_t>(value);
    d[i] = std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits);
  }
}

}  // namespace

FusedMultiplyAdd fused_multiply_add(bool flush) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  return flush ? multiply_add<true> : multiply_add<false>;
}

#else

FusedMultiplyAdd fused_multiply_add(bool) { return nullptr; }

#endif

}  // namespace jfa::simulator
