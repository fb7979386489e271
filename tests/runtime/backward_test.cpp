// backward() on a fake driver: what it refuses, and what is launched with which arguments.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "tests/runtime/backward_support.h"

namespace {

using namespace jfa;
using test::address;
using test::Arguments;
using test::fake_driver;
using test::fresh_device;
using test::kAddress;
using test::kStream;
using test::launched;
using test::workspace_for;

std::string refusal(const std::function<void(Arguments&)>& spoil, Arguments arguments = Arguments()) {
  Device device = fresh_device();
  spoil(arguments);
  const Status status = arguments.run(device);
  CHECK(fake_driver().launches.empty());
  return status.ok() ? "accepted" : status.message();
}

}  // namespace

TEST_CASE("every entry in its order, with the call's numbers") {
  Device device = fresh_device();
  Arguments arguments;
  arguments.call.scale = -0.5;
  arguments.lse_grad = kAddress * 12;
  const Workspace workspace = workspace_for(device, arguments);
  const Status status = arguments.run(device, workspace);
  REQUIRE_MESSAGE(status.ok(), status.message(), status.detail());

  REQUIRE(launched() == std::vector<std::string>{"jfa_prepare_backward", "jfa_delta", "jfa_backward_short",
                                                 "jfa_backward_two_cta", "jfa_backward_keys",
                                                 "jfa_backward_queries"});
  const auto& launches = fake_driver().launches;
  for (const test::FakeLaunch& launch : launches) CHECK(launch.stream == kStream);
  const kernel::BackwardPrepareArguments& prepare = launches[0].backward_prepare;
  CHECK(launches[0].ctas == 1);
  CHECK(address(prepare.common.query_offset) == kAddress * 4);
  CHECK(prepare.common.query_offset_is_64 == 1);
  CHECK(address(prepare.common.key_offset) == kAddress * 5);
  CHECK(prepare.common.key_offset_is_64 == 0);
  CHECK(prepare.common.output_offset == nullptr);
  CHECK(prepare.common.batch == 3);
  CHECK(prepare.common.query_rows == 300);
  CHECK(prepare.common.key_rows == 500);
  CHECK(prepare.common.output_rows == 300);
  CHECK(prepare.common.part_capacity == 0);
  CHECK(prepare.common.split_tiles == nullptr);
  CHECK(address(prepare.common.header) == workspace.address);
  CHECK(prepare.query_parts == 0);

  const kernel::DeltaArguments& delta = launches[1].delta;
  CHECK(address(delta.output) == kAddress * 6);
  CHECK(address(delta.output_grad) == kAddress * 8);
  CHECK(delta.packed_output_grad == nullptr);
  CHECK(address(delta.lse_grad) == kAddress * 12);
  CHECK(delta.output_row_stride == 8 * 24);
  CHECK(delta.output_grad_head_stride == 24);
  CHECK(delta.output_grad_dim_stride == 1);
  CHECK(delta.head_dim == 24);

  CHECK(delta.query_tiles == prepare.common.tiles);  // only the rows that the last two entries read

  const kernel::ShortArguments& short_keys = launches[2].short_keys;
  CHECK(short_keys.header == prepare.common.header);
  CHECK(short_keys.tiles == prepare.short_tiles);
  CHECK(address(short_keys.lse) == kAddress * 7);
  CHECK(address(short_keys.lse_grad) == kAddress * 12);
  CHECK(short_keys.scale == -0.5F);
  CHECK(short_keys.scale_log2 == doctest::Approx(-0.5 * std::numbers::log2e));
  CHECK(short_keys.query_heads == 8);
  CHECK(short_keys.output_rows == 300);
  for (const std::size_t entry : {4, 5}) {
    const kernel::BackwardArguments& backward = launches[entry].backward;
    CHECK(launches[entry].ctas == 4);  // one a multiprocessor of the fake device; there are more items
    CHECK(backward.header == prepare.common.header);
    CHECK(backward.key_tiles == prepare.key_tiles);
    CHECK(backward.query_tiles == prepare.common.tiles);
    CHECK(backward.query_runs == prepare.query_runs);
    CHECK(address(backward.lse) == kAddress * 7);
    CHECK(backward.delta == delta.delta);
    CHECK(backward.scale == -0.5F);
    CHECK(backward.scale_log2 == doctest::Approx(-0.5 * std::numbers::log2e));
    CHECK(backward.query_heads == 8);
    CHECK(backward.output_rows == 300);
  }

  const auto addresses_of = [&](const test::FakeLaunch& launch) {
    std::vector<std::uint64_t> addresses;
    for (const std::uint64_t id : launch.map_ids)
      addresses.push_back(fake_driver().maps[id].address / kAddress);
    return addresses;
  };
  CHECK(addresses_of(launches[2]) == std::vector<std::uint64_t>{1, 2, 3, 6, 8, 9, 10, 11});
  CHECK(addresses_of(launches[4]) == std::vector<std::uint64_t>{1, 2, 3, 8, 10, 11});
  CHECK(addresses_of(launches[5]) == std::vector<std::uint64_t>{1, 2, 3, 8, 9});
  for (const std::size_t entry : {2, 4, 5})
    for (const std::uint64_t id : launches[entry].map_ids) CHECK(fake_driver().maps[id].box[2] == 64);
}

