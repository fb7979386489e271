// [gpu] The runtime on a real driver: streams, captures, contexts, threads, fork. Built and registered with
// ctest when JFA_TEST_GPU is on; without a GPU every case fails.
#include <cuda.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "jfa/attention.h"
#include "runtime/device.h"

namespace {

using namespace jfa;

#define JFA_QUOTE(name) #name
#define JFA_VERSIONED_NAME(name) JFA_QUOTE(name)
// Driver calls that the library itself does not make.
#define EXTRA_CALL(name) \
  reinterpret_cast<decltype(&::name)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), JFA_VERSIONED_NAME(name)))

Device gpu() {
  Result<Device> device = Device::open("cuda:0");
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  return *device;
}
const DriverTable& driver() { return gpu().impl().driver; }

void check(CUresult result) { REQUIRE_MESSAGE(result == CUDA_SUCCESS, describe(driver(), result)); }

// Makes the device's context current for a test's own driver calls.
struct Current {
  Device device = gpu();
  ContextGuard guard{device.impl().driver, device.impl().context};
};

using Bf16 = std::uint16_t;
Bf16 to_bf16(float value) { return static_cast<Bf16>(std::bit_cast<std::uint32_t>(value) >> 16); }
float to_float(Bf16 bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Zero queries over values that are their row's number modulo 128: every output is the mean of what its row
// sees.
class FlatCall {
 public:
  FlatCall(Device device, std::int64_t rows, std::int64_t head_dim, std::size_t batch)
      : device_(device), rows_(rows), head_dim_(head_dim), batch_(batch) {
    const std::size_t elements = static_cast<std::size_t>(rows * kHeads * head_dim);
    std::vector<Bf16> zeros(elements, 0), values(elements);
    for (std::size_t i = 0; i < elements; ++i)
      values[i] = to_bf16(static_cast<float>(static_cast<std::int64_t>(i) / (kHeads * head_dim) % 128));
    const auto tensor = [&](const std::vector<Bf16>& host) {
      const std::uint64_t address = device_.allocate(elements * 2).value();
      device_.upload(address, host.data(), elements * 2).or_throw();
      return Tensor::packed(address, rows, kHeads, head_dim, DType::bf16);
    };
    call_.query = tensor(zeros);
    call_.key = tensor(zeros);
    call_.value = tensor(values);
    output_ = tensor(zeros);
    const std::uint64_t offsets = device_.allocate((batch + 1) * 4).value();
    call_.query_offset =
        call_.key_offset = {offsets, static_cast<std::int64_t>(batch + 1), OffsetType::int32};
    lse_ = device_.allocate(static_cast<std::uint64_t>(rows * kHeads) * 4).value();
    workspace_.bytes = workspace_bytes(call_).value();
    workspace_.address = device_.allocate(workspace_.bytes).value();
  }

  void set_lengths(const std::vector<int>& lengths) {
    REQUIRE(lengths.size() == batch_);
    lengths_ = lengths;
    std::vector<int> offsets{0};
    for (int length : lengths) offsets.push_back(offsets.back() + length);
    device_.upload(call_.query_offset.address, offsets.data(), offsets.size() * 4).or_throw();
    device_.fill(output_.address, 0xff, static_cast<std::uint64_t>(rows_ * kHeads * head_dim_ * 2))
        .or_throw();
  }

  Status run(Stream stream, bool own_workspace = true) {
    return forward(device_, call_, output_, lse_, own_workspace ? workspace_ : Workspace{}, stream);
  }

  // Every row that a sequence owns holds its mean, every other one what was there before.
  void check_result() {
    std::vector<Bf16> output(static_cast<std::size_t>(rows_ * kHeads * head_dim_));
    device_.download(output.data(), output_.address, output.size() * 2).or_throw();
    std::vector<float> lse(static_cast<std::size_t>(rows_ * kHeads));
    device_.download(lse.data(), lse_, lse.size() * 4).or_throw();
    std::int64_t row = 0, wrong = 0;
    for (int length : lengths_) {
      double mean = 0;
      for (std::int64_t j = row; j < row + length; ++j) mean += static_cast<double>(j % 128) / length;
      for (const std::int64_t end = row + length; row < end; ++row) {
        for (std::int64_t i = 0; i < kHeads * head_dim_; ++i) {
          const float got = to_float(output[static_cast<std::size_t>(row * kHeads * head_dim_ + i)]);
          wrong += !(std::abs(got - mean) <= mean / 128 + 1e-3);
        }
        for (std::int64_t head = 0; head < kHeads; ++head)
          wrong += !(std::abs(lse[static_cast<std::size_t>(head * rows_ + row)] - std::log(length)) < 1e-3);
      }
    }
    CHECK(wrong == 0);
    std::int64_t touched = 0;
    for (std::size_t i = static_cast<std::size_t>(row * kHeads * head_dim_); i < output.size(); ++i)
      touched += output[i] != 0xffff;
    CHECK(touched == 0);
  }

  Workspace workspace() const { return workspace_; }

 private:
  static constexpr std::int64_t kHeads = 2;
  Device device_;
  std::int64_t rows_, head_dim_;
  std::size_t batch_;
  std::vector<int> lengths_;
  AttentionCall call_;
  Tensor output_;
  std::uint64_t lse_ = 0;
  Workspace workspace_;
};

CUstream make_stream() {
  const Current current;
  CUstream stream = nullptr;
  check(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

}  // namespace

// First, while nothing of its kind is loaded.
TEST_CASE(
    "bug-pool 104, 106: a cold capture is refused and survives, a captured graph serves other lengths") {
  Device device = gpu();
  FlatCall flat(device, 66, 24, 2);
  flat.set_lengths({5, 3});
  const CUstream stream = make_stream();
  const Current current;
  check(EXTRA_CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const Status cold = flat.run(stream);
  CHECK(cold.kind() == ErrorKind::kUnavailable);
  CHECK_MESSAGE(cold.message().find("call jfa::prepare(device, configuration)") != std::string::npos,
                cold.message());

  // Another thread loads it; this thread's capture goes on (bug-pool 107).
  Configuration configuration;
  configuration.head_dim = 24;
  std::thread([&] {
    const Status prepared = prepare(device, configuration);
    CHECK_MESSAGE(prepared.ok(), prepared.message());
  }).join();
  for (const bool own_workspace : {true, false}) {
    const Status captured = flat.run(stream, own_workspace);
    CHECK_MESSAGE(captured.ok(), captured.message());
    CUgraph graph = nullptr;
    check(EXTRA_CALL(cuStreamEndCapture)(stream, &graph));
    CUgraphExec executable = nullptr;
    check(EXTRA_CALL(cuGraphInstantiateWithFlags)(&executable, graph, 0));
    for (const std::vector<int>& lengths : {std::vector{5, 3}, {64, 1}, {0, 64}, {0, 0}, {65, 1}}) {
      flat.set_lengths(lengths);
      check(EXTRA_CALL(cuGraphLaunch)(executable, stream));
      device.synchronize(stream).or_throw();
      flat.check_result();
    }
    check(EXTRA_CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  CUgraph graph = nullptr;
  check(EXTRA_CALL(cuStreamEndCapture)(stream, &graph));
}

TEST_CASE("every head_dim on a stream of our own, the default stream and the thread's default stream") {
  Device device = gpu();
  for (const std::int64_t head_dim : {8, 32, 40, 64, 96, 128}) {
    CAPTURE(head_dim);
    FlatCall flat(device, 1500, head_dim, 5);
    for (const CUstream stream : {make_stream(), CUstream(nullptr), CU_STREAM_PER_THREAD, CU_STREAM_LEGACY}) {
      flat.set_lengths({1, 0, 700, 128, 300});
      const Status done = flat.run(stream);
      REQUIRE_MESSAGE(done.ok(), done.message(), "\n", done.detail());
      CHECK(status(device, flat.workspace(), stream).ok());
      flat.check_result();
    }
  }
}

TEST_CASE("few items with many keys are cut into parts and merged") {
  Device device = gpu();
  FlatCall flat(device, 40000, 64, 2);
  flat.set_lengths({39000, 100});
  REQUIRE(flat.run(nullptr).ok());
  REQUIRE(device.synchronize().ok());
  flat.check_result();
}

TEST_CASE("bug-pool 102, 103, 119: a fresh thread works, and whatever context was current stays so") {
  Device device = gpu();
  FlatCall flat(device, 300, 64, 2);
  flat.set_lengths({100, 200});
  std::thread([&] {
    CHECK(flat.run(nullptr).ok());
    CUcontext context = nullptr;
    CHECK(driver().cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context == nullptr);
  }).join();
  CHECK(device.synchronize().ok());
  flat.check_result();
}

TEST_CASE("bug-pool 117: two streams, one kernel, a thousand overlapping pairs without a workspace") {
  Device device = gpu();
  FlatCall left(device, 700, 64, 3), right(device, 700, 64, 3);
  left.set_lengths({300, 0, 400});
  right.set_lengths({10, 600, 90});
  const CUstream streams[] = {make_stream(), make_stream()};
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(left.run(streams[0], false).ok());
    REQUIRE(right.run(streams[1], false).ok());
  }
  CHECK(device.synchronize(streams[0]).ok());
  CHECK(device.synchronize(streams[1]).ok());
  left.check_result();
  right.check_result();
}

TEST_CASE("bug-pool 28, 29: bad offsets compute nothing and are named") {
  Device device = gpu();
  FlatCall flat(device, 100, 64, 2);
  flat.set_lengths({80, 80});
  REQUIRE(flat.run(nullptr).ok());
  const Status bad = status(device, flat.workspace());
  CHECK(bad.kind() == ErrorKind::kInvalidArgument);
  CHECK_MESSAGE(bad.message().starts_with("query_offset[2] is 160"), bad.message());
}

TEST_CASE("bad offsets without a workspace of the caller's are told once, and to their stream alone") {
  Device device = gpu();
  FlatCall bad(device, 100, 64, 2), good(device, 100, 64, 2);
  bad.set_lengths({80, 80});
  good.set_lengths({80, 20});
  const CUstream stream = make_stream(), other = make_stream();
  const auto told = [](const Status& status) {
    return status.kind() == ErrorKind::kInvalidArgument &&
           status.message().starts_with("query_offset[2] is 160: ");
  };
  for (int i = 0; i < 100; ++i) {
    REQUIRE(bad.run(stream, false).ok());
    REQUIRE(good.run(other, false).ok());
    REQUIRE(device.synchronize(other).ok());
    REQUIRE(told(device.synchronize(stream)));
    REQUIRE(device.synchronize(stream).ok());
  }
  good.check_result();
  // The next call tells it once the kernel has run, whoever waits for that.
  REQUIRE(bad.run(stream, false).ok());
  {
    const Current current;
    check(driver().cuStreamSynchronize(stream));
  }
  CHECK(told(good.run(stream, false)));
  CHECK(good.run(stream, false).ok());
  CHECK(device.synchronize(stream).ok());
}

TEST_CASE("bad offsets of a captured call are in its workspace, and nobody else hears of them") {
  Device device = gpu();
  FlatCall flat(device, 100, 64, 2);
  flat.set_lengths({80, 20});
  REQUIRE(flat.run(nullptr).ok());  // loads the kernel
  REQUIRE(device.synchronize().ok());
  const CUstream stream = make_stream(), other = make_stream();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  {
    const Current current;
    check(EXTRA_CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REQUIRE(flat.run(stream).ok());
    // Another thread's call asks after its own stream meanwhile.
    std::thread([&] {
      const Status beside = flat.run(other);
      CHECK_MESSAGE(beside.ok(), beside.message());
    }).join();
    check(EXTRA_CALL(cuStreamEndCapture)(stream, &graph));
    check(EXTRA_CALL(cuGraphInstantiateWithFlags)(&executable, graph, 0));
    device.synchronize(other).or_throw();
    flat.set_lengths({80, 80});
    check(EXTRA_CALL(cuGraphLaunch)(executable, stream));
  }
  CHECK(device.synchronize(stream).ok());
  CHECK(status(device, flat.workspace(), stream).message().starts_with("query_offset[2] is 160: "));
}

TEST_CASE("out of memory: an error, and the process goes on") {
  Device device = gpu();
  const Result<std::uint64_t> address = device.allocate(std::uint64_t{1} << 46);
  REQUIRE_FALSE(address.ok());
  CHECK(address.status().kind() == ErrorKind::kUnavailable);
  FlatCall flat(device, 100, 64, 1);
  flat.set_lengths({100});
  CHECK(flat.run(nullptr).ok());
  CHECK(device.synchronize().ok());
  flat.check_result();
}

TEST_CASE("bug-pool 114: used after fork, a clear error") {
  Device device = gpu();
  const pid_t child = fork();
  if (child == 0) {
    const bool clear = !device.allocate(1).ok() && !Device::open("cuda:0").ok() &&
                       Device::open("cuda:0").status().message().find("fork()") != std::string::npos;
    _exit(clear ? 0 : 1);
  }
  int child_status = 0;
  REQUIRE(waitpid(child, &child_status, 0) == child);
  CHECK(child_status == 0);
}

TEST_CASE("host time of a call after the first") {
  Device device = gpu();
  FlatCall flat(device, 300, 64, 2);
  flat.set_lengths({100, 200});
  const CUstream stream = make_stream();
  const Current current;  // as in a program that works with the primary context
  REQUIRE(flat.run(stream).ok());
  for (const bool own_workspace : {true, false}) {
    double best_us = 1e9;
    for (int round = 0; round < 20; ++round) {
      REQUIRE(device.synchronize(stream).ok());
      constexpr int kCalls = 100;  // few enough for the launch queue not to fill
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) REQUIRE(flat.run(stream, own_workspace).ok());
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      best_us = std::min(best_us, elapsed.count() / kCalls);
    }
    std::printf("forward(), %s workspace: %.2f us of host time\n", own_workspace ? "caller's" : "pool's",
                best_us);
    CHECK(best_us < 100);
  }
}
