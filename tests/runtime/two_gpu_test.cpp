// [2 GPUs] Everything on the second GPU while the first is current; both at once; memory of both in one call.
// Built and registered with ctest when JFA_TEST_GPU is on; without a second GPU every case fails.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "tests/attention/backward_harness.h"
#include "tests/attention/harness.h"

namespace {

using namespace jfa;
using namespace jfa::test;

Device gpu(int ordinal) {
  Result<Device> device = Device::open("cuda:" + std::to_string(ordinal));
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  return *device;
}

Problem small_problem(bool broadcast_q, std::int64_t head_dim = 64) {
  const std::vector<std::int64_t> key_lengths = {90, 7, 200};
  Problem problem = broadcast_q ? flat_broadcast_problem(20, key_lengths, {2, 2}, head_dim)
                                : flat_problem({100, 0, 130}, key_lengths, {2, 2}, head_dim);
  randomize(problem, 119);
  return problem;
}

}  // namespace

// First, while nothing of its kind is loaded.
TEST_CASE("bug-pool 121: both GPUs start together on a cold cache") {
  std::string directory = (std::filesystem::temp_directory_path() / "jfa-two-gpu-XXXXXX").string();
  REQUIRE(mkdtemp(directory.data()));
  setenv("JFA_CACHE_DIR", directory.c_str(), 1);
  const Problem problem = small_problem(false, 96);
  Device devices[] = {gpu(0), gpu(1)};
  RunResult results[2];
  {
    std::jthread threads[2];
    for (int i = 0; i < 2; ++i)
      threads[i] = std::jthread([&, i] { results[i] = run_attention(devices[i], problem); });
  }
  for (const RunResult& result : results) {
    CHECK_MESSAGE(result.status.ok(), result.status.message());
    CHECK(result.violations.empty());
  }
  CHECK(check_attention(devices[0], problem).output.values == results[0].output.values);
  CHECK(results[0].output.values == results[1].output.values);
  std::filesystem::remove_all(directory);
}

TEST_CASE("bug-pool 119: all on the second GPU while the first is current") {
  Device first = gpu(0), second = gpu(1);
  const DriverTable& driver = first.impl().driver;
  const ContextGuard current(driver, first.impl().context);
  for (const bool broadcast_q : {false, true}) {
    CAPTURE(broadcast_q);
    const Problem problem = small_problem(broadcast_q);
    check_attention(second, problem);
    check_backward(second, with_random_gradient(problem, 120));
    CUcontext context = nullptr;
    CHECK(driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context == first.impl().context);
  }
}

TEST_CASE("bug-pool 119: keys on the first GPU, the call on the second: refused") {
  Device first = gpu(0), second = gpu(1);
  constexpr std::int64_t kRows = 16, kBytes = kRows * 64 * 2;
  const auto tensor = [](Device& device) {
    return Tensor::packed(device.allocate(kBytes).value(), kRows, 1, 64, DType::bf16);
  };
  AttentionCall call;
  call.query = tensor(second);
  call.key = tensor(first);
  call.value = tensor(second);
  const int offsets[] = {0, kRows};
  const std::uint64_t address = second.allocate(sizeof offsets).value();
  REQUIRE(second.upload(address, offsets, sizeof offsets).ok());
  call.query_offset = call.key_offset = {address, 2, OffsetType::int32};
  const Tensor output = tensor(second);
  const Status refused = forward(second, call, output, 0, {}, nullptr);
  CHECK(refused.kind() == ErrorKind::kInvalidArgument);
  CHECK_MESSAGE(refused.message().starts_with("key.address 0x"), refused.message());
  CHECK_MESSAGE(
      refused.message().find("is memory of CUDA device 0, but the call runs on cuda:1") != std::string::npos,
      refused.message());
  call.key = tensor(second);
  CHECK(forward(second, call, output, 0, {}, nullptr).ok());
  CHECK(second.synchronize().ok());
}
