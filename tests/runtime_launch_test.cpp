// forward() on a fake driver: what is launched with which arguments, in which context, and what failures look
// like.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <new>
#include <numbers>
#include <thread>

#include "runtime_fake_driver.h"

// Counts what this program allocates, for "no allocation after the first call".
namespace {
std::atomic<long> allocations{0};
}
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace jfa;
using test::fake_driver;

// Kernels are compiled, but no file is written.
const int kNoCacheFiles = setenv("JFA_CACHE", "off", 1);

const Stream kStream = reinterpret_cast<Stream>(0x1000);
constexpr std::uint64_t kAddress = 0x10000;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A batch of 3 with grouped heads; one specialisation for the whole file, so that it is compiled once.
AttentionCall call_of(std::int64_t total_q = 300, std::int64_t total_kv = 500) {
  AttentionCall call;
  call.query = Tensor::packed(kAddress, total_q, 8, 24, DType::bf16);
  call.key = Tensor::packed(kAddress * 2, total_kv, 2, 24, DType::bf16);
  call.value = Tensor::packed(kAddress * 3, total_kv, 2, 24, DType::bf16);
  call.query_offset = {kAddress * 4, 4, OffsetType::int64};
  call.key_offset = {kAddress * 5, 4, OffsetType::int32};
  return call;
}
Tensor output_of(const AttentionCall& call) {
  return Tensor::packed(kAddress * 6, call.query.rows, call.query.heads, call.query.head_dim,
                        call.query.dtype);
}

// A device on a fresh fake driver, with the kernel of call_of() loaded and the books empty.
Device warm_device() {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  const Status warm = forward(device, call, output_of(call), 0, {}, kStream);
  REQUIRE_MESSAGE(warm.ok(), warm.message(), "\n", warm.detail());
  fake_driver().calls.clear();
  fake_driver().launches.clear();
  fake_driver().maps.clear();
  return device;
}

Workspace workspace_for(Device& device, const AttentionCall& call) {
  const auto bytes = workspace_bytes(call);
  REQUIRE(bytes.ok());
  const auto address = device.allocate(*bytes);
  REQUIRE(address.ok());
  fake_driver().calls.clear();
  return {*address, *bytes};
}

}  // namespace

