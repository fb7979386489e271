// backward() by clusters of two CTAs on a fake driver: which calls, with which arguments, and what becomes of
// them where clusters have no place.
#include <doctest/doctest.h>

#include <numbers>
#include <string>
#include <vector>

#include "tests/runtime/backward_support.h"

namespace jfa::test {
namespace {

using Entries = std::vector<std::string>;

Device pairs_device(int two_cta, int clusters = 2) {
  Device device = fresh_device();
  device.impl().tuning.values["two_cta"] = two_cta;
  fake_driver().clusters = clusters;
  return device;
}

Arguments with_keys(std::int64_t key_rows) {
  Arguments arguments;
  for (Tensor* tensor :
       {&arguments.call.key, &arguments.call.value, &arguments.key_grad, &arguments.value_grad})
    tensor->rows = key_rows;
  return arguments;
}

Entries entries_of_call(Device& device, const Arguments& arguments) {
  fake_driver().launches.clear();
  const Status status = arguments.run(device, workspace_for(device, arguments));
  REQUIRE_MESSAGE(status.ok(), status.message(), status.detail());
  return launched();
}

// The extents of the boxes of a launch's maps: dimension 0 has columns, 2 rows.
std::vector<std::uint32_t> boxes(const FakeLaunch& launch, int dimension) {
  std::vector<std::uint32_t> boxes;
  for (const std::uint64_t id : launch.map_ids)
    boxes.push_back(fake_driver().maps[id].box[static_cast<std::size_t>(dimension)]);
  return boxes;
}

std::vector<std::uint64_t> mapped(const FakeLaunch& launch) {
  std::vector<std::uint64_t> addresses;
  for (const std::uint64_t id : launch.map_ids)
    addresses.push_back(fake_driver().maps[id].address / kAddress);
  return addresses;
}

TEST_CASE("sequences by pairs of CTAs, with the call's numbers") {
  Device device = pairs_device(1);
  Arguments arguments;
  arguments.call.scale = -0.5;
  arguments.query_grad.row_stride = 400;
  arguments.value_grad.row_stride = 64;
  REQUIRE(entries_of_call(device, arguments) == Entries{"jfa_prepare_backward", "jfa_delta",
                                                        "jfa_backward_short", "jfa_backward_two_cta",
                                                        "jfa_backward_keys", "jfa_backward_queries"});
  const auto& launches = fake_driver().launches;
  for (const FakeLaunch& launch : launches)
    CHECK(launch.cluster == (launch.entry == "jfa_backward_two_cta" ? 2 : 1));
  const kernel::BackwardPrepareArguments& prepare = launches[0].backward_prepare;
  CHECK(prepare.two_cta_least_keys == 129);
  CHECK(prepare.two_cta_most_keys == 256);
  CHECK(launches[1].delta.query_tiles == prepare.common.tiles);

  CHECK(launches[3].ctas == 4);  // two clusters fit, and there are more items
  const kernel::TwoCtaArguments& pairs = launches[3].two_cta;
  CHECK(pairs.header == prepare.common.header);
  CHECK(pairs.tiles == prepare.two_cta_tiles);
  CHECK(pairs.key_sequences == nullptr);
  CHECK(address(pairs.lse) == kAddress * 7);
  CHECK(pairs.delta == launches[1].delta.delta);
  CHECK(pairs.partial_query_grad == nullptr);
  CHECK(address(pairs.query_grad) == kAddress * 9);
  CHECK(address(pairs.key_grad) == kAddress * 10);
  CHECK(address(pairs.value_grad) == kAddress * 11);
  CHECK(pairs.query_grad_row_stride == 400);
  CHECK(pairs.query_grad_head_stride == 24);
  CHECK(pairs.key_grad_row_stride == 48);
  CHECK(pairs.key_grad_head_stride == 24);
  CHECK(pairs.value_grad_row_stride == 64);
  CHECK(pairs.value_grad_head_stride == 24);
  CHECK(pairs.scale == -0.5F);
  CHECK(pairs.scale_log2 == doctest::Approx(-0.5 * std::numbers::log2e));
  CHECK(pairs.query_heads == 8);
  CHECK(pairs.query_rows == 300);
  CHECK(pairs.output_rows == 300);
  CHECK(pairs.head_dim == 24);
  CHECK(pairs.box_rows == 32);

  // Query and its columns, key and its columns, value, output gradient and its columns.
  CHECK(mapped(launches[3]) == std::vector<std::uint64_t>{1, 1, 2, 2, 3, 8, 8});
  CHECK(boxes(launches[3], 2) == std::vector<std::uint32_t>{32, 32, 64, 64, 64, 32, 32});
  CHECK(boxes(launches[3], 0) == std::vector<std::uint32_t>{32, 16, 32, 16, 32, 32, 16});
  const auto swizzle = [&](int map) {
    return fake_driver().maps[launches[3].map_ids[static_cast<std::size_t>(map)]].swizzle;
  };
  CHECK(swizzle(0) == CU_TENSOR_MAP_SWIZZLE_64B);
  CHECK(swizzle(1) == CU_TENSOR_MAP_SWIZZLE_32B);
}

TEST_CASE("no entry is launched that cannot have work") {
  Device device = pairs_device(1);
  CHECK(entries_of_call(device, with_keys(128)) == Entries{"jfa_prepare_backward", "jfa_backward_short"});
  CHECK(entries_of_call(device, with_keys(129)) ==
        Entries{"jfa_prepare_backward", "jfa_delta", "jfa_backward_short", "jfa_backward_two_cta"});
  CHECK(entries_of_call(device, with_keys(256)).size() == 4);
  CHECK(entries_of_call(device, with_keys(257)).size() == 6);
}

TEST_CASE("a grid of clusters has whole ones, and no more than there are items") {
  reset_fake_driver();
  fake_driver().sm_count = 300;
  fake_driver().clusters = 100;
  Device device = attach_fake_device();
  // Three sequences of two key heads.
  REQUIRE(entries_of_call(device, with_keys(200)).size() == 4);
  CHECK(fake_driver().launches[3].ctas == 2 * 3 * 2);
}

TEST_CASE("auto without a place for clusters: the entries of a plan without pairs") {
  Device device = pairs_device(1, 0);
  CHECK(entries_of_call(device, with_keys(200)) == Entries{"jfa_prepare_backward", "jfa_delta",
                                                           "jfa_backward_short", "jfa_backward_keys",
                                                           "jfa_backward_queries"});
  CHECK(fake_driver().launches[0].backward_prepare.two_cta_most_keys == 0);
  const Entries shared = entries_of_call(device, Arguments::broadcast(60));
  CHECK(shared.front() == "jfa_prepare_backward");
  CHECK(shared.size() == 5);
}

TEST_CASE("a driver that calls the cluster's size wrong has no place for it") {
  Device device = pairs_device(1);
  fake_driver().failures["cuOccupancyMaxActiveClusters"] = CUDA_ERROR_INVALID_CLUSTER_SIZE;
  CHECK(entries_of_call(device, with_keys(200)).size() == 5);
}

TEST_CASE("on without a place for clusters is refused by name") {
  Device device = pairs_device(2, 0);
  const Status status = Arguments::broadcast(30).run(device);
  CHECK(status.kind() == ErrorKind::kUnsupported);
  CHECK_MESSAGE(status.message().starts_with("two_cta = 2 (on), but device 'cuda:0' cannot place clusters of "
                                             "2 CTAs of jfa_backward_two_cta ("),
                status.message());
  CHECK(fake_driver().launches.empty());
}

TEST_CASE("a shared query by pairs of CTAs, with the call's numbers") {
  Device device = pairs_device(1);
  const Arguments arguments = Arguments::broadcast(41);  // four slots of 48 rows
  REQUIRE(entries_of_call(device, arguments) ==
          Entries{"jfa_prepare_broadcast", "jfa_delta", "jfa_backward_two_cta", "jfa_sum_query_grad"});
  const auto& launches = fake_driver().launches;
  CHECK(launches[0].broadcast_prepare.tile_rows == 256);
  CHECK(launches[1].delta.query_tiles == nullptr);
  CHECK(launches[2].cluster == 2);
  CHECK(launches[2].ctas == 4);
  const kernel::TwoCtaArguments& pairs = launches[2].two_cta;
  CHECK(pairs.key_sequences == launches[0].broadcast_prepare.key_sequences);
  CHECK(pairs.tiles == nullptr);
  CHECK(pairs.query_grad == nullptr);
  CHECK(address(pairs.key_grad) == kAddress * 10);
  CHECK(pairs.query_rows == 41);
  CHECK(pairs.slot_rows == 48);
  CHECK(pairs.box_rows == 16);
  CHECK(pairs.parts == 1);  // for each of two heads: a cluster has one of two items
  CHECK(boxes(launches[2], 2) == std::vector<std::uint32_t>{16, 16, 64, 64, 64, 16, 16});
  const kernel::SumArguments& sum = launches[3].sum;
  CHECK(sum.partial_query_grad == pairs.partial_query_grad);
  CHECK(sum.parts == 1);
  CHECK(sum.partial_rows == 48);

  CHECK(entries_of_call(device, Arguments::broadcast(32))[2] == "jfa_backward_broadcast");
  CHECK(fake_driver().launches[0].broadcast_prepare.tile_rows == 128);
  CHECK(entries_of_call(device, Arguments::broadcast(65))[0] == "jfa_prepare_backward");
}

TEST_CASE("on takes all shared queries that fit, and refuses the others by their rows") {
  Device device = pairs_device(2);
  CHECK(entries_of_call(device, Arguments::broadcast(1))[2] == "jfa_backward_two_cta");
  fake_driver().launches.clear();
  const Status status = Arguments::broadcast(100).run(device);
  CHECK(status.kind() == ErrorKind::kUnsupported);
  CHECK(status.message() ==
        "two_cta = 2 (on), but groups 4 x q_len 100 rounded up to 104 are 416 rows, more than 256");
  CHECK(fake_driver().launches.empty());
}

TEST_CASE("on takes all sequences of up to a pair's keys") {
  Device device = pairs_device(2);
  CHECK(entries_of_call(device, with_keys(100)) ==
        Entries{"jfa_prepare_backward", "jfa_delta", "jfa_backward_short", "jfa_backward_two_cta"});
  CHECK(fake_driver().launches[0].backward_prepare.two_cta_least_keys == 1);
  CHECK(entries_of_call(device, with_keys(257)).size() == 6);
}

}  // namespace
}  // namespace jfa::test
