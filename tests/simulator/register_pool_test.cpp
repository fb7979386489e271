// setmaxnreg on the simulated device: who may take how many registers, and what hangs.
#include "simulator/tensor_core/register_pool.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "simulator/machine/launch.h"

namespace jfa::simulator::register_pool_test {

namespace {

constexpr const char* kBounds = ".maxntid 384, 1, 1 .minnctapersm 1";

const RunOptions kSchedules[] = {{.schedule = Schedule::kEager},
                                 {.schedule = Schedule::kLazy},
                                 {.schedule = Schedule::kRandom, .seed = 3}};

// One producer warpgroup and two consumers, each with what it does. Of the producer, warp 0 works on.
std::string kernel_text(const std::string& producer, const std::string& consumer,
                        const std::string& bounds = kBounds) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry roles() " + bounds + R"(
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .shared .b32 done;
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p3, %r1, 0;
  @%p3 st.shared.b32 [done], 0;
  bar.sync 0;
  shr.u32 %r2, %r1, 5;
  setp.ge.u32 %p1, %r1, 128;
  @%p1 bra CONSUMER;
)" + producer +
         "\nret;\nCONSUMER:\n" + consumer +
         "\nbar.sync 1, 256;\nsetp.eq.u32 %p3, %r1, 128;\n@%p3 st.shared.b32 [done], 1;\nret;\n}\n";
}

LaunchResult run(const std::string& ptx, const RunOptions& options = {}, std::uint32_t threads = 384) {
  DeviceMemory memory;
  auto module = Module::load(ptx, memory);
  REQUIRE_MESSAGE(module.ok(), module.status().message());
  LaunchConfig config;
  config.block = {threads, 1, 1};
  config.options = options;
  return run_grid(**module, *(*module)->find("roles"), config, memory);
}

std::string set(const char* what, int count) {
  return fmt::format("setmaxnreg.{}.sync.aligned.u32 {};", what, count);
}

void check_passes(const std::string& ptx) {
  for (const RunOptions& options : kSchedules) {
    const LaunchResult result = run(ptx, options);
    CHECK_MESSAGE(result.ok, result.report.text());
  }
}

void check_fails(const std::string& ptx, ErrorKind kind, const std::string& part) {
  for (const RunOptions& options : kSchedules) {
    const LaunchResult result = run(ptx, options);
    CAPTURE(result.report.text());
    CHECK_FALSE(result.ok);
    CHECK(result.report.kind == kind);
    CHECK(result.report.text().find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("registers at entry are what ptxas can give") {
  Entry entry;
  entry.max_threads = 384;
  CHECK(registers_at_entry(entry) == 0);  // ptxas ignores setmaxnreg without .minnctapersm
  entry.min_ctas_per_sm = 1;
  CHECK(registers_at_entry(entry) == 168);
  entry.max_threads = 256;
  CHECK(registers_at_entry(entry) == 256);
  entry.max_threads = 512;
  CHECK(registers_at_entry(entry) == 128);
  entry.max_threads = 320;
  CHECK(registers_at_entry(entry) == 200);  // 204.8
  entry.min_ctas_per_sm = 2;
  CHECK(registers_at_entry(entry) == 96);  // 102.4
  entry.max_registers = 72;                // .maxnreg decides
  CHECK(registers_at_entry(entry) == 72);
}

TEST_CASE("warpgroups pass registers on") {
  check_passes(kernel_text(set("dec", 24), set("inc", 240)));  // 24 + 2 * 240 = 3 * 168
  check_passes(kernel_text(set("dec", 40), set("inc", 232)));
  check_passes(kernel_text(set("dec", 168), set("inc", 168)));
  check_passes(kernel_text(set("dec", 24), set("dec", 24) + set("inc", 168) + set("inc", 240)));
}

TEST_CASE("an increase that the pool can never satisfy is a deadlock, and named") {
  const std::string needs = "setmaxnreg.inc";
  // 32 + 2 * 240 > 3 * 168: one warp of eight is left without.
  check_fails(kernel_text(set("dec", 32), set("inc", 240)), ErrorKind::kDeadlock, "384 threads of 168");
  // The same while the producer polls for what the consumers were to do.
  const std::string poll =
      "\nPOLL:\nnanosleep.u32 100;\nld.volatile.shared.b32 %r3, [done];\n"
      "setp.eq.u32 %p2, %r3, 0;\n@%p2 bra POLL;";
  check_fails(kernel_text(set("dec", 32) + poll, set("inc", 240)), ErrorKind::kDeadlock, needs);
  // Registers that will only be given back later are waited for.
  const std::string later =
      "\nmov.u32 %r3, 0;\nSPIN:\nadd.u32 %r3, %r3, 1;\nnanosleep.u32 100;\n"
      "setp.lt.u32 %p2, %r3, 5000;\n@%p2 bra SPIN;\n";
  check_passes(kernel_text(later + set("dec", 24), set("inc", 240)));
}

TEST_CASE("setmaxnreg on the wrong side of what a warp has") {
  check_fails(kernel_text(set("dec", 176), ""), ErrorKind::kInvalidOperand, "the warp has 168");
  check_fails(kernel_text(set("inc", 160), ""), ErrorKind::kInvalidOperand, "the warp has 168");
  check_fails(kernel_text(set("dec", 24) + set("dec", 32), ""), ErrorKind::kInvalidOperand,
              "the warp has 24");
}

TEST_CASE("a warpgroup executes setmaxnreg together") {
  const std::string some = "setp.eq.u32 %p2, %r2, 1;\n@%p2 ";
  check_fails(kernel_text(some + set("dec", 24), ""), ErrorKind::kDivergence,
              "never executed this setmaxnreg");
  check_fails(kernel_text(some + "bra OTHER;\n" + set("dec", 24) + "\nret;\nOTHER:\n" + set("dec", 32), ""),
              ErrorKind::kDivergence, "the same setmaxnreg");
  check_passes(kernel_text(some + "bra OTHER;\n" + set("dec", 24) + "\nret;\nOTHER:\n" + set("dec", 24), ""));
  check_fails(kernel_text("setp.eq.u32 %p2, %r1, 5;\n@%p2 bra PART;\n" + set("dec", 24) + "\nPART:", ""),
              ErrorKind::kDivergence, "aligned");
}

TEST_CASE("setmaxnreg that ptxas ignores") {
  check_passes(kernel_text(set("dec", 32), set("inc", 240), ".maxntid 384, 1, 1"));
}

TEST_CASE("setmaxnreg: counts and targets that do not exist") {
  const auto error = [](const std::string& ptx) {
    DeviceMemory memory;
    const auto module = Module::load(ptx, memory);
    return module.ok() ? std::string() : module.status().message();
  };
  for (const int count : {16, 20, 36, 264})
    CHECK(error(kernel_text(set("dec", count), "")).find(std::to_string(count)) != std::string::npos);
  std::string text = kernel_text(set("dec", 24), "");
  const std::string target = ".target sm_90a";
  for (const char* other : {".target sm_100a", ".target sm_100f"}) {
    std::string changed = text;
    CHECK(error(changed.replace(changed.find(target), target.size(), other)).empty());
  }
  text.replace(text.find(target), target.size(), ".target sm_90");
  CHECK(error(text).find("needs sm_90a") != std::string::npos);
}

}  // namespace jfa::simulator::register_pool_test
