// How bad offsets are heard of on the host, on a fake driver: the test writes what a prepare entry would.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
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
using test::workspace_for;

namespace {

const Stream kOther = reinterpret_cast<Stream>(0x2000);

Status run(Device& device, Stream stream = kStream, Workspace workspace = {}) {
  const AttentionCall call = call_of();
  return forward(device, call, output_of(call), 0, workspace, stream);
}

// Where the last call reports.
kernel::OffsetReport* report() {
  REQUIRE(fake_driver().launches.size() >= 2);
  return fake_driver().launches[fake_driver().launches.size() - 2].prepare.report;
}

// As templates/attention/offsets.cuh does.
void write_report(kernel::OffsetReport* report, kernel::OffsetName name, std::int64_t index,
                  std::int64_t value) {
  if (report->state != kernel::kNoReport) return;
  report->name = name;
  report->index = index;
  report->value = value;
  report->state = kernel::kReported;
}

// A device that attached with JFA_CHECK_OFFSETS set to `value`.
Result<std::shared_ptr<Device::Impl>> attach_with(const char* value) {
  setenv("JFA_CHECK_OFFSETS", value, 1);
  auto impl = Device::Impl::attach({"cuda:0", &test::fake_driver_table(), 0, ImageKind::kCubin, {}});
  unsetenv("JFA_CHECK_OFFSETS");
  return impl;
}

}  // namespace

TEST_CASE("a bad offset without a workspace of the caller's is told once: by synchronize()") {
  Device device = warm_device();
  REQUIRE(run(device).ok());
  REQUIRE(report() != nullptr);
  CHECK(device.synchronize(kStream).ok());
  write_report(report(), kernel::kKeyOffset, 2, 9);
  CHECK(device.synchronize(kOther).ok());
  CHECK(device.synchronize().ok());
  const Status told = device.synchronize(kStream);
  CHECK(told.kind() == ErrorKind::kInvalidArgument);
  CHECK(told.message() ==
        "key_offset[2] is 9: offsets never decrease, from 0 or more up to their tensor's rows; found by an "
        "earlier call, which computed nothing, on stream 0x1000 of cuda:0");
  CHECK(device.synchronize(kStream).ok());
  CHECK(run(device).ok());
}

TEST_CASE(
    "a bad offset without a workspace of the caller's is told once: by the next call, which does nothing") {
  Device device = warm_device();
  REQUIRE(run(device).ok());
  write_report(report(), kernel::kOutputOffset, 1, -3);
  CHECK(run(device, kOther).ok());
  fake_driver().launches.clear();
  fake_driver().calls.clear();
  const Status told = run(device);
  CHECK(told.kind() == ErrorKind::kInvalidArgument);
  CHECK(contains(told.message(), "output_offset[1] is -3: each lies behind the output rows of the sequence"));
  CHECK(fake_driver().launches.empty());
  CHECK(fake_driver().count("cuMemAllocFromPoolAsync") == 0);
  CHECK(run(device).ok());
  CHECK(fake_driver().launches.size() == 2);

  // One with nothing to compute tells it, too.
  write_report(report(), kernel::kQueryOffset, 0, -1);
  const AttentionCall empty = call_of(0);
  CHECK(
      contains(forward(device, empty, output_of(empty), 0, {}, kStream).message(), "query_offset[0] is -1"));
  CHECK(forward(device, empty, output_of(empty), 0, {}, kStream).ok());
}

TEST_CASE("every stream has a report of its own, and keeps it") {
  Device device = warm_device();
  REQUIRE(run(device).ok());
  kernel::OffsetReport* const first = report();
  REQUIRE(run(device, kOther).ok());
  CHECK(report() != first);
  // Ids that meet in the table: the stream's id is its handle here.
  const auto meeting = reinterpret_cast<Stream>(0x1000 + 8 * OffsetReports::kStreams);
  REQUIRE(run(device, meeting).ok());
  CHECK(report() != first);
  REQUIRE(run(device).ok());
  CHECK(report() == first);
}

TEST_CASE("more streams than reports: the rest share one, and are told so") {
  Device device = warm_device();
  OffsetReports& reports = *device.impl().reports.load();
  for (std::uint64_t id = 1; id < OffsetReports::kStreams; ++id)  // beside the first call's stream
    REQUIRE_FALSE(reports.slot_of(id).shared);
  REQUIRE(run(device, reinterpret_cast<Stream>(0x8000)).ok());
  kernel::OffsetReport* const shared = report();
  REQUIRE(run(device, reinterpret_cast<Stream>(0x9000)).ok());
  CHECK(report() == shared);
  write_report(shared, kernel::kKeyOffset, 1, 700);
  CHECK(device.synchronize(kStream).ok());  // has its own
  const Status told = device.synchronize(reinterpret_cast<Stream>(0x9000));
  CHECK(contains(told.message(), "key_offset[1] is 700: "));
  CHECK(contains(told.message(),
                 "on cuda:0 and one of the streams beyond the first 4096, which share a report"));
  CHECK(device.synchronize(reinterpret_cast<Stream>(0x8000)).ok());
}