TEST_CASE("a call without room for a long sequence launches the entry for short ones alone") {
  const auto launched_with = [](std::int64_t key_rows, std::int64_t dim_stride) {
    Device device = fresh_device();
    Arguments arguments;
    for (Tensor* tensor :
         {&arguments.call.key, &arguments.call.value, &arguments.key_grad, &arguments.value_grad})
      tensor->rows = key_rows;
    arguments.output_grad.dim_stride = dim_stride;
    const Status status = arguments.run(device, workspace_for(device, arguments));
    REQUIRE_MESSAGE(status.ok(), status.message());
    return launched();
  };
  CHECK(launched_with(128, 1) == std::vector<std::string>{"jfa_prepare_backward", "jfa_backward_short"});
  // Only to pack.
  CHECK(launched_with(128, 0) ==
        std::vector<std::string>{"jfa_prepare_backward", "jfa_delta", "jfa_backward_short"});
  CHECK(launched_with(257, 1).size() == 6);
}

TEST_CASE("pieces of the workspace lie apart and inside") {
  Device device = fresh_device();
  Arguments arguments = Arguments::broadcast(130);
  arguments.output_grad.dim_stride = 0;
  const Workspace workspace = workspace_for(device, arguments);
  REQUIRE(arguments.run(device, workspace).ok());
  const auto& launches = fake_driver().launches;
  const kernel::BackwardPrepareArguments& prepare = launches[0].backward_prepare;
  const kernel::BackwardArguments& backward = launches[2].backward;
  // As many bytes as the kernels may write: 3 sequences, each with its one query tile; 3 parts.
  const std::pair<const void*, std::uint64_t> pieces[] = {
      {prepare.common.header, sizeof(kernel::WorkspaceHeader)},
      {prepare.common.tiles, 3 * sizeof(kernel::QueryTile)},
      {prepare.key_tiles, (500 / 128 + 4) * sizeof(kernel::KeyTile)},
      {prepare.query_runs, 3 * sizeof(kernel::QueryRun)},
      {backward.delta, 8 * 90 * sizeof(float)},
      {launches[1].delta.packed_output_grad, 8 * 90 * 24 * 2},
      {backward.partial_query_grad, std::uint64_t{3} * 8 * 128 * 32 * sizeof(float)}};
  std::uint64_t end = workspace.address;
  for (const auto& [begin, bytes] : pieces) {
    CHECK(address(begin) >= end);
    CHECK(address(begin) % 256 == 0);
    end = address(begin) + bytes;
  }
  CHECK(end <= workspace.address + workspace.bytes);
}

TEST_CASE("broadcast_q: parts of the batch, summed by a last launch") {
  Device device = fresh_device();
  Arguments arguments = Arguments::broadcast(130);
  arguments.query_grad.row_stride = 400;
  const Workspace workspace = workspace_for(device, arguments);
  REQUIRE(arguments.run(device, workspace).ok());
  REQUIRE(launched().back() == "jfa_sum_query_grad");
  const auto& launches = fake_driver().launches;
  REQUIRE(launches.size() == 5);
  CHECK(launches[0].backward_prepare.query_parts == 3);
  const kernel::SumArguments& sum = launches[4].sum;
  CHECK(sum.header == launches[0].backward_prepare.common.header);
  CHECK(sum.partial_query_grad == launches[3].backward.partial_query_grad);
  CHECK(sum.partial_rows == launches[3].backward.partial_rows);
  CHECK(address(sum.query_grad) == kAddress * 9);
  CHECK(sum.row_stride == 400);
  CHECK(sum.head_stride == 24);
  CHECK(sum.parts == 3);
  CHECK(sum.query_rows == 130);
  CHECK(sum.head_dim == 24);
}

