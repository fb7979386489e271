// Devices on a fake driver: their contexts, targets and memory, threads, forks and the end of a process.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "tests/runtime/forward_support.h"

using namespace jfa;
using test::call_of;
using test::contains;
using test::fake_driver;
using test::kAddress;
using test::kStream;
using test::output_of;
using test::warm_device;
using test::workspace_for;

TEST_CASE(
    "bug-pool 102, 103: a thread that has made no CUDA call, cold and warm, gets the device's context") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  for (int round = 0; round < 2; ++round) {
    std::thread([&] {
      CHECK(test::fake_current_context() == nullptr);
      CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
      CHECK(test::fake_current_context() == nullptr);
    }).join();
  }
  REQUIRE(fake_driver().launches.size() == 4);
  for (const test::FakeLaunch& launch : fake_driver().launches)
    CHECK(launch.context == test::fake_primary_context());
  CHECK(fake_driver().libraries_loaded == 1);
}

TEST_CASE("bug-pool 119: another device's context stays current, every call restores it") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const CUcontext other = test::fake_context(1);
  test::fake_current_context() = other;
  const Workspace workspace = workspace_for(device, call);
  CHECK(test::fake_current_context() == other);
  CHECK(forward(device, call, output_of(call), 0, workspace, kStream).ok());
  CHECK(test::fake_current_context() == other);
  CHECK(status(device, workspace, kStream).kind() != ErrorKind::kDevice);
  CHECK(test::fake_current_context() == other);
  CHECK(device.synchronize(kStream).ok());
  CHECK(device.free(workspace.address).ok());
  CHECK(test::fake_current_context() == other);
  fake_driver().failures["cuLaunchKernelEx"] = CUDA_ERROR_LAUNCH_FAILED;
  CHECK_FALSE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(test::fake_current_context() == other);
  for (const test::FakeLaunch& launch : fake_driver().launches)
    CHECK(launch.context == test::fake_primary_context());
}

TEST_CASE("bug-pool 119: a stream of another device is named when the launch fails") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  fake_driver().failures["cuLaunchKernelEx"] = CUDA_ERROR_INVALID_HANDLE;
  const Status status = forward(device, call, output_of(call), 0, {}, reinterpret_cast<Stream>(0x1001));
  CHECK(contains(status.message(), "stream 0x1001 (of CUDA device 1, or of another context), on cuda:0"));
  CHECK(test::fake_current_context() == nullptr);
}

TEST_CASE("bug-pool 119: memory of another GPU is refused by name before anything is launched") {
  test::reset_fake_driver();
  fake_driver().gpu_count = 2;
  Device device = test::attach_fake_device();
  AttentionCall call = call_of();
  call.output_offset = {kAddress * 8, 4, OffsetType::int32};
  const Tensor output = output_of(call);
  const Workspace workspace = workspace_for(device, call);
  const std::uint64_t lse = kAddress * 7;
  const auto run = [&] { return forward(device, call, output, lse, workspace, kStream); };
  REQUIRE(run().ok());
  fake_driver().launches.clear();
  for (const std::pair<const char*, std::uint64_t>& foreign :
       {std::pair{"query.address", call.query.address},
        {"key.address", call.key.address},
        {"value.address", call.value.address},
        {"query_offset.address", call.query_offset.address},
        {"key_offset.address", call.key_offset.address},
        {"output_offset.address", call.output_offset->address},
        {"output.address", output.address},
        {"lse", lse},
        {"workspace.address", workspace.address}}) {
    CAPTURE(foreign.first);
    fake_driver().owners = {{foreign.second, 1}};
    const Status refused = run();
    CHECK(refused.kind() == ErrorKind::kInvalidArgument);
    CHECK(refused.message() ==
          fmt::format("{} {:#x} is memory of CUDA device 1, but the call runs on cuda:0: "
                      "all of its memory must lie there",
                      foreign.first, foreign.second));
  }
  CHECK(fake_driver().launches.empty());
  fake_driver().owners.clear();
  CHECK(run().ok());
}

TEST_CASE("with one GPU the driver is not asked whose memory it is") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(fake_driver().count("cuPointerGetAttribute") == 0);
}

TEST_CASE("out of memory is clear and the process goes on") {
  Device device = warm_device();
  fake_driver().failures["cuMemAlloc"] = CUDA_ERROR_OUT_OF_MEMORY;
  const auto address = device.allocate(123456);
  REQUIRE_FALSE(address.ok());
  CHECK(address.status().kind() == ErrorKind::kUnavailable);
  CHECK(address.status().message() ==
        "allocating 123456 bytes on cuda:0: CUDA_ERROR_OUT_OF_MEMORY (as injected)");
  fake_driver().failures["cuMemAllocFromPoolAsync"] = CUDA_ERROR_OUT_OF_MEMORY;
  const AttentionCall call = call_of();
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).kind() == ErrorKind::kUnavailable);
  CHECK(fake_driver().launches.empty());
  fake_driver().failures.clear();
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
}