TEST_CASE("the prepare entry, then the main entry, with the call's numbers") {
  Device device = warm_device();
  AttentionCall call = call_of();
  call.scale = -0.5;
  const Workspace workspace = workspace_for(device, call);
  REQUIRE(forward(device, call, output_of(call), kAddress * 7, workspace, kStream).ok());

  REQUIRE(fake_driver().launches.size() == 2);
  const test::FakeLaunch& prepare = fake_driver().launches[0];
  CHECK(prepare.entry == "jfa_prepare");
  CHECK(prepare.ctas == 1);
  CHECK(reinterpret_cast<std::uint64_t>(prepare.prepare.query_offset) == kAddress * 4);
  CHECK(reinterpret_cast<std::uint64_t>(prepare.prepare.key_offset) == kAddress * 5);
  CHECK(prepare.prepare.output_offset == nullptr);
  CHECK(prepare.prepare.query_offset_is_64 == 1);
  CHECK(prepare.prepare.key_offset_is_64 == 0);
  CHECK(prepare.prepare.batch == 3);
  CHECK(prepare.prepare.query_rows == 300);
  CHECK(prepare.prepare.key_rows == 500);
  CHECK(prepare.prepare.output_rows == 300);
  CHECK(prepare.prepare.query_heads == 8);
  CHECK(prepare.prepare.part_capacity == 0);
  CHECK(reinterpret_cast<std::uint64_t>(prepare.prepare.header) == workspace.address);

  const test::FakeLaunch& main = fake_driver().launches[1];
  CHECK(main.entry == "jfa_forward");
  CHECK(main.ctas == 4);  // one a multiprocessor of the fake device; there are more items
  CHECK(main.shared_bytes > 48 * 1024);
  CHECK(main.forward.header == prepare.prepare.header);
  CHECK(main.forward.tiles == prepare.prepare.tiles);
  CHECK(reinterpret_cast<std::uint64_t>(main.forward.lse) == kAddress * 7);
  CHECK(main.forward.scale_log2 == doctest::Approx(-0.5 * std::numbers::log2e));
  CHECK(main.forward.query_heads == 8);
  CHECK(main.forward.output_rows == 300);

  // query, key, value, output, in this order.
  REQUIRE(main.map_ids == std::vector<std::uint64_t>{0, 1, 2, 3});
  const auto& maps = fake_driver().maps;
  CHECK(maps[0].address == kAddress);
  CHECK(maps[1].address == kAddress * 2);
  CHECK(maps[2].address == kAddress * 3);
  CHECK(maps[3].address == kAddress * 6);
  for (const test::FakeMap& map : maps) CHECK(map.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  CHECK(maps[0].extents[1] == 8);
  CHECK(maps[1].extents[1] == 2);
}

TEST_CASE("few items with many keys: their parts are merged by a third launch") {
  Device device = warm_device();
  const AttentionCall call = call_of(300, 100000);
  Tensor output = output_of(call);
  output.row_stride = 400;
  const Workspace workspace = workspace_for(device, call);
  REQUIRE(forward(device, call, output, kAddress * 7, workspace, kStream).ok());
  REQUIRE(fake_driver().launches.size() == 3);
  const test::FakeLaunch& prepare = fake_driver().launches[0];
  const test::FakeLaunch& main = fake_driver().launches[1];
  const test::FakeLaunch& merge = fake_driver().launches[2];
  CHECK(prepare.prepare.part_capacity > 0);
  CHECK(merge.entry == "jfa_merge");
  CHECK(merge.merge.header == prepare.prepare.header);
  CHECK(merge.merge.split_tiles == prepare.prepare.split_tiles);
  CHECK(merge.merge.partial_output == main.forward.partial_output);
  CHECK(merge.merge.partial_lse == main.forward.partial_lse);
  CHECK(reinterpret_cast<std::uint64_t>(merge.merge.output) == kAddress * 6);
  CHECK(reinterpret_cast<std::uint64_t>(merge.merge.lse) == kAddress * 7);
  CHECK(merge.merge.output_row_stride == 400);
  CHECK(merge.merge.output_head_stride == 24);
  CHECK(merge.merge.head_dim == 24);
  CHECK(merge.merge.query_heads == 8);
  CHECK(merge.merge.output_rows == 300);
  const std::uint64_t end = workspace.address + workspace.bytes;
  CHECK(reinterpret_cast<std::uint64_t>(main.forward.partial_output) < end);
}

TEST_CASE("broadcast_q: no query offsets, one output row a batch entry and query") {
  Device device = warm_device();
  AttentionCall call = call_of(30);
  call.broadcast_q = true;
  call.query_offset = {};
  Tensor output = output_of(call);
  output.rows = 90;
  REQUIRE(forward(device, call, output, 0, {}, kStream).ok());
  const auto& launches = fake_driver().launches;
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].prepare.query_offset == nullptr);
  CHECK(launches[0].prepare.query_rows == 30);
  CHECK(launches[0].prepare.output_rows == 90);
  CHECK(launches[1].ctas == 4);
  CHECK(launches[1].forward.lse == nullptr);

  // With output offsets the output may have any number of rows.
  call.output_offset = Offsets{kAddress * 8, 4, OffsetType::int64};
  output.rows = 1000;
  REQUIRE(forward(device, call, output, 0, {}, kStream).ok());
  CHECK(reinterpret_cast<std::uint64_t>(launches[2].prepare.output_offset) == kAddress * 8);
  CHECK(launches[2].prepare.output_offset_is_64 == 1);
  CHECK(launches[2].prepare.output_rows == 1000);
}

TEST_CASE("a call with fewer items than the device has room for launches no idle CTA") {
  Device device = warm_device();
  AttentionCall call = call_of(1);
  call.query.heads = 2;  // groups stay 4: 2 heads of 4 groups would be refused
  call.query = Tensor::packed(kAddress, 1, 4, 24, DType::bf16);
  call.key = Tensor::packed(kAddress * 2, 500, 1, 24, DType::bf16);
  call.value = Tensor::packed(kAddress * 3, 500, 1, 24, DType::bf16);
  fake_driver().sm_count = 4;
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(fake_driver().launches[1].ctas == 4);  // one tile, four heads
  test::reset_fake_driver();
  fake_driver().sm_count = 148;
  Device large = test::attach_fake_device();
  REQUIRE(forward(large, call, output_of(call), 0, {}, kStream).ok());
  CHECK(fake_driver().launches[1].ctas == 4);
}

TEST_CASE("after the first call: no lock on the driver's side, no allocation, no synchronisation") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Workspace workspace = workspace_for(device, call);
  test::fake_current_context() = test::fake_primary_context();
  REQUIRE(forward(device, call, output_of(call), 0, workspace, kStream).ok());
  CHECK(fake_driver().calls == std::vector<std::string>{"cuCtxGetCurrent", "cuTensorMapEncodeTiled",
                                                        "cuTensorMapEncodeTiled", "cuTensorMapEncodeTiled",
                                                        "cuTensorMapEncodeTiled", "cuLaunchKernelEx",
                                                        "cuLaunchKernelEx"});
  const Tensor output = output_of(call);
  fake_driver().record = false;
  const long before = allocations.load();
  const Status status = forward(device, call, output, 0, workspace, kStream);
  const long after = allocations.load();
  CHECK(status.ok());
  CHECK(after == before);
}

