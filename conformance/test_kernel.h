// Small kernels whose results say whether a device executes PTX as we think it does. The same text runs on a
// GPU and on the simulated one.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::conformance {

struct Shape {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// Instead of an input's number.
inline constexpr std::size_t kOutput = ~std::size_t{0};

/// A tensor map over one of a kernel's buffers; extents and box with the innermost dimension first.
struct TensorMap {
  CUtensorMapDataType type{};
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> strides_bytes;  // of all dimensions but the innermost
  std::vector<std::uint32_t> box;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  std::size_t input = 0;  // which it lies over, or kOutput
};

/// One launch. Its entry is called `test` and takes the output's address, the inputs' addresses, and the
/// tensor maps, 128 bytes each, aligned to 64.
struct TestKernel {
  std::string ptx;  // without .version, .target and .address_size
  Shape grid, block{32, 1, 1}, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  std::size_t output_bytes = 0;  // 0xcd before the launch
  std::vector<std::vector<std::byte>> inputs;
  std::vector<TensorMap> maps;
  /// What the output must be, byte for byte. Empty: what other devices gave.
  std::vector<std::byte> expected;
  /// The launch must end in an error of the device.
  bool must_fail = false;
};

/// Which devices have what a kernel uses.
enum class Needs : std::uint8_t { kAny, kHopper, kBlackwell };

/// A kernel that is made when it is wanted.
struct TestCase {
  std::string name;   // unique: "add.rn.f32"
  std::string group;  // "float", "wgmma", "doubt"
  Needs needs = Needs::kAny;
  std::function<TestKernel()> make;
};

/// target: "sm_90a", "sm_100a".
bool runs_on(Needs needs, std::string_view target);

/// The instruction tests: every instruction that the emitted kernels use, apart from tcgen05, and more of
/// what sm_90 and sm_100 share.
const std::vector<TestCase>& instruction_cases();

// What it is made of, a file each.
void add_arithmetic_cases(std::vector<TestCase>& cases);
void add_conversion_cases(std::vector<TestCase>& cases);
void add_warp_cases(std::vector<TestCase>& cases);
void add_matrix_cases(std::vector<TestCase>& cases);
void add_memory_cases(std::vector<TestCase>& cases);
void add_mbarrier_cases(std::vector<TestCase>& cases);
void add_tma_cases(std::vector<TestCase>& cases);
void add_tensormap_cases(std::vector<TestCase>& cases);
void add_wgmma_cases(std::vector<TestCase>& cases);

}  // namespace jfa::conformance
