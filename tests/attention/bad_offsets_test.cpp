// Bad offsets of calls without a workspace of the caller's, end to end: every prepare entry tells the host.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tests/attention/backward_harness.h"
#include "tests/attention/guarded_memory.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

// A call on flat tensors and everything else that a backward takes.
struct Setup {
  explicit Setup(Problem given, Device on = test_device())
      : device(std::move(on)),
        problem(std::move(given)),
        query(device, problem.query, std::nullopt, problem.dtype),
        key(device, problem.key, std::nullopt, problem.dtype),
        value(device, problem.value, std::nullopt, problem.dtype),
        output(device, output_shape(), std::nullopt, problem.dtype),
        output_grad(device, output_shape(), std::nullopt, problem.dtype),
        query_grad(device, problem.query, std::nullopt, problem.dtype),
        key_grad(device, problem.key, std::nullopt, problem.dtype),
        value_grad(device, problem.value, std::nullopt, problem.dtype),
        lse(device, static_cast<std::uint64_t>(output_shape().rows * problem.query.heads) * 4, 512),
        query_offset(device, problem.query_offset, OffsetType::int32),
        key_offset(device, problem.key_offset, OffsetType::int64) {
    query.fill(problem.query);
    key.fill(problem.key);
    value.fill(problem.value);
    for (TensorOnDevice* tensor :
         {&query, &key, &value, &output, &output_grad, &query_grad, &key_grad, &value_grad})
      tensor->upload();
    lse.upload();
    call.query = query.tensor();
    call.key = key.tensor();
    call.value = value.tensor();
    if (!problem.broadcast_q) call.query_offset = query_offset.offsets();
    call.key_offset = key_offset.offsets();
    call.broadcast_q = problem.broadcast_q;
  }

  HostTensor output_shape() const {
    return HostTensor(reference::output_rows(problem), problem.query.heads, problem.query.head_dim);
  }
  Status run_forward(Stream stream = nullptr) {
    return forward(device, call, output.tensor(), lse.address(), {}, stream);
  }
  Status run_backward(Stream stream = nullptr) {
    return backward(device, call, output.tensor(), lse.address(), OutputGradient::of(output_grad.tensor()), 0,
                    query_grad.tensor(), key_grad.tensor(), value_grad.tensor(), {}, stream);
  }
  bool wrote(TensorOnDevice& tensor) {
    HostTensor values;
    Violations violations;
    return tensor.collect("a result", std::vector<bool>(static_cast<std::size_t>(tensor.tensor().rows), true),
                          values, violations);
  }

  Device device;
  Problem problem;
  TensorOnDevice query, key, value, output, output_grad, query_grad, key_grad, value_grad;
  GuardedBuffer lse;
  OffsetsOnDevice query_offset, key_offset;
  AttentionCall call;
};

Problem random_problem(const Lengths& query, const Lengths& key) {
  Problem problem = flat_problem(query, key, {2, 2}, 64);
  randomize(problem, 3);
  return problem;
}

void check_bad(const Status& status, const std::string& offset) {
  CHECK(status.kind() == ErrorKind::kInvalidArgument);
  CHECK_MESSAGE(status.message().starts_with(offset + ": "), status.message(), " ", status.detail());
}

