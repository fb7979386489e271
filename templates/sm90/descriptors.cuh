// How wgmma's matrix descriptors name the swizzle.
namespace jfa::kernel {

// Swizzle in bits 63..62.
constexpr u64 kDescriptorMode = u64{config::kSwizzleBytes == 128  ? 1
                                    : config::kSwizzleBytes == 64 ? 2
                                                                  : 3}
                                << 62;

}  // namespace jfa::kernel
