// Two fp32 operations in one instruction, compute capability 10.x; each is rounded as it is alone. They take
// a pipe as long as two single ones, but one issue slot.
namespace jfa::kernel {

// Two floats in a 64-bit register: the first in its lower half.
struct FloatPair {
  u64 bits;
};

__device__ inline FloatPair pack(float low, float high) {
  FloatPair d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d.bits) : "f"(low), "f"(high));
  return d;
}

__device__ inline void unpack(FloatPair a, float& low, float& high) {
  asm("mov.b64 {%0, %1}, %2;" : "=f"(low), "=f"(high) : "l"(a.bits));
}

// Twice the same; of a constant it is one, too.
__device__ inline FloatPair pack(float both) {
  const u64 bits = __float_as_uint(both);
  return {bits << 32 | bits};
}

__device__ inline FloatPair add_rn_x2(FloatPair a, FloatPair b) {
  FloatPair d;
  asm("add.rn.f32x2 %0, %1, %2;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits));
  return d;
}

__device__ inline FloatPair mul_rn_x2(FloatPair a, FloatPair b) {
  FloatPair d;
  asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits));
  return d;
}

__device__ inline FloatPair fma_rn_x2(FloatPair a, FloatPair b, FloatPair c) {
  FloatPair d;
  asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(d.bits) : "l"(a.bits), "l"(b.bits), "l"(c.bits));
  return d;
}

}  // namespace jfa::kernel