TEST_CASE("a stream shares a report only when all are taken") {
  Device device = warm_device();
  OffsetReports& reports = *device.impl().reports.load();
  constexpr std::uint64_t kFirst = 10, kNeighbours = 100;
  for (std::uint64_t id = kFirst; id < kFirst + kNeighbours; ++id) REQUIRE_FALSE(reports.slot_of(id).shared);
  CHECK_FALSE(reports.slot_of(kFirst + OffsetReports::kStreams).shared);
}

TEST_CASE("status() of the workspace takes the stream's report of the same offset, and no other") {
  Device device = warm_device();
  const Workspace workspace = workspace_for(device, call_of());
  REQUIRE(run(device, kStream, workspace).ok());
  kernel::WorkspaceHeader header{};
  header.bad_offset_name = kernel::kKeyOffset;
  header.bad_offset_index = 2;
  header.bad_offset_value = 160;
  REQUIRE(device.upload(workspace.address, &header, sizeof header).ok());
  write_report(report(), kernel::kKeyOffset, 2, 160);
  CHECK(contains(status(device, workspace, kStream).message(), "key_offset[2] is 160"));
  CHECK(device.synchronize(kStream).ok());
  // An earlier call's is still to be told.
  write_report(report(), kernel::kKeyOffset, 1, 600);
  CHECK(contains(status(device, workspace, kStream).message(), "key_offset[2] is 160"));
  CHECK(contains(device.synchronize(kStream).message(), "key_offset[1] is 600"));
}

TEST_CASE("of several threads on a stream one is told") {
  Device device = warm_device();
  REQUIRE(run(device).ok());
  for (int round = 0; round < 200; ++round) {
    write_report(report(), kernel::kKeyOffset, round, 3 * round);
    std::atomic<int> told{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] { told += device.synchronize(kStream).ok() ? 0 : 1; });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(told == 1);
  }
}

TEST_CASE("while a graph is captured nothing is read, and its launches report nowhere") {
  Device device = warm_device();
  REQUIRE(run(device).ok());
  write_report(report(), kernel::kKeyOffset, 2, 9);
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(run(device).ok());
  CHECK(report() == nullptr);
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(contains(run(device).message(), "key_offset[2] is 9"));
}

TEST_CASE("a device that maps no host memory works without reports") {
  test::reset_fake_driver();
  fake_driver().maps_host_memory = false;
  Device device = test::attach_fake_device();
  CHECK(run(device).ok());
  CHECK(report() == nullptr);
  CHECK(device.synchronize(kStream).ok());
  CHECK(fake_driver().count("cuMemHostAlloc") == 0);
}

TEST_CASE("the reports' memory is a device's own, and goes with it") {
  {
    Device device = warm_device();
    CHECK(fake_driver().host_blocks.size() == 1);
    Device second = test::attach_fake_device();
    CHECK(run(device).ok());
    kernel::OffsetReport* const of_first = report();
    CHECK(run(second).ok());
    CHECK(report() != of_first);
    CHECK(fake_driver().host_blocks.size() == 2);
  }
  CHECK(fake_driver().host_blocks.empty());
  test::reset_fake_driver();
  for (const char* call : {"cuMemHostAlloc", "cuMemHostGetDevicePointer"}) {
    fake_driver().failures = {{call, CUDA_ERROR_OUT_OF_MEMORY}};
    Device device = test::attach_fake_device();
    CHECK(
        run(device).message() ==
        "mapping host memory for what is found in offsets on cuda:0: CUDA_ERROR_OUT_OF_MEMORY (as injected)");
    CHECK(fake_driver().host_blocks.empty());
    fake_driver().failures.clear();
    CHECK(run(device).ok());
  }
}

TEST_CASE("JFA_CHECK_OFFSETS=1: the call itself waits and tells, but not while a graph is captured") {
  test::reset_fake_driver();
  for (const bool maps_host_memory : {true, false}) {
    fake_driver().maps_host_memory = maps_host_memory;
    auto impl = attach_with("1");
    REQUIRE(impl.ok());
    Device device(*impl);
    const Workspace workspace = workspace_for(device, call_of());
    kernel::WorkspaceHeader header{};
    header.bad_offset_name = kernel::kQueryOffset;
    header.bad_offset_index = 3;
    header.bad_offset_value = 301;
    CHECK(run(device).ok());
    CHECK(fake_driver().count("cuStreamSynchronize") == 1);
    REQUIRE(device.upload(workspace.address, &header, sizeof header).ok());
    CHECK(contains(run(device, kStream, workspace).message(), "query_offset[3] is 301"));
    fake_driver().calls.clear();
    fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(run(device, kStream, workspace).ok());
    CHECK(fake_driver().count("cuStreamSynchronize") == 0);
    fake_driver().capture = CU_STREAM_CAPTURE_STATUS_NONE;
    fake_driver().calls.clear();
  }
  for (const char* off : {"", "0"}) CHECK_FALSE(attach_with(off).value()->check_offsets);
  CHECK(attach_with("yes").status().message() == "JFA_CHECK_OFFSETS is 'yes', neither 0 nor 1");
}
