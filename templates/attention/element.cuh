// 16-bit elements as floats.
namespace jfa::kernel {

using u16 = unsigned short;

__device__ inline float to_float(u16 element) {
  if constexpr (config::kElement == Element::bf16) {
    return __uint_as_float(static_cast<u32>(element) << 16);
  } else {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return value;
  }
}

}  // namespace jfa::kernel