TEST_CASE("broadcast_q: queries that fit one tile go through all keys in one launch") {
  Device device = fresh_device();
  Arguments arguments = Arguments::broadcast(30);
  arguments.lse_grad = kAddress * 12;
  const Workspace workspace = workspace_for(device, arguments);
  const Status status = arguments.run(device, workspace);
  REQUIRE_MESSAGE(status.ok(), status.message(), status.detail());
  REQUIRE(launched() == std::vector<std::string>{"jfa_prepare_broadcast", "jfa_delta",
                                                 "jfa_backward_broadcast", "jfa_sum_query_grad"});
  const auto& launches = fake_driver().launches;
  const kernel::BroadcastArguments& broadcast = launches[2].broadcast;
  CHECK(broadcast.header == launches[0].broadcast_prepare.common.header);
  CHECK(broadcast.key_sequences == launches[0].broadcast_prepare.key_sequences);
  CHECK(broadcast.delta == launches[1].delta.delta);
  CHECK(broadcast.query_heads == 8);
  CHECK(broadcast.query_rows == 30);
  CHECK(broadcast.output_rows == 90);
  CHECK(broadcast.slot_rows == 32);
  // A part for each of the 4 multiprocessors and 2 key heads, but no more than the 500 keys have tiles.
  CHECK(broadcast.parts == 2);
  CHECK(launches[2].ctas == 4);
  // The query's and the output gradient's boxes are a head's slot.
  for (const int map : {0, 3}) CHECK(fake_driver().maps[launches[2].map_ids[map]].box[2] == 32);
  const kernel::SumArguments& sum = launches[3].sum;
  CHECK(sum.partial_query_grad == broadcast.partial_query_grad);
  CHECK(sum.parts == 2);
  CHECK(sum.partial_rows == 32);
}

TEST_CASE("an output gradient that a tensor map does not take is packed first") {
  const auto packed = [](const std::function<void(OutputGradient&)>& change) {
    Device device = fresh_device();
    Arguments arguments;
    change(arguments.output_grad);
    const Status status = arguments.run(device, workspace_for(device, arguments));
    REQUIRE_MESSAGE(status.ok(), status.message());
    const test::FakeLaunch& delta = fake_driver().launches[1];
    const test::FakeLaunch& keys = fake_driver().launches[4];
    CHECK(address(delta.delta.output_grad) == arguments.output_grad.address);
    const std::uint64_t mapped = fake_driver().maps[keys.map_ids[3]].address;
    const std::uint64_t copy = address(delta.delta.packed_output_grad);
    CHECK(mapped == (copy != 0 ? copy : arguments.output_grad.address));
    return copy != 0;
  };
  CHECK_FALSE(packed([](OutputGradient&) {}));
  CHECK_FALSE(packed([](OutputGradient& g) { g.row_stride = 24, g.head_stride = 24 * 300; }));
  CHECK_FALSE(packed([](OutputGradient& g) { g.row_stride = 0; }));
  CHECK(packed([](OutputGradient& g) { g.row_stride = g.head_stride = g.dim_stride = 0; }));
  CHECK(packed([](OutputGradient& g) { g.dim_stride = 2; }));
  CHECK(packed([](OutputGradient& g) { g.row_stride = 8 * 24 + 4; }));
  CHECK(packed([](OutputGradient& g) { g.row_stride = -8 * 24; }));
  CHECK(packed([](OutputGradient& g) { g.address += 2; }));
}

TEST_CASE("after the first call: no lock on the driver's side, no synchronisation") {
  Device device = fresh_device();
  const Arguments arguments;
  const Workspace workspace = workspace_for(device, arguments);
  REQUIRE(arguments.run(device, workspace).ok());
  fake_driver().calls.clear();
  test::fake_current_context() = test::fake_primary_context();
  REQUIRE(arguments.run(device, workspace).ok());
  std::vector<std::string> expected{"cuCtxGetCurrent", "cuStreamIsCapturing", "cuStreamGetId"};
  expected.insert(expected.end(), 8 + 7, "cuTensorMapEncodeTiled");
  expected.insert(expected.end(), 6, "cuLaunchKernelEx");
  CHECK(fake_driver().calls == expected);
}

TEST_CASE("bug-pool 104: a cold backward inside a capture is refused with the call to make") {
  Device device = fresh_device();
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const Status status = Arguments().run(device);
  CHECK(status.kind() == ErrorKind::kUnavailable);
  CHECK(status.message().find("backward-bf16-d32-g4-sm_100f") != std::string::npos);
  CHECK(status.message().find("jfa::prepare(device, configuration), or backward() once") !=
        std::string::npos);
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_NONE;
  Configuration configuration;
  configuration.pass = Pass::backward;
  configuration.head_dim = 24;
  configuration.groups = 4;
  REQUIRE(prepare(device, configuration).ok());
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(Arguments().run(device).ok());
}

