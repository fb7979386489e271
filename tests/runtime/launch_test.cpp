// forward() on a fake driver: what is launched with which arguments on which stream, and what it refuses.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numbers>

#include "tests/runtime/forward_support.h"

// Counts what this program allocates, for "no allocation after the first call".
namespace {
std::atomic<long> allocations{0};
}
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// Inlined beside a new that is not, GCC 12 takes them for a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace jfa;
using test::call_of;
using test::contains;
using test::fake_driver;
using test::kAddress;
using test::kStream;
using test::output_of;
using test::warm_device;
using test::workspace_for;

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
  CHECK(merge.merge.partial_states == main.forward.partial_states);
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
  CHECK(fake_driver().calls ==
        std::vector<std::string>{"cuCtxGetCurrent", "cuStreamIsCapturing", "cuStreamGetId",
                                 "cuTensorMapEncodeTiled", "cuTensorMapEncodeTiled", "cuTensorMapEncodeTiled",
                                 "cuTensorMapEncodeTiled", "cuLaunchKernelEx", "cuLaunchKernelEx"});
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

TEST_CASE(
    "bug-pool 63: the first entry waits for whatever came before the call, only later ones start early") {
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
  Tensor query = none.query;
  query.address = workspace.address;
  none.query = query;
  const Status over = forward(device, none, output_of(none), 0, workspace, kStream);
  CHECK_MESSAGE(contains(over.message(), "workspace.address"), over.message());
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
