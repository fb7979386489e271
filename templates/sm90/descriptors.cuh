// How wgmma's matrix descriptors name the swizzle.
namespace jfa::kernel {

// Swizzle in bits 63..62.
__host__ __device__ constexpr u64 descriptor_mode(int swizzle_bytes) {
  return u64{swizzle_bytes == 128 ? 1u : swizzle_bytes == 64 ? 2u : 3u} << 62;
}

}  // namespace jfa::kernel