TEST_CASE("bug-pool 21: nothing to compute needs no kernel, only zeros") {
  Device device = fresh_device();
  Arguments arguments;
  arguments.call.key.rows = arguments.call.value.rows = 0;
  arguments.key_grad.rows = arguments.value_grad.rows = 0;
  arguments.call.query.rows = arguments.query_grad.rows = arguments.output.rows = 4;
  arguments.output_grad.rows = 4;
  std::vector<std::uint16_t> bits(4 * 8 * 24 + 16, 0xffff);
  arguments.query_grad.address = (address(bits.data()) + 15) / 16 * 16;
  const Workspace workspace = workspace_for(device, arguments);
  device.fill(workspace.address, 0xff, workspace.bytes).or_throw();
  REQUIRE(arguments.run(device, workspace).ok());
  CHECK(fake_driver().launches.empty());
  CHECK(fake_driver().libraries_loaded == 0);
  const auto* gradient = reinterpret_cast<const std::uint16_t*>(arguments.query_grad.address);
  for (int i = 0; i < 4 * 8 * 24; ++i) CHECK(gradient[i] == 0);
  CHECK(gradient[4 * 8 * 24] == 0xffff);
  CHECK(status(device, workspace, kStream).ok());
}

TEST_CASE("what is refused, by name and value") {
  CHECK(refusal([](Arguments& a) { a.output.rows = 299; }) ==
        "output.rows 299 differs from the 300 rows of the call");
  CHECK(refusal([](Arguments& a) { a.output.dtype = DType::fp16; }) ==
        "output.dtype fp16 differs from query.dtype bf16");
  CHECK(refusal([](Arguments& a) { a.lse = 0; }) ==
        "lse is null although the output has 300 rows of 8 heads");
  CHECK(refusal([](Arguments& a) { a.lse += 2; }) == "lse 0x70000002 is not a multiple of 4 bytes");
  CHECK(refusal([](Arguments& a) { a.lse_grad = 0x1001; }) == "lse_grad 0x1001 is not a multiple of 4 bytes");
  CHECK(refusal([](Arguments& a) { a.output_grad.rows = 1; }) ==
        "output_grad.rows 1 differs from the 300 rows of the call");
  CHECK(refusal([](Arguments& a) { a.output_grad.heads = 2; }) ==
        "output_grad.heads 2 differs from query.heads 8");
  CHECK(refusal([](Arguments& a) { a.output_grad.head_dim = 32; }) ==
        "output_grad.head_dim 32 differs from query.head_dim 24");
  CHECK(refusal([](Arguments& a) { a.output_grad.dtype = DType::fp16; }) ==
        "output_grad.dtype fp16 differs from query.dtype bf16");
  CHECK(refusal([](Arguments& a) { a.output_grad.address = 0; }) ==
        "output_grad.address is null although it has 300 rows of 8 heads");
  CHECK(refusal([](Arguments& a) { a.output_grad.address += 1; }) ==
        "output_grad.address 0x80000001 is not a multiple of 2 bytes");
  CHECK(refusal([](Arguments& a) { a.output_grad.row_stride = INT64_MIN; }) ==
        "output_grad.row_stride -9223372036854775808 at an extent of 300 reaches 2^57 elements");
  CHECK(refusal([](Arguments& a) { a.query_grad.rows = 299; }) ==
        "query_grad.rows 299 differs from query.rows 300");
  CHECK(refusal([](Arguments& a) { a.key_grad.heads = 8; }) == "key_grad.heads 8 differs from key.heads 2");
  CHECK(refusal([](Arguments& a) { a.value_grad.row_stride = 0; }) ==
        "value_grad.row_stride 0 is below head_dim 24: rows would overlap");
  CHECK(refusal([](Arguments& a) { a.value_grad.address += 8; }) ==
        "value_grad.address 0xb0000008 is not a multiple of 16 bytes");
  CHECK(refusal([](Arguments& a) { a.call.key.heads = 3; }) == "value.heads 2 differs from key.heads 3");
  CHECK(refusal(
            [](Arguments& a) {
              a.call.output_offset = Offsets{kAddress * 13, 4, OffsetType::int32};
              a.output.rows = 1000;
            },
            Arguments()) == "output_grad.rows 300 differs from output.rows 1000");
}

