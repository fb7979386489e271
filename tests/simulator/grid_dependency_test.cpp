// Grids that overlap with the one before them: what that one wrote is touched after griddepcontrol.wait only.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>

#include "simulator/machine/launch.h"

namespace jfa::simulator::grid_dependency_test {

namespace {

// `write` stores to word 0 of the buffer, `read` copies word 0 to word 16, or word 32 to it, with or without
// waiting; in `shared_wait` thread 0 waits for a CTA whose other threads read. `let_go_then_wait` and
// `never_wait` stand between a grid that writes and one that reads.
constexpr const char* kModule = R"(
.version 9.0
.target sm_100f
.address_size 64
.visible .entry write(.param .u64 buffer)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [buffer];
  griddepcontrol.launch_dependents;
  mov.b32 %r1, 7;
  st.global.b32 [%rd1], %r1;
  ret;
}
.visible .entry read_at_once(.param .u64 buffer)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [buffer];
  ld.global.b32 %r1, [%rd1];
  griddepcontrol.wait;
  st.global.b32 [%rd1+64], %r1;
  ret;
}
.visible .entry write_at_once(.param .u64 buffer)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [buffer];
  mov.b32 %r1, 8;
  st.global.b32 [%rd1], %r1;
  ret;
}
.visible .entry read_other(.param .u64 buffer)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [buffer];
  ld.global.b32 %r1, [%rd1+128];
  st.global.b32 [%rd1+64], %r1;
  ret;
}
.visible .entry read_after_wait(.param .u64 buffer)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [buffer];
  griddepcontrol.wait;
  ld.global.b32 %r1, [%rd1];
  st.global.b32 [%rd1+64], %r1;
  ret;
}
.visible .entry let_go_then_wait(.param .u64 buffer)
{
  griddepcontrol.launch_dependents;
  griddepcontrol.wait;
  ret;
}
.visible .entry never_wait(.param .u64 buffer)
{
  griddepcontrol.launch_dependents;
  ret;
}
.visible .entry shared_wait(.param .u64 buffer)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  ld.param.b64 %rd1, [buffer];
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra TOGETHER;
  griddepcontrol.wait;
TOGETHER:
  bar.sync 0;
  ld.global.b32 %r1, [%rd1];
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.b32 [%rd3+64], %r1;
  ret;
}
)";

struct Device {
  DeviceMemory memory;
  std::unique_ptr<Module> module;
  std::uint64_t buffer = memory.allocate(1024, "buffer");

  Device() {
    auto loaded = Module::load(kModule, memory);
    REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
    module = std::move(*loaded);
    std::memset(memory.host(buffer, 1024), 0, 1024);
  }

  LaunchResult run(const std::string& entry, bool overlaps, unsigned threads = 1, bool checks = true) {
    LaunchConfig config;
    config.block.x = threads;
    config.parameters.resize(sizeof buffer);
    std::memcpy(config.parameters.data(), &buffer, sizeof buffer);
    config.overlaps_predecessor = overlaps;
    config.options.checks = checks;
    return run_grid(*module, *module->find(entry), config, memory);
  }
  int word(int index) {
    int value;
    std::memcpy(&value, memory.host(buffer + 4 * static_cast<std::uint64_t>(index), 4), 4);
    return value;
  }
};

}  // namespace

TEST_CASE("an overlapping grid touches what its predecessor wrote: reported with both") {
  for (const char* entry : {"read_at_once", "write_at_once"}) {
    CAPTURE(entry);
    Device device;
    REQUIRE(device.run("write", false).ok);
    const LaunchResult result = device.run(entry, true);
    REQUIRE_FALSE(result.ok);
    const std::string text = result.report.text();
    CHECK_MESSAGE(text.find("0 bytes into buffer") != std::string::npos, text);
    CHECK_MESSAGE(text.find("has not executed griddepcontrol.wait") != std::string::npos, text);
  }
}

TEST_CASE("waiting, not overlapping, or touching other bytes is right") {
  struct Case {
    std::string entry;
    bool overlaps;
  };
  for (const Case& c :
       {Case{"read_after_wait", true}, Case{"read_at_once", false}, Case{"read_other", true}}) {
    CAPTURE(c.entry);
    Device device;
    REQUIRE(device.run("write", false).ok);
    const LaunchResult result = device.run(c.entry, c.overlaps);
    CHECK_MESSAGE(result.ok, result.report.text());
    CHECK(device.word(16) == (c.entry == "read_other" ? 0 : 7));
  }
}

TEST_CASE("one thread's wait serves its CTA") {
  Device device;
  REQUIRE(device.run("write", false).ok);
  const LaunchResult result = device.run("shared_wait", true, 64);
  CHECK_MESSAGE(result.ok, result.report.text());
  CHECK(device.word(16 + 63) == 7);
}

TEST_CASE("a grid between that lets go before it waits does not protect one that does not wait") {
  Device device;
  REQUIRE(device.run("write", false).ok);
  REQUIRE(device.run("let_go_then_wait", true).ok);
  const LaunchResult early = device.run("read_at_once", true);
  REQUIRE_FALSE(early.ok);
  CHECK(early.report.text().find("has not executed griddepcontrol.wait") != std::string::npos);

  Device other;
  REQUIRE(other.run("write", false).ok);
  REQUIRE(other.run("let_go_then_wait", true).ok);
  CHECK(other.run("read_after_wait", true).ok);
}

TEST_CASE("a grid between that never waits lets an earlier one outlast the next one's wait") {
  Device device;
  REQUIRE(device.run("write", false).ok);
  REQUIRE(device.run("never_wait", true).ok);
  const LaunchResult late = device.run("read_after_wait", true);
  REQUIRE_FALSE(late.ok);
  const std::string text = late.report.text();
  CHECK_MESSAGE(text.find("has never executed griddepcontrol.wait") != std::string::npos, text);

  Device other;
  REQUIRE(other.run("write", false).ok);
  REQUIRE(other.run("never_wait", true).ok);
  CHECK(other.run("read_after_wait", false).ok);
}

TEST_CASE("a grid that ends or lets go after its wait orders what came before, and so does a copy between") {
  Device device;
  REQUIRE(device.run("write", false).ok);
  REQUIRE(device.run("read_after_wait", true).ok);
  CHECK(device.run("read_at_once", true).ok);  // reads what the grid before the one that waited wrote
  Device other;
  REQUIRE(other.run("write", false).ok);
  other.memory.forget_grid();
  CHECK(other.run("read_at_once", true).ok);
}

TEST_CASE("without checks nothing is reported") {
  Device device;
  REQUIRE(device.run("write", false).ok);
  CHECK(device.run("read_at_once", true, 1, false).ok);
}

}  // namespace jfa::simulator::grid_dependency_test