TEST_CASE("bug-pool 108: everything is enqueued on the given stream") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Stream other = reinterpret_cast<Stream>(0x2000);
  REQUIRE(forward(device, call, output_of(call), 0, {}, other).ok());
  for (const test::FakeLaunch& launch : fake_driver().launches) CHECK(launch.stream == other);
  CHECK(fake_driver().pool_blocks.empty());  // the fake pool refuses to take a block back on another stream
  CHECK(fake_driver().count("cuMemAllocFromPoolAsync") == 1);
}

TEST_CASE("bug-pool 117: overlapping calls without a workspace have one each") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  REQUIRE(forward(device, call, output_of(call), 0, {}, reinterpret_cast<Stream>(0x2000)).ok());
  const auto& launches = fake_driver().launches;
  CHECK(launches[0].prepare.header != launches[2].prepare.header);
  CHECK(launches[0].prepare.header == launches[1].forward.header);
}

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

TEST_CASE(
    "bug-pool 104: a cold call inside a capture is refused with the call to make; the capture is untouched") {
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
  CHECK(fake_driver().count("cuThreadExchangeStreamCaptureMode") == 4);  // in and out, for pool and library
  CHECK(calls.back() == "cuThreadExchangeStreamCaptureMode");
}

TEST_CASE("a failed launch says entry, configuration, device and stream, and gives the workspace back") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  fake_driver().failures["cuLaunchKernelEx"] = CUDA_ERROR_LAUNCH_FAILED;
  const Status status = forward(device, call, output_of(call), 0, {}, kStream);
  CHECK(status.kind() == ErrorKind::kDevice);
  CHECK(status.message() ==
        "launching jfa_prepare of forward-bf16-d32-g4-sm_100f, stream 0x1000, on cuda:0: "
        "CUDA_ERROR_SOMETHING (as "
        "injected)");
  CHECK(status.detail() == "the fake driver's report");
  CHECK(fake_driver().pool_blocks.empty());
  fake_driver().failures.clear();
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());

  fake_driver().failures["cuTensorMapEncodeTiled"] = CUDA_ERROR_INVALID_VALUE;
  const Status encode = forward(device, call, output_of(call), 0, {}, kStream);
  CHECK(contains(encode.message(), "encoding the tensor map of query of forward-bf16-d32-g4-sm_100f"));
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