// A stream of its own.
class OwnStream {
 public:
  explicit OwnStream(Device& device) : impl_(device.impl()) {
    impl_.with_context("making a stream", [&] { return impl_.driver.cuStreamCreate(&stream_, 0); })
        .or_throw();
  }
  ~OwnStream() {
    (void)impl_.with_context("destroying a stream", [&] { return impl_.driver.cuStreamDestroy(stream_); });
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Device::Impl& impl_;
  CUstream stream_ = nullptr;
};

TEST_CASE("forward: what is wrong with the offsets is heard, and only what is wrong is not computed") {
  Problem bad = random_problem({3, 4}, {4, 4});
  bad.key_offset = {0, 4, 9};
  Setup wrong(bad);
  Setup right(random_problem({3, 4}, {4, 4}));
  Device& device = wrong.device;
  const OwnStream other(device);

  REQUIRE(wrong.run_forward().ok());
  CHECK(right.run_forward(other.get()).ok());
  CHECK(device.synchronize(other.get()).ok());
  check_bad(device.synchronize(), "key_offset[2] is 9");
  CHECK(device.synchronize().ok());
  CHECK_FALSE(wrong.wrote(wrong.output));
  CHECK(right.wrote(right.output));

  REQUIRE(wrong.run_forward(other.get()).ok());
  Setup late(random_problem({3, 4}, {4, 4}));
  check_bad(late.run_forward(other.get()), "key_offset[2] is 9");
  CHECK_FALSE(late.wrote(late.output));
  CHECK(late.run_forward(other.get()).ok());
  CHECK(device.synchronize(other.get()).ok());
  CHECK(late.wrote(late.output));
}

TEST_CASE("of several bad calls in a row the first is told") {
  Problem first = random_problem({3, 4}, {4, 4}), second = first;
  first.query_offset = {-2, 3, 7};
  second.query_offset = {0, 8, 7};
  Setup a(first), b(second);
  // The second one is enqueued only if the first is not heard of before: where work is done at once, it is.
  REQUIRE(a.run_forward().ok());
  const Status told = b.run_forward();
  check_bad(told.ok() ? a.device.synchronize() : told, "query_offset[0] is -2");
  CHECK(a.device.synchronize().ok());
  REQUIRE(b.run_forward().ok());
  check_bad(b.device.synchronize(), "query_offset[1] is 8");
}

TEST_CASE("a stream at a destroyed one's address is not told of its offsets") {
  Problem bad = random_problem({3, 4}, {4, 4});
  bad.key_offset = {0, 9, 8};
  Setup wrong(bad);
  for (int i = 0; i < 4; ++i) {
    const OwnStream stream(wrong.device);
    REQUIRE(wrong.run_forward(stream.get()).ok());
  }
  const OwnStream stream(wrong.device);
  CHECK(wrong.device.synchronize(stream.get()).ok());
}

TEST_CASE("64-bit offsets that are declared as 32-bit ones are heard of") {
  Setup wrong(random_problem({3, 4}, {4, 4}));
  wrong.call.key_offset.type = OffsetType::int32;  // 0, 0, 4 in place of 0, 4, 8: that is all in order
  REQUIRE(wrong.run_forward().ok());
  CHECK(wrong.device.synchronize().ok());
  Setup longer(random_problem({3, 4, 1}, {4, 4, 2}));
  longer.call.key_offset.type = OffsetType::int32;  // 0, 0, 4, 0
  REQUIRE(longer.run_forward().ok());
  check_bad(longer.device.synchronize(), "key_offset[3] is 0");
}

TEST_CASE("backward: every prepare entry tells, and no gradient is written") {
  Problem by_length = random_problem({3, 4}, {140, 4});
  by_length.key_offset = {0, 145, 144};
  Problem short_ones = random_problem({3, 4}, {14, 4});
  short_ones.query_offset = {0, 8, 8};
  Problem shared = flat_broadcast_problem(5, {3, 6}, {2, 2}, 64);
  shared.key_offset = {-1, 3, 9};
  Problem large = flat_broadcast_problem(130, {3, 6}, {2, 2}, 64);
  large.key_offset = {0, 3, 10};
  const struct {
    const Problem& problem;
    const char* offset;
  } cases[] = {{by_length, "key_offset[1] is 145"},
               {short_ones, "query_offset[1] is 8"},
               {shared, "key_offset[0] is -1"},
               {large, "key_offset[2] is 10"}};
  for (const auto& [problem, offset] : cases) {
    const auto which = offset;
    CAPTURE(which);
    Setup wrong(problem);
    REQUIRE(wrong.run_backward().ok());
    check_bad(wrong.run_backward(), offset);
    CHECK(wrong.device.synchronize().ok());
    for (TensorOnDevice* gradient : {&wrong.query_grad, &wrong.key_grad, &wrong.value_grad})
      CHECK_FALSE(wrong.wrote(*gradient));
  }
}

TEST_CASE("JFA_CHECK_OFFSETS=1: the call tells of its own offsets") {
  const Device::Impl& impl = test_device().impl();
  setenv("JFA_CHECK_OFFSETS", "1", 1);
  auto attached = Device::Impl::attach({impl.name, &impl.driver, impl.device, impl.image_kind, impl.report});
  unsetenv("JFA_CHECK_OFFSETS");
  Device device(attached.value());
  Problem bad = random_problem({3, 4}, {4, 4});
  bad.key_offset = {0, 4, 9};
  Setup wrong(bad, device), right(random_problem({3, 4}, {4, 4}), device);
  check_bad(wrong.run_forward(), "key_offset[2] is 9");
  check_bad(wrong.run_backward(), "key_offset[2] is 9");
  CHECK(right.run_forward().ok());
  CHECK(right.run_backward().ok());
  CHECK(device.synchronize().ok());
  CHECK(right.wrote(right.output));
}

TEST_CASE("a bad offset of a caller's workspace is heard of on the stream, too, unless status() told it") {
  Problem bad = random_problem({3, 4}, {4, 4});
  bad.key_offset = {0, 4, 9};
  Setup wrong(bad);
  const std::uint64_t bytes = workspace_bytes(wrong.call).value();
  const Workspace workspace{wrong.device.allocate(bytes).value(), bytes};
  const auto run = [&] { return forward(wrong.device, wrong.call, wrong.output.tensor(), 0, workspace); };
  REQUIRE(run().ok());
  check_bad(wrong.device.synchronize(), "key_offset[2] is 9");
  REQUIRE(run().ok());
  check_bad(status(wrong.device, workspace), "key_offset[2] is 9");
  CHECK(wrong.device.synchronize().ok());
  wrong.device.free(workspace.address).or_throw();
}

}  // namespace
}  // namespace jfa::test