TEST_CASE(
    "gradients over one another or over what is read are refused, views into one fused buffer are not") {
  CHECK(refusal([](Arguments& a) { a.value_grad.address = a.key_grad.address; }) ==
        "key_grad.address 0xa0000000 and value_grad.address 0xa0000000 share memory: what is written must "
        "overlap nothing else");
  CHECK(refusal([](Arguments& a) {
          a.query_grad.address = a.call.query.address;
        }).starts_with("query_grad.address 0x10000000 and query.address 0x10000000"));
  CHECK(refusal([](Arguments& a) {
          a.key_grad.address = a.output.address;
        }).starts_with("key_grad.address 0x60000000 and output.address"));
  CHECK(refusal([](Arguments& a) {
          a.value_grad.address = a.output_grad.address;
        }).starts_with("value_grad.address 0x80000000 and output_grad.address"));
  CHECK(refusal([](Arguments& a) {
          a.lse = a.query_grad.address;
        }).starts_with("query_grad.address 0x90000000 and lse 0x90000000"));
  CHECK(refusal([](Arguments& a) {
          a.lse_grad = a.key_grad.address;
        }).starts_with("key_grad.address 0xa0000000 and lse_grad"));
  CHECK(refusal([](Arguments& a) {
          a.key_grad.row_stride = a.key_grad.head_stride;
        }).starts_with("key_grad.row_stride 24 and key_grad.head_stride 24: row 1 of head 0"));
  Device device = fresh_device();
  Arguments fused;
  fused.value_grad.row_stride = fused.key_grad.row_stride = fused.query_grad.row_stride = (8 + 2 + 2) * 24;
  fused.key_grad.address = fused.query_grad.address + 8 * 24 * 2;
  fused.value_grad.address = fused.key_grad.address + 2 * 24 * 2;
  const Workspace workspace = workspace_for(device, fused);
  const Status status = fused.run(device, workspace);
  CHECK_MESSAGE(status.ok(), status.message());
  fused.call.value.address = workspace.address;
  CHECK(fused.run(device, workspace).message().starts_with("workspace.address 0x"));
}

TEST_CASE("a workspace that is too small or unaligned is refused with both numbers") {
  Device device = fresh_device();
  const Arguments arguments;
  Workspace workspace = workspace_for(device, arguments);
  workspace.bytes -= 1;
  const std::string small = arguments.run(device, workspace).message();
  CHECK(small.find(std::to_string(workspace.bytes)) != std::string::npos);
  CHECK(small.find(std::to_string(workspace.bytes + 1)) != std::string::npos);
  workspace.address += 128;
  CHECK(arguments.run(device, workspace).message().find("workspace.address") == 0);
  CHECK(fake_driver().launches.empty());
}

TEST_CASE("without a workspace the pool gives one, and gets it back on the same stream") {
  Device device = fresh_device();
  REQUIRE(Arguments().run(device).ok());
  CHECK(fake_driver().count("cuMemAllocFromPoolAsync") == 1);
  CHECK(fake_driver().pool_blocks.empty());
  fake_driver().failures["cuLaunchKernelEx"] = CUDA_ERROR_INVALID_HANDLE;
  CHECK(Arguments().run(device).kind() == ErrorKind::kDevice);
  CHECK(fake_driver().pool_blocks.empty());
}

TEST_CASE("bug-pool 119: a gradient on another GPU is refused by name before anything is launched") {
  test::reset_fake_driver();
  fake_driver().gpu_count = 2;
  Device device = test::attach_fake_device();
  Arguments arguments;
  arguments.lse_grad = kAddress * 12;
  const Workspace workspace = workspace_for(device, arguments);
  REQUIRE(arguments.run(device, workspace).ok());
  fake_driver().launches.clear();
  for (const std::pair<const char*, std::uint64_t>& foreign :
       {std::pair{"key.address", arguments.call.key.address},
        {"output.address", arguments.output.address},
        {"lse", arguments.lse},
        {"output_grad.address", arguments.output_grad.address},
        {"lse_grad", arguments.lse_grad},
        {"query_grad.address", arguments.query_grad.address},
        {"key_grad.address", arguments.key_grad.address},
        {"value_grad.address", arguments.value_grad.address},
        {"workspace.address", workspace.address}}) {
    CAPTURE(foreign.first);
    fake_driver().owners = {{foreign.second, 1}};
    const Status refused = arguments.run(device, workspace);
    CHECK(refused.kind() == ErrorKind::kInvalidArgument);
    CHECK_MESSAGE(refused.message().starts_with(std::string(foreign.first) + " 0x"), refused.message());
  }
  CHECK(fake_driver().launches.empty());
}
