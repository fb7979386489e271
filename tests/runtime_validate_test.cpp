// Every rule of the contract that the host can check: the refusal names the argument and its value.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "runtime/validate.h"

namespace {

using namespace jfa;

AttentionCall good_call() {
  AttentionCall call;
  call.query = Tensor::packed(0x1000, 100, 6, 40, DType::fp16);
  call.key = Tensor::packed(0x2000, 200, 2, 40, DType::fp16);
  call.value = Tensor::packed(0x3000, 200, 2, 40, DType::fp16);
  call.query_offset = {0x4000, 4, OffsetType::int32};
  call.key_offset = {0x5000, 4, OffsetType::int64};
  return call;
}

Tensor good_output() { return Tensor::packed(0x6000, 100, 6, 40, DType::fp16); }

std::string refusal(const std::function<void(AttentionCall&)>& change) {
  AttentionCall call = good_call();
  change(call);
  const Result<ValidCall> valid = validate(call);
  return valid.ok() ? "accepted" : valid.status().message();
}

std::string output_refusal(const std::function<void(Tensor&)>& change, bool has_output_offset = false) {
  const Result<ValidCall> valid = validate(good_call());
  REQUIRE(valid.ok());
  Tensor output = good_output();
  change(output);
  const Result<Tensor> checked = validate_output(*valid, has_output_offset, output, 0);
  return checked.ok() ? "accepted" : checked.status().message();
}

}  // namespace

TEST_CASE("what keeps the contract is accepted") {
  CHECK(refusal([](AttentionCall&) {}) == "accepted");
  CHECK(output_refusal([](Tensor&) {}) == "accepted");
  // Views: head-major, a fused QKV, one row for all.
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = 40, c.key.head_stride = 8000; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = 6 * 40 * 3; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = c.value.head_stride = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.window = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.scale = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.scale = -3.5; }) == "accepted");
}

TEST_CASE("tensors") {
  CHECK(refusal([](AttentionCall& c) { c.key.dtype = DType::bf16; }) ==
        "key.dtype bf16 differs from query.dtype fp16");
  CHECK(refusal([](AttentionCall& c) { c.value.dtype = static_cast<DType>(7); }) ==
        "value.dtype 7 is neither bf16 nor fp16");
  CHECK(refusal([](AttentionCall& c) { c.value.head_dim = 48; }) ==
        "value.head_dim 48 differs from query.head_dim 40");
  CHECK(refusal([](AttentionCall& c) { c.query.rows = -1; }) == "query.rows -1 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.rows = std::int64_t{1} << 30; }) ==
        "query.rows 1073741824 is not below 2^30");
  CHECK(refusal([](AttentionCall& c) { c.key.heads = -2; }) == "key.heads -2 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.heads = 1 << 21; }) == "query.heads 2097152 is above 1048576");
  CHECK(refusal([](AttentionCall& c) { c.query.head_dim = 0; }) == "query.head_dim 0 is not positive");
  CHECK(refusal([](AttentionCall& c) { c.value.rows = 199; }) == "value.rows 199 differs from key.rows 200");
  CHECK(refusal([](AttentionCall& c) { c.query.address = 0; }) ==
        "query.address is null although it has 100 rows of 6 heads");
}

TEST_CASE("bug-pool 57: addresses that are not 16-byte aligned") {
  CHECK(refusal([](AttentionCall& c) { c.query.address += 2; }) ==
        "query.address 0x1002 is not a multiple of 16 bytes");
  CHECK(refusal([](AttentionCall& c) { c.value.address += 8; }) ==
        "value.address 0x3008 is not a multiple of 16 bytes");
  CHECK(output_refusal([](Tensor& o) { o.address += 4; }) ==
        "output.address 0x6004 is not a multiple of 16 bytes");
}

TEST_CASE("bug-pool 112: a row stride of head_dim + 1, and other strides") {
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = 41; }) ==
        "key.row_stride 41 is not a multiple of 8 elements (16 bytes)");
  CHECK(refusal([](AttentionCall& c) { c.key.head_stride = 12; }) ==
        "key.head_stride 12 is not a multiple of 8 elements (16 bytes)");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = -240; }) == "query.row_stride -240 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = std::int64_t{1} << 33; }) ==
        "query.row_stride 8589934592 is not below 8589934592 elements");
  CHECK(refusal([](AttentionCall& c) { c.query.head_stride = std::int64_t{1} << 39; }) ==
        "query.head_stride 549755813888 is not below 549755813888 elements");
}

