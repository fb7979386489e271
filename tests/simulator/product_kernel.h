// A kernel around one tcgen05.mma of 16-bit operands: products of every layout bit for bit, and kernels with
// one instruction left out, which the checkers must catch on every schedule.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/driver/simulated_driver.h"
#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::test {

/// A CTA of four warps, or a pair of them: copies an image into shared memory, puts D (and A, if asked) into
/// tensor memory, multiplies once, and writes tensor memory's first `columns` columns out,
/// [CTA][128][columns]. Lines end in marks that tests use to take them away.
extern const std::string kProduct;

/// The text without the lines that end in `mark`, or with another statement in their place.
std::string edited(std::string text, const std::string& mark, const std::string& replacement = "");
/// The same for a pair of CTAs: the even one issues, and its commit tells both.
std::string paired(std::string text);

/// A simulated device.
class Device {
 public:
  explicit Device(const std::string& name);
  ~Device();
  template <class T>
  CUdeviceptr upload(const std::vector<T>& data) {
    CUdeviceptr address = 0;
    REQUIRE(driver_->cuMemAlloc(&address, data.size() * sizeof(T)) == CUDA_SUCCESS);
    REQUIRE(driver_->cuMemcpyHtoD(address, data.data(), data.size() * sizeof(T)) == CUDA_SUCCESS);
    return address;
  }
  template <class T>
  std::vector<T> download(CUdeviceptr address, std::size_t count) {
    std::vector<T> data(count);
    REQUIRE(driver_->cuMemcpyDtoH(data.data(), address, count * sizeof(T)) == CUDA_SUCCESS);
    return data;
  }
  /// The error that the run ends with; report() has its text.
  CUresult run(const std::string& ptx, const char* entry, void** parameters, unsigned int ctas,
               unsigned int threads, unsigned int shared_bytes);
  std::string report() const { return simulator::last_report(driver_); }

 private:
  const DriverTable* driver_ = nullptr;
};

extern const std::vector<std::string> kSchedules;

/// How an operand is stored, as a descriptor relative to the image's start.
struct Layout {
  simulator::MatrixMajor major = simulator::MatrixMajor::kK;
  std::uint32_t swizzle_bytes = 128;
};

struct ProductCase {
  std::uint32_t m = 128;
  std::uint32_t n = 64;
  Layout a = {};
  Layout b = {};
  bool accumulate = true;
  bool a_in_tensor_memory = false;
  std::uint32_t flags = 0x490;  // bf16 x bf16 -> f32
  std::uint32_t d_lane = 0;
  int cta_group = 1;
};

struct Outcome {
  CUresult result = CUDA_SUCCESS;
  std::vector<std::uint32_t> got, want;  // [CTA][128][columns of D]
};

/// Runs the case on random operands, beside the scalar definition of the arithmetic.
Outcome run_case(Device& device, const ProductCase& c, const std::string& ptx);
void check_case(Device& device, const ProductCase& c, const std::string& ptx = kProduct);
/// The kernel must run on every schedule.
void check_passes(const std::string& ptx, const ProductCase& c = {});
/// The edited kernel must fail on every schedule, with `part` in its report.
void check_caught(const std::string& ptx, const char* part, const ProductCase& c = {});

}  // namespace jfa::test
