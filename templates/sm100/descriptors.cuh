// What tcgen05.mma multiplies, and how its matrix descriptors say it.
namespace jfa::kernel {

// Version in bit 46, swizzle in bits 63..61.
constexpr u64 kDescriptorMode = u64{1} << 46 | u64{config::kSwizzleBytes == 128  ? 2
                                                   : config::kSwizzleBytes == 64 ? 4
                                                                                 : 6}
                                                   << 61;

// fp32 accumulation of an m x n product of 16-bit elements; m is 64 or 128.
__device__ inline u32 instruction_descriptor(int n, bool b_is_n_major, bool a_is_m_major = false,
                                             u32 m = 128) {
  constexpr u32 kTypes = config::kElement == Element::bf16 ? 0x490 : 0x010;
  return kTypes | static_cast<u32>(a_is_m_major) << 15 | static_cast<u32>(b_is_n_major) << 16 |
         static_cast<u32>(n >> 3) << 17 | (m >> 4) << 24;
}

}  // namespace jfa::kernel