TEST_CASE("sizes that overflow are refused by name") {
  const std::string spans = refusal([](AttentionCall& c) {
    c.query.rows = (1 << 30) - 1;
    c.query.row_stride = (std::int64_t{1} << 33) - 8;
  });
  CHECK(spans.starts_with("query: 1073741823 rows at stride 8589934584"));
  CHECK(refusal([](AttentionCall& c) {
          c.key_offset.count = c.query_offset.count = std::int64_t{1} << 32;
        }) == "key_offset.count 4294967296 is above 2147483648");
  AttentionCall shared = good_call();
  shared.broadcast_q = true;
  shared.query.rows = 1 << 20;
  shared.key_offset.count = (1 << 12) + 1;
  const Result<ValidCall> valid = validate(shared);
  REQUIRE_FALSE(valid.ok());
  CHECK(valid.status().kind() == ErrorKind::kUnsupported);
  CHECK(valid.status().message() ==
        "a batch of 4096 times query.rows 1048576 makes 4294967296 output rows, not below 2^30");
}

TEST_CASE("bug-pool 27: head counts that do not divide are refused with both counts") {
  const auto heads = [](std::int64_t query, std::int64_t key) {
    return refusal([=](AttentionCall& c) {
      c.query.heads = query;
      c.key.heads = c.value.heads = key;
    });
  };
  CHECK(heads(33, 2) == "query.heads 33 is not a multiple of key.heads 2");
  CHECK(heads(3, 2) == "query.heads 3 is not a multiple of key.heads 2");
  CHECK(heads(2, 3) == "query.heads 2 is not a multiple of key.heads 3");
  CHECK(heads(2, 0) == "query.heads 2 is not a multiple of key.heads 0");
  CHECK(heads(0, 0) == "accepted");
  CHECK(heads(0, 3) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.value.heads = 1; }) == "value.heads 1 differs from key.heads 2");
}

TEST_CASE("bug-pool 26: missing offsets are refused, not defaulted") {
  CHECK(refusal([](AttentionCall& c) { c.query_offset = {}; }) ==
        "query_offset.count 0 is below 1: a batch of n sequences has n + 1 offsets");
  CHECK(refusal([](AttentionCall& c) { c.key_offset.address = 0; }) ==
        "key_offset.address is null although its count is 4");
  CHECK(refusal([](AttentionCall& c) { c.output_offset = Offsets{}; }) ==
        "output_offset.count 0 is below 1: a batch of n sequences has n + 1 offsets");
}

TEST_CASE("offsets") {
  CHECK(refusal([](AttentionCall& c) { c.query_offset.count = 5; }) ==
        "query_offset.count 5 differs from key_offset.count 4");
  CHECK(refusal([](AttentionCall& c) {
          c.output_offset = Offsets{0x7000, 3, OffsetType::int32};
        }) == "output_offset.count 3 differs from key_offset.count 4");
  CHECK(refusal([](AttentionCall& c) { c.key_offset.address = 0x5004; }) ==
        "key_offset.address 0x5004 is not a multiple of 8 bytes");
  CHECK(refusal([](AttentionCall& c) { c.query_offset.address = 0x4002; }) ==
        "query_offset.address 0x4002 is not a multiple of 4 bytes");
  CHECK(refusal([](AttentionCall& c) { c.query_offset.type = static_cast<OffsetType>(9); }) ==
        "query_offset.type 9 is neither int32 nor int64");
  // Not read with broadcast_q.
  CHECK(refusal([](AttentionCall& c) { c.broadcast_q = true, c.query_offset = {}; }) == "accepted");
}

TEST_CASE("scale: any finite number that fp32 holds") {
  CHECK(refusal([](AttentionCall& c) { c.scale = std::numeric_limits<double>::infinity(); }) ==
        "scale inf is not a finite fp32 number");
  CHECK(refusal([](AttentionCall& c) { c.scale = std::nan(""); }) == "scale nan is not a finite fp32 number");
  CHECK(refusal([](AttentionCall& c) { c.scale = 1e39; }) == "scale 1e+39 is not a finite fp32 number");
  const Result<ValidCall> valid = validate(good_call());
  REQUIRE(valid.ok());
  CHECK(valid->scale == doctest::Approx(1 / std::sqrt(40.0)));
}

