// d (+)= a * b: a 64 x 16 and b 16 x 16, both in shared memory. Asynchronous.
namespace jfa::kernel {

// Contiguous along the 16 unless said otherwise. kRowsOfA: along the rows of a; kColumnsOfB: along the
// columns of b.
template <bool kRowsOfA = false, bool kColumnsOfB = false>
__device__ inline void wgmma_ss(float (&d)[8], u64 a, u64 b, bool accumulate) {
#define JFA_WGMMA_SS(TYPE)                                                                             \
  asm volatile(                                                                                        \
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %10, 0;\n\t"                                               \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                      \
      " {"                                                                                             \
      "%0, %1, %2, %3, %4, %5, %6, %7"                                                                 \
      "}, %8, %9, p, 1, 1, %11, %12;\n\t}"                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) \
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(kRowsOfA)),            \
        "n"(static_cast<int>(kColumnsOfB)))
  if constexpr (config::kElement == Element::bf16) {
    JFA_WGMMA_SS("bf16");
  } else {
    JFA_WGMMA_SS("f16");
  }
#undef JFA_WGMMA_SS
}

}  // namespace jfa::kernel
