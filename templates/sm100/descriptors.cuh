// What tcgen05.mma multiplies, and how its matrix descriptors say it.
namespace jfa::kernel {

// Version in bit 46, swizzle in bits 63..61.
__host__ __device__ constexpr u64 descriptor_mode(int swizzle_bytes) {
  return u64{1} << 46 | u64{swizzle_bytes == 128 ? 2u : swizzle_bytes == 64 ? 4u : 6u} << 61;
}

// fp32 accumulation of an m x n product of the tensors' elements; m is 64 or 128, twice that of a pair of
// CTAs.
__device__ inline u32 instruction_descriptor(int n, bool b_is_n_major, bool a_is_m_major = false,
                                             u32 m = kTileRows) {
  constexpr u32 kTypes = u32{1} << 4 | config::kMmaFormat << 7 | config::kMmaFormat << 10;
  return kTypes | static_cast<u32>(a_is_m_major) << 15 | static_cast<u32>(b_is_n_major) << 16 |
         static_cast<u32>(n >> 3) << 17 | (m >> 4) << 24;
}

}  // namespace jfa::kernel
