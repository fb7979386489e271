// d (+)= a * b: a 64 x 16 and b 16 x 96, both in shared memory. Asynchronous.
namespace jfa::kernel {

// Contiguous along the 16 unless said otherwise. kRowsOfA: along the rows of a; kColumnsOfB: along the
// columns of b.
template <bool kRowsOfA = false, bool kColumnsOfB = false>
__device__ inline void wgmma_ss(float (&d)[48], u64 a, u64 b, bool accumulate) {
#define JFA_WGMMA_SS(TYPE)                                                                              \
  asm volatile(                                                                                         \
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %50, 0;\n\t"                                                \
      "wgmma.mma_async.sync.aligned.m64n96k16.f32." TYPE "." TYPE                                       \
      " {"                                                                                              \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                          \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"                  \
      "}, %48, %49, p, 1, 1, %51, %52;\n\t}"                                                            \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),        \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),      \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),      \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),      \
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),      \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])                                 \
      : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)), "n"(static_cast<int>(kRowsOfA)),             \
        "n"(static_cast<int>(kColumnsOfB)))
  if constexpr (config::kElement == Element::bf16) {
    JFA_WGMMA_SS("bf16");
  } else {
    JFA_WGMMA_SS("f16");
  }
#undef JFA_WGMMA_SS
}

}  // namespace jfa::kernel
