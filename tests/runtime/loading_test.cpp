// Kernels on a fake driver: when they are compiled and loaded, what loading leaves alone, and its failures.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/runtime/forward_support.h"

using namespace jfa;
using test::call_of;
using test::contains;
using test::fake_driver;
using test::kStream;
using test::output_of;
using test::warm_device;

TEST_CASE(
    "bug-pool 104: a cold call inside a capture is refused with the call to make, the capture is untouched") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  fake_driver().calls.clear();
  const AttentionCall call = call_of();
  const Status cold = forward(device, call, output_of(call), 0, {}, kStream);
  REQUIRE_FALSE(cold.ok());
  CHECK(contains(cold.message(), "call jfa::prepare(device, configuration)"));
  CHECK(contains(cold.message(), "forward-bf16-d32-g4-sm_100f"));
  CHECK(fake_driver().libraries_loaded == 0);
  CHECK(fake_driver().count("cuLaunchKernelEx") == 0);
  CHECK(fake_driver().count("cuMemPoolCreate") == 0);

  Configuration configuration;
  configuration.head_dim = 24;
  configuration.groups = 4;
  REQUIRE(prepare(device, configuration).ok());
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(fake_driver().libraries_loaded == 1);
}

TEST_CASE("bug-pool 107: loading leaves other threads' captures alone") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  fake_driver().calls.clear();
  Configuration configuration;
  configuration.head_dim = 24;
  configuration.groups = 4;
  REQUIRE(prepare(device, configuration).ok());
  const auto& calls = fake_driver().calls;
  const auto at = [&](const char* name) { return std::ranges::find(calls, name) - calls.begin(); };
  CHECK(at("cuThreadExchangeStreamCaptureMode") < at("cuMemPoolCreate"));
  CHECK(at("cuMemHostAlloc") > at("cuMemPoolSetAttribute"));
  // In and out, for the pool, for the reports and for the library.
  CHECK(fake_driver().count("cuThreadExchangeStreamCaptureMode") == 6);
  CHECK(calls.back() == "cuThreadExchangeStreamCaptureMode");
}

TEST_CASE("an image that the driver refuses is made anew, once") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  fake_driver().failures["cuLibraryLoadData"] = CUDA_ERROR_INVALID_IMAGE;
  fake_driver().failures_left["cuLibraryLoadData"] = 1;
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(fake_driver().count("cuLibraryLoadData") == 2);

  test::reset_fake_driver();
  Device other = test::attach_fake_device();
  fake_driver().failures["cuLibraryLoadData"] = CUDA_ERROR_INVALID_IMAGE;
  const Status refused = forward(other, call, output_of(call), 0, {}, kStream);
  CHECK(fake_driver().count("cuLibraryLoadData") == 2);
  CHECK(contains(refused.message(), "loading forward-bf16-d32-g4-sm_100f on cuda:0"));
}

TEST_CASE("whichever step of loading refuses the image, and by whichever name, it is made anew, once") {
  Configuration configuration;
  configuration.head_dim = 16;
  const std::pair<const char*, CUresult> refusals[] = {
      {"cuLibraryLoadData", CUDA_ERROR_INVALID_PTX},
      {"cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
      {"cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU},
      {"cuLibraryGetKernel", CUDA_ERROR_NOT_FOUND},
      {"cuKernelSetAttribute", CUDA_ERROR_INVALID_IMAGE}};  // loading is lazy
  for (const auto& [call, result] : refusals) {
    CAPTURE(std::string(call));
    CAPTURE(static_cast<int>(result));
    test::reset_fake_driver();
    Device device = test::attach_fake_device();
    fake_driver().failures[call] = result;
    fake_driver().failures_left[call] = 1;
    CHECK(prepare(device, configuration).ok());
    CHECK(fake_driver().count("cuLibraryLoadData") == 2);
    CHECK(fake_driver().libraries_unloaded == fake_driver().libraries_loaded - 1);
  }
  // Not the image's fault: another one would fare no better.
  for (const CUresult result :
       {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_DEINITIALIZED}) {
    test::reset_fake_driver();
    Device device = test::attach_fake_device();
    fake_driver().failures["cuLibraryLoadData"] = result;
    CHECK_FALSE(prepare(device, configuration).ok());
    CHECK(fake_driver().count("cuLibraryLoadData") == 1);
  }
}

TEST_CASE("bug-pool 121: a failure while loading is reported and leaves nothing behind") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  fake_driver().failures["cuLibraryGetKernel"] = CUDA_ERROR_NOT_FOUND;
  const Status status = forward(device, call, output_of(call), 0, {}, kStream);
  CHECK(contains(status.message(), "loading jfa_prepare of forward-bf16-d32-g4-sm_100f on cuda:0"));
  CHECK(fake_driver().libraries_loaded == 2);  // the entry may only have been missing from this image
  CHECK(fake_driver().libraries_unloaded == 2);
  fake_driver().failures.clear();
  fake_driver().ctas_per_sm = 0;
  CHECK(contains(forward(device, call, output_of(call), 0, {}, kStream).message(), "fitting jfa_forward"));
  fake_driver().ctas_per_sm = 1;
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
}

TEST_CASE("bug-pool 116: a loaded kernel is never unloaded while its device lives") {
  {
    Device device = warm_device();
    Configuration configuration;
    configuration.head_dim = 24;
    configuration.groups = 4;
    for (int i = 0; i < 200; ++i) REQUIRE(prepare(device, configuration).ok());
    CHECK(fake_driver().libraries_loaded == 1);
    CHECK(fake_driver().libraries_unloaded == 0);
  }
  CHECK(fake_driver().live_primary_contexts == 0);
}

TEST_CASE("bug-pool 92: threads that want the same kernel at once load it once") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  std::atomic<int> worked{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] { worked += forward(device, call, output_of(call), 0, {}, kStream).ok(); });
  threads.clear();
  CHECK(worked == 16);
  CHECK(fake_driver().libraries_loaded == 1);
  CHECK(fake_driver().launches.size() == 32);
}

TEST_CASE("the image is of the kind that the device takes") {
  for (const auto& [kind, start] : {std::pair{ImageKind::kCubin,
                                              "\x7f"
                                              "ELF"},
                                    {ImageKind::kPtx, "//"}}) {
    test::reset_fake_driver();
    Device device = test::attach_fake_device(kind);
    const AttentionCall call = call_of();
    REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
    CHECK(fake_driver().image.starts_with(start));
  }
}

TEST_CASE("bug-pool 114, 96: questions and precompilation make no driver call") {
  test::reset_fake_driver();
  CHECK(supported(Configuration()).ok());
  CHECK(supported_head_dims().size() == 16);
  CHECK(workspace_bytes(call_of()).ok());
  CHECK(fake_driver().calls.empty());
}
