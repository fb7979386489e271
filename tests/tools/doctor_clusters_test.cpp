// What jfa doctor says of clusters of two CTAs, on a fake driver and on a simulated one.
#include "tools/doctor_clusters.h"

#include <doctest/doctest.h>

#include <string>

#include "simulator/driver/simulated_driver.h"
#include "tests/runtime/fake_driver.h"

namespace jfa::test {
namespace {

tools::GpuFacts facts(const DriverTable& driver, Target target = Target::sm_100f) {
  tools::GpuFacts gpu;
  gpu.target = target;
  tools::examine_clusters(driver, 0, gpu);
  return gpu;
}

TEST_CASE("a device that places clusters of two CTAs, and one that does not") {
  reset_fake_driver();
  fake_driver().clusters = 74;
  const tools::GpuFacts many = facts(fake_driver_table());
  CHECK(many.clusters == 74);
  CHECK(many.cluster_message == "clusters of two CTAs: 74 at a time");
  fake_driver().clusters = 0;
  const tools::GpuFacts none = facts(fake_driver_table());
  CHECK(none.clusters == 0);
  CHECK(none.cluster_message ==
        "clusters of two CTAs cannot be placed: backwards of 129 to 256 keys a sequence, or rows of a shared "
        "query, take more than one pass");
  CHECK(fake_driver().libraries_unloaded == 2);
  CHECK(fake_driver().live_primary_contexts == 0);
}

TEST_CASE("kernels without clusters ask for none") {
  reset_fake_driver();
  const tools::GpuFacts gpu = facts(fake_driver_table(), Target::sm_90a);
  CHECK_FALSE(gpu.clusters.has_value());
  CHECK(gpu.cluster_message.empty());
  CHECK(fake_driver().calls.empty());
}

TEST_CASE("a driver that does not tell") {
  reset_fake_driver();
  fake_driver().failures["cuLibraryLoadData"] = CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  const tools::GpuFacts gpu = facts(fake_driver_table());
  CHECK_FALSE(gpu.clusters.has_value());
  CHECK(gpu.cluster_message.starts_with("clusters of two CTAs: not known (placing an empty kernel: "));
  CHECK(fake_driver().live_primary_contexts == 0);
}

TEST_CASE("a simulated device of so many multiprocessors") {
  for (const auto& [name, clusters] : {std::pair{"sim:sm_100a?sms=1", 0}, {"sim:sm_100a?sms=5", 2}}) {
    std::string error;
    const DriverTable* driver = simulator::open_simulated_driver(name, &error);
    REQUIRE_MESSAGE(driver != nullptr, error);
    REQUIRE(driver->cuInit(0) == CUDA_SUCCESS);
    const tools::GpuFacts gpu = facts(*driver);
    CHECK_MESSAGE(gpu.clusters == clusters, gpu.cluster_message << simulator::last_report(driver));
  }
}

}  // namespace
}  // namespace jfa::test
