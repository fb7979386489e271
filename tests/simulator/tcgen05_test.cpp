// tcgen05.mma on the simulated device: every layout and shape, bit for bit.
#include <doctest/doctest.h>

#include <bit>
#include <random>

#include "tests/simulator/product_kernel.h"

namespace jfa::test::tcgen05_test {
namespace {

using namespace simulator;

TEST_CASE("a product of every operand layout, bit for bit") {
  Device device("sim:sm_100a");
  for (const MatrixMajor major : {MatrixMajor::kK, MatrixMajor::kMN}) {
    for (const std::uint32_t swizzle : {0u, 32u, 64u, 128u}) {
      check_case(device, {.a = {major, swizzle}});
      check_case(device, {.b = {major, swizzle}});
    }
  }
}

TEST_CASE("a product of every shape, on every schedule") {
  for (const std::string& schedule : kSchedules) {
    CAPTURE(schedule);
    Device device(schedule);
    check_case(device, {.m = 128, .n = 8});
    check_case(device, {.m = 128, .n = 256});
    check_case(device, {.m = 128, .n = 40, .accumulate = true, .flags = 0x010});  // f16
    check_case(device, {.m = 128, .n = 64, .flags = 0x490 | 1 << 13});            // -A
    check_case(device, {.m = 64, .n = 32});
    check_case(device, {.m = 64, .n = 32, .d_lane = 16});
    check_case(device, {.m = 128, .n = 128, .a_in_tensor_memory = true});
    check_case(device, {.m = 64, .n = 64, .a_in_tensor_memory = true, .d_lane = 16});
  }
}

TEST_CASE("a product of a pair of CTAs") {
  const std::string pair = paired(kProduct);
  for (const std::string& schedule : kSchedules) {
    CAPTURE(schedule);
    Device device(schedule);
    check_case(device, {.m = 256, .n = 64, .cta_group = 2}, pair);
    check_case(device, {.m = 256, .n = 256, .b = {MatrixMajor::kMN, 64}, .cta_group = 2}, pair);
    check_case(device, {.m = 256, .n = 32, .a_in_tensor_memory = true, .cta_group = 2}, pair);
    check_case(device, {.m = 128, .n = 64, .cta_group = 2}, pair);
    check_case(device, {.m = 128, .n = 128, .accumulate = false, .a_in_tensor_memory = true, .cta_group = 2},
               pair);
  }
  check_caught(edited(pair, "after mma"), "tcgen05.fence::after_thread_sync", {.m = 256, .cta_group = 2});
  check_caught(edited(pair, "proxy"), "fence.proxy.async", {.m = 256, .cta_group = 2});
  check_caught(pair, "N = 8", {.m = 256, .n = 8, .b = {MatrixMajor::kK, 0}, .cta_group = 2});
}

TEST_CASE("D = A * B ignores what tensor memory held") {
  Device device("sim:sm_100a");
  // Nothing was stored to D: its 128 lanes are the product alone.
  check_case(device, {.m = 128, .n = 64, .accumulate = false});
  check_case(device, {.m = 128, .n = 64, .accumulate = false, .a_in_tensor_memory = true});
}

TEST_CASE("disable-output-lane and scale-input-d") {
  Device device("sim:sm_100a");
  const std::string masked = edited(
      kProduct, "mma",
      "mov.b32 %r40, 0x0000ffff; mov.b32 %r41, 0; mov.b32 %r42, 0xffffffff; mov.b32 %r43, 0x80000000;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, {%r40, %r41, %r42, %r43}, %p5;");
  const ProductCase c;
  const Outcome plain = run_case(device, c, kProduct);
  const Outcome some = run_case(device, c, masked);
  REQUIRE_MESSAGE(some.result == CUDA_SUCCESS, device.report());
  std::mt19937 random(c.m + c.n);
  for (std::uint32_t lane = 0; lane < 128; ++lane) {
    const bool disabled = lane < 16 || (lane >= 64 && lane < 96) || lane == 127;
    for (std::uint32_t n = 0; n < c.n; ++n) {
      CHECK((some.got[lane * c.n + n] == plain.got[lane * c.n + n]) != disabled);
    }
  }

  // With D * 2^-3: the difference to the plain product is 7/8 of D, exact here up to the last rounding.
  const std::string scaled =
      edited(kProduct, "mma", "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5, 3;");
  const Outcome result = run_case(device, c, scaled);
  REQUIRE_MESSAGE(result.result == CUDA_SUCCESS, device.report());
  const Outcome alone = run_case(device, {.accumulate = false}, kProduct);
  for (std::size_t i = 0; i < result.got.size(); ++i) {
    const float product = std::bit_cast<float>(alone.got[i]);
    const float with_all = std::bit_cast<float>(plain.got[i]);
    const float with_eighth = std::bit_cast<float>(result.got[i]);
    CHECK(with_eighth == doctest::Approx(product + (with_all - product) / 8).epsilon(1e-4).scale(10));
  }
}

TEST_CASE("products into one accumulator run in the order of issue") {
  // The second step's operands lie where the first step's do, so that D = A * B + (A * B + D).
  const std::string twice = edited(kProduct, "mma",
                                   "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;\n"
                                   "setp.eq.b32 %p5, %r30, %r30;\n"
                                   "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;");
  Device eager("sim:sm_100a");
  const Outcome once = run_case(eager, {.accumulate = false}, kProduct);
  for (const std::string& schedule : kSchedules) {
    Device device(schedule);
    const Outcome outcome = run_case(device, {.accumulate = false}, twice);
    REQUIRE_MESSAGE(outcome.result == CUDA_SUCCESS, device.report());
    for (std::size_t i = 0; i < outcome.got.size(); ++i) {
      const float sum = 2 * std::bit_cast<float>(once.got[i]);
      CHECK(std::bit_cast<float>(outcome.got[i]) == doctest::Approx(sum).epsilon(1e-4).scale(1));
    }
  }
}

}  // namespace
}  // namespace jfa::test::tcgen05_test