TEST_CASE("a device without memory pools asks for a workspace, and takes one") {
  test::reset_fake_driver();
  fake_driver().memory_pools = false;
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  const Status refused = forward(device, call, output_of(call), 0, {}, kStream);
  CHECK(refused.kind() == ErrorKind::kUnsupported);
  CHECK(contains(refused.message(), "pass a workspace of "));
  CHECK(forward(device, call, output_of(call), 0, workspace_for(device, call), kStream).ok());
}

TEST_CASE("bug-pool 122: the target is the device's own") {
  const auto target = [](int major, int minor) {
    test::reset_fake_driver();
    fake_driver().major = major;
    fake_driver().minor = minor;
    return test::attach_fake_device().target();
  };
  CHECK(target(10, 0) == "sm_100f");
  CHECK(target(10, 3) == "sm_100f");
  CHECK(Device::open("sim:sm_100a").value().target() == "compute_100f");
  CHECK(Device::open("sim:sm_90a").value().target() == "compute_90a");
}

TEST_CASE("an unsupported GPU is refused by name") {
  test::reset_fake_driver();
  fake_driver().major = 8;
  const auto impl = Device::Impl::attach({"cuda:0", &test::fake_driver_table(), 0, ImageKind::kCubin, {}});
  REQUIRE_FALSE(impl.ok());
  CHECK(impl.status().kind() == ErrorKind::kUnsupported);
  CHECK(contains(impl.status().message(),
                 "device 'cuda:0' (Fake GPU): compute capability 8.0 is not supported"));
  CHECK(fake_driver().live_primary_contexts == 0);
}

TEST_CASE("bug-pool 114: a device opened before fork is refused in the child, one opened after works") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  std::cout.flush();  // or the child prints it again
  const pid_t child = fork();
  if (child == 0) {
    const Status refused = forward(device, call, output_of(call), 0, {}, kStream);
    const bool clear = refused.kind() == ErrorKind::kUnavailable &&
                       contains(refused.message(), "before fork()") && !device.synchronize().ok() &&
                       !device.allocate(1).ok();
    Device own = test::attach_fake_device();
    const bool works = own.allocate(1).ok();
    _exit(clear && works ? 0 : 1);
  }
  int child_status = 0;
  REQUIRE(waitpid(child, &child_status, 0) == child);
  CHECK(WIFEXITED(child_status));
  CHECK(WEXITSTATUS(child_status) == 0);
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
}

TEST_CASE("bug-pool 113: exit() with a static handle, on a driver that is gone, keeps the exit code") {
  for (const bool in_thread : {false, true}) {
    std::cout.flush();  // or the child prints it again
    const pid_t child = fork();
    if (child == 0) {
      static Device device = warm_device();
      for (const char* call : {"cuMemPoolDestroy", "cuDevicePrimaryCtxRelease", "cuLibraryUnload"})
        fake_driver().failures[call] = CUDA_ERROR_DEINITIALIZED;
      if (in_thread) std::thread([] { std::exit(7); }).join();
      std::exit(7);
    }
    int child_status = 0;
    REQUIRE(waitpid(child, &child_status, 0) == child);
    CHECK(WIFEXITED(child_status));
    CHECK(WEXITSTATUS(child_status) == 7);
  }
}

TEST_CASE("unknown devices are named") {
  for (const auto& [name, part] : {std::pair{"gpu0", "device 'gpu0' is neither a GPU such as 'cuda:0'"},
                                   {"", "device '' is neither"},
                                   {"cuda:", "device 'cuda:': '' is not a device number"},
                                   {"cuda:-1", "'-1' is not a device number"},
                                   {"cuda:1x", "'1x' is not a device number"},
                                   {"cuda:99999999999", "'99999999999' is not a device number"},
                                   {"sim:sm_42", "sim:sm_42"},
                                   {"sim:", "sim:"},
                                   {"sim:sm_90a?sms=2&seed=1&sms=3", "option sms is given twice"}}) {
    const auto device = Device::open(name);
    REQUIRE_FALSE(device.ok());
    CHECK_MESSAGE(contains(device.status().message(), part), device.status().message());
  }
  // However long a name is, and whatever it holds, the message is a line of text.
  for (const char* prefix : {"", "cuda:", "sim:", "sim:sm_90a?", "sim:sm_90a?x=", "sim:sm_90a?seed="}) {
    const auto device = Device::open(prefix + std::string(100'000, '\n'));
    REQUIRE_FALSE(device.ok());
    CHECK(device.status().message().size() < 600);
    CHECK(device.status().message().find('\n') == std::string::npos);
  }
}
