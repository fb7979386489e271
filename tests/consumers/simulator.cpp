// A program that has the simulator and nothing else of jfa: it runs a kernel, right and wrong, and mutates
// it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simulator/campaign/mutation.h"
#include "simulator/campaign/recording.h"
#include "simulator/campaign/shrink.h"
#include "simulator/driver/simulated_driver.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/trace.h"

namespace {

using namespace jfa::simulator;

// Thread i writes 3 i, by way of its neighbour's place in shared memory.
const std::string kNeighbours = R"(
.version 8.8
.target sm_100a
.address_size 64
.visible .entry triple(.param .u64 out) {
  .reg .b32 %r<6>;
  .reg .b64 %a<3>;
  .shared .align 4 .b8 place[256];
  mov.u32 %r0, %tid.x;
  xor.b32 %r1, %r0, 63;
  mov.u32 %r2, place;
  mad.lo.u32 %r3, %r1, 4, %r2;
  mul.lo.u32 %r4, %r1, 3;
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  mad.lo.u32 %r3, %r0, 4, %r2;
  ld.shared.u32 %r5, [%r3];
  ld.param.u64 %a0, [out];
  mad.wide.u32 %a1, %r0, 4, %a0;
  st.global.u32 [%a1], %r5;
  ret;
}
)";

int failures = 0;
void expect(bool right, const char* what) {
  if (right) return;
  std::printf("not so: %s\n", what);
  ++failures;
}

LaunchResult run(const std::string& ptx, std::vector<std::uint32_t>& result) {
  DeviceMemory memory;
  const std::unique_ptr<Module> module = Module::load(ptx, memory).value();
  const std::uint64_t out = memory.allocate(result.size() * 4, "out");
  LaunchConfig config;
  config.grid = config.cluster = {1, 1, 1};
  config.block = {static_cast<std::uint32_t>(result.size()), 1, 1};
  config.parameters.resize(sizeof out);
  std::memcpy(config.parameters.data(), &out, sizeof out);
  const LaunchResult launch = run_grid(*module, *module->find("triple"), config, memory);
  std::memcpy(result.data(), memory.host(out, result.size() * 4), result.size() * 4);
  return launch;
}

}  // namespace

int main() {
  std::vector<std::uint32_t> result(64);
  expect(run(kNeighbours, result).ok, "the kernel is right");
  for (std::uint32_t i = 0; i < result.size(); ++i) expect(result[i] == 3 * i, "thread i writes 3 i");

  const Mutations mutations = enumerate_mutations(kNeighbours).value();
  expect(mutations.sites.size() == 1 && !mutations.mutants.empty(), "its one barrier can be mutated");
  if (failures != 0) return 1;
  const std::string racy = replace_statement(kNeighbours, mutations.sites.front(), "");
  const LaunchResult launch = run(racy, result);
  expect(!launch.ok && launch.report.kind == ErrorKind::kUninitialised,
         "without its barrier it reads what nothing has written yet");

  std::string error;
  const jfa::DriverTable* driver = open_simulated_driver("sim:sm_90a?sms=3", &error);
  int sms = 0;
  expect(
      driver != nullptr && driver->cuInit(0) == CUDA_SUCCESS &&
          driver->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == CUDA_SUCCESS &&
          sms == 3,
      "a driver's table of a device with three SMs");
  if (failures == 0) std::printf("%s\n", launch.report.text().c_str());
  return failures == 0 ? 0 : 1;
}