TEST_CASE(
    "bug-pool 63: the first entry waits for whatever came before the call; only later ones start early") {
  Device device = warm_device();
  for (const std::int64_t rows : {300, 40}) {  // without and with parts to merge
    fake_driver().launches.clear();
    const AttentionCall call = call_of(rows, 5000);
    REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
    const auto& launches = fake_driver().launches;
    REQUIRE(launches.size() >= 2);
    CHECK_FALSE(launches[0].overlapping);
    for (std::size_t i = 1; i < launches.size(); ++i) CHECK(launches[i].overlapping);
  }
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

TEST_CASE("bug-pool 121: a failure while loading is reported and leaves nothing behind") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  fake_driver().failures["cuLibraryGetKernel"] = CUDA_ERROR_NOT_FOUND;
  const Status status = forward(device, call, output_of(call), 0, {}, kStream);
  CHECK(contains(status.message(), "loading jfa_prepare of forward-bf16-d32-g4-sm_100f on cuda:0"));
  CHECK(fake_driver().libraries_unloaded == 1);
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

TEST_CASE("bug-pool 122: the target is the device's own") {
  const auto target = [](int major, int minor) {
    test::reset_fake_driver();
    fake_driver().major = major;
    fake_driver().minor = minor;
    return test::attach_fake_device().target();
  };
  CHECK(target(10, 0) == "sm_100f");
  CHECK(target(10, 3) == "sm_100f");
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

TEST_CASE(
    "bug-pool 21, 22: nothing to compute succeeds, launches nothing, compiles nothing, and status() is "
    "clean") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const auto address = device.allocate(4096);
  REQUIRE(address.ok());
  const Workspace workspace{*address, 4096};
  AttentionCall none = call_of();  // no sequence
  none.query_offset.count = none.key_offset.count = 1;
  AttentionCall empty_q = call_of(0);
  AttentionCall no_heads = call_of();
  no_heads.query.heads = 0;
  AttentionCall shared = call_of(4);  // one query sequence for no batch entry
  shared.broadcast_q = true;
  shared.query_offset = {};
  shared.key_offset = {0, 1, OffsetType::int32};
  for (const AttentionCall& call : {none, empty_q, no_heads, shared}) {
    REQUIRE(device.fill(workspace.address, 0xff, workspace.bytes).ok());
    Tensor output = output_of(call);
    if (call.broadcast_q) output.rows = 0;
    output.address = output.rows * output.heads == 0 ? 0 : output.address;
    const Status done = forward(device, call, output, 0, workspace, kStream);
    CHECK_MESSAGE(done.ok(), done.message());
    CHECK(status(device, workspace, kStream).ok());
    CHECK(workspace_bytes(call).ok());
  }
  CHECK(fake_driver().launches.empty());
  CHECK(fake_driver().libraries_loaded == 0);
}

TEST_CASE("keys but no key rows: the kernel runs, on a map that never leaves the workspace") {
  Device device = warm_device();
  AttentionCall call = call_of(300, 0);
  call.key.address = call.value.address = 0;
  const Workspace workspace = workspace_for(device, call);
  REQUIRE(forward(device, call, output_of(call), 0, workspace, kStream).ok());
  CHECK(fake_driver().launches.size() == 2);
  CHECK(fake_driver().maps[1].address == workspace.address);
  CHECK(fake_driver().maps[2].address == workspace.address);
}

TEST_CASE("bug-pool 28, 29: status() names the offset, its index and its value") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Workspace workspace = workspace_for(device, call);
  kernel::WorkspaceHeader header{};
  header.bad_offset_name = kernel::kKeyOffset;
  header.bad_offset_index = 2;
  header.bad_offset_value = 160;
  REQUIRE(device.upload(workspace.address, &header, sizeof header).ok());
  const Status bad = status(device, workspace, kStream);
  CHECK(bad.kind() == ErrorKind::kInvalidArgument);
  CHECK(bad.message().starts_with("key_offset[2] is 160"));
  header = {};
  REQUIRE(device.upload(workspace.address, &header, sizeof header).ok());
  CHECK(status(device, workspace, kStream).ok());
  REQUIRE(device.fill(workspace.address, 0xcd, workspace.bytes).ok());
  CHECK(contains(status(device, workspace, kStream).message(), "holds no result of a call"));
  CHECK(contains(status(device, {}, kStream).message(), "workspace.address is null"));
}

TEST_CASE("a workspace that is too small or unaligned is refused with both numbers") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  Workspace workspace = workspace_for(device, call);
  const std::uint64_t needed = workspace.bytes;
  --workspace.bytes;
  const Status small = forward(device, call, output_of(call), 0, workspace, kStream);
  CHECK(small.message() ==
        fmt::format("workspace.bytes {} is below the {} that this call needs", needed - 1, needed));
  const Status unaligned =
      forward(device, call, output_of(call), 0, {workspace.address + 128, needed}, kStream);
  CHECK(contains(unaligned.message(), "is not a multiple of 256 bytes"));
  CHECK(fake_driver().launches.empty());
}

TEST_CASE("bug-pool 57: after a refused call the next one works") {
  Device device = warm_device();
  for (const std::uint64_t shift : {2u, 8u}) {
    AttentionCall call = call_of();
    call.key.address += shift;
    const Status refused = forward(device, call, output_of(call), 0, {}, kStream);
    CHECK(refused.message() ==
          fmt::format("key.address {:#x} is not a multiple of 16 bytes", kAddress * 2 + shift));
    CHECK(fake_driver().launches.empty());
  }
  const AttentionCall call = call_of();
  CHECK(forward(device, call, output_of(call), 0, {}, kStream).ok());
}

TEST_CASE("bug-pool 114: a device opened before fork is refused in the child; one opened after works") {
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

TEST_CASE("bug-pool 114, 96: questions and precompilation make no driver call") {
  test::reset_fake_driver();
  CHECK(supported(Configuration()).ok());
  CHECK(supported_head_dims().size() == 16);
  CHECK(workspace_bytes(call_of()).ok());
  CHECK(fake_driver().calls.empty());
}

TEST_CASE("unknown devices are named") {
  for (const auto& [name, part] : {std::pair{"gpu0", "device 'gpu0' is neither a GPU such as 'cuda:0'"},
                                   {"", "device '' is neither"},
                                   {"cuda:", "device 'cuda:': '' is not a device number"},
                                   {"cuda:-1", "'-1' is not a device number"},
                                   {"cuda:1x", "'1x' is not a device number"},
                                   {"cuda:99999999999", "'99999999999' is not a device number"},
                                   {"sim:sm_42", "sim:sm_42"},
                                   {"sim:", "sim:"}}) {
    const auto device = Device::open(name);
    REQUIRE_FALSE(device.ok());
    CHECK_MESSAGE(contains(device.status().message(), part), device.status().message());
  }
}