TEST_CASE("bug-pool 39: a negative window is refused, 0 is not") {
  Configuration configuration;
  configuration.window = -3;
  CHECK(supported(configuration).message().find("window -3 is negative") != std::string::npos);
  configuration.window = 0;
  CHECK(supported(configuration).ok());
}

TEST_CASE("bug-pool 32: head_dims are right or refused, and the list can be asked for") {
  Configuration configuration;
  for (const std::int64_t head_dim : {8, 24, 40, 72, 96, 120}) {
    configuration.head_dim = head_dim;
    CHECK(supported(configuration).ok());
  }
  for (const std::int64_t head_dim : {0, -8, 12, 136, 1 << 20}) {
    configuration.head_dim = head_dim;
    const Status status = supported(configuration);
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().find("head_dim " + std::to_string(head_dim)) != std::string::npos);
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t head_dim = 8; head_dim <= 128; head_dim += 8) expected.push_back(head_dim);
  CHECK(supported_head_dims() == expected);
}

TEST_CASE("the output") {
  CHECK(output_refusal([](Tensor& o) { o.rows = 99; }) ==
        "output.rows 99 differs from the 100 rows of the call");
  CHECK(output_refusal([](Tensor& o) { o.rows = 500; }, true) == "accepted");
  CHECK(output_refusal([](Tensor& o) { o.heads = 2; }) == "output.heads 2 differs from query.heads 6");
  CHECK(output_refusal([](Tensor& o) { o.head_dim = 32; }) ==
        "output.head_dim 32 differs from query.head_dim 40");
  CHECK(output_refusal([](Tensor& o) { o.dtype = DType::bf16; }) ==
        "output.dtype bf16 differs from query.dtype fp16");
  CHECK(output_refusal([](Tensor& o) { o.row_stride = 0; }) ==
        "output.row_stride 0 is below head_dim 40: rows would overlap");
  CHECK(output_refusal([](Tensor& o) { o.head_stride = 32; }) ==
        "output.head_stride 32 is below head_dim 40: heads would overlap");
  const Result<ValidCall> valid = validate(good_call());
  CHECK(validate_output(*valid, false, good_output(), 0x7002).status().message() ==
        "lse 0x7002 is not a multiple of 4 bytes");
}

TEST_CASE("bug-pool 24: strides of dimensions of extent 1 are ignored") {
  for (const std::int64_t stride : {1, 0, 999, -5}) {
    AttentionCall call = good_call();
    for (Tensor* tensor : {&call.query, &call.key, &call.value}) {
      tensor->rows = 1;
      tensor->row_stride = stride;
    }
    call.key.heads = call.value.heads = 1;
    call.key.head_stride = call.value.head_stride = stride;
    const Result<ValidCall> valid = validate(call);
    REQUIRE_MESSAGE(valid.ok(), valid.status().message());
    for (const Tensor* tensor : {&valid->query, &valid->key, &valid->value})
      CHECK(tensor->row_stride % 8 == 0);
    CHECK(valid->key.head_stride % 8 == 0);
    CHECK(valid->query.head_stride == 40);
  }
}

TEST_CASE("bug-pool 53: workspace of a skewed batch is a 64-bit number that follows the tokens") {
  AttentionCall call;
  const std::int64_t batch = 4096, rows = 131072 + 4095;
  call.query = Tensor::packed(0x1000, rows, 32, 128, DType::bf16);
  call.key = call.value = Tensor::packed(0x2000, 64 * batch, 32, 128, DType::bf16);
  call.query_offset = call.key_offset = {0x3000, batch + 1, OffsetType::int64};
  const Result<std::uint64_t> bytes = workspace_bytes(call);
  REQUIRE(bytes.ok());
  CHECK(*bytes < 1 << 20);
  CHECK(*bytes > 128);
}

TEST_CASE(
    "element counts past 2^31 and batches past 65,535 are right, work lists past 2^31 refused by name") {
  AttentionCall call = good_call();
  call.query = Tensor::packed(0x1000, 1 << 26, 64, 128, DType::bf16);
  call.key = call.value = Tensor::packed(0x2000, 1 << 26, 64, 128, DType::bf16);
  call.query_offset.count = call.key_offset.count = 100001;
  CHECK(workspace_bytes(call).ok());
  call.query_offset.count = call.key_offset.count = (1 << 26) + 1;
  const Result<std::uint64_t> refused = workspace_bytes(call);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().kind() == ErrorKind::kUnsupported);
  CHECK(refused.status().message().find("query.heads 64") != std::string::npos);
}
