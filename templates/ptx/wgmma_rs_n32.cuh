// d (+)= a * b: a 64 x 16 in registers, b 16 x 32 in shared memory with its columns contiguous. Asynchronous.
namespace jfa::kernel {

__device__ inline void wgmma_rs(float (&d)[16], const u32 (&a)[4], u64 b, bool accumulate) {
#define JFA_WGMMA_RS(TYPE)                                                                                   \
  asm volatile(                                                                                              \
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %21, 0;\n\t"                                                     \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE                                            \
      " {"                                                                                                   \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"                                 \
      "}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n\t}"                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),      \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<u32>(accumulate)))
  if constexpr (config::kElement == Element::bf16) {
    JFA_WGMMA_RS("bf16");
  } else {
    JFA_WGMMA_RS("f16");
  }
#undef JFA_WGMMA_RS
}

}  // namespace jfa::kernel
