// tcgen05.alloc, dealloc and relinquish_alloc_permit of cta_group::2: what a pair of CTAs must know of each
// other, and who gets which columns.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/simulator/async.h"

namespace jfa::simulator::tensor_pair_test {
namespace {

const std::string kMeet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
const std::string kMeetRelaxed = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n";
// %r9: the rank; %q: whether it is odd; %r1: where the address goes.
const std::string kBegin = R"(
  mov.u32 %t, %tid.x;
  mov.u32 %r9, %cluster_ctarank;
  and.b32 %r8, %r9, 1;
  setp.eq.u32 %q, %r8, 1;
  mov.u32 %r1, bar;
)";
const std::string kAddress = "bar.sync 0;\nld.shared.u32 %r2, [bar];\n";

std::string alloc(int columns) {
  return fmt::format("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], {};\n", columns);
}
std::string dealloc(int columns) {
  return fmt::format("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, {};\n", columns);
}
const std::string kRelinquish = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n";

std::vector<RunOptions> schedules(int seeds = 3) {
  std::vector<RunOptions> all;
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kReverse, Schedule::kLate}) {
    all.emplace_back();
    all.back().schedule = schedule;
  }
  for (const Schedule schedule : {Schedule::kRandom, Schedule::kStarve})
    for (int seed = 1; seed <= seeds; ++seed) {
      all.emplace_back();
      all.back().schedule = schedule;
      all.back().seed = static_cast<std::uint64_t>(seed);
    }
  return all;
}

struct Grid {
  std::uint32_t ctas = 2, cluster = 2;
  int sms = 2;
};

LaunchResult launch(PtxRun& run, const RunOptions& options, const Grid& grid) {
  run.options = options;
  run.options.sms = grid.sms;
  run.cluster = grid.cluster;
  return run.launch(32, grid.ctas);
}

void check_silent(const std::string& body, const Grid& grid = {}) {
  for (const RunOptions& options : schedules()) {
    PtxRun run(kBegin + body);
    const LaunchResult result = launch(run, options, grid);
    CHECK_MESSAGE(result.ok, to_string(options.schedule), result.report.text());
  }
}

// On every schedule, with the part in the report's text.
void check_reported(const std::string& body, const std::string& part, const Grid& grid = {}) {
  for (const RunOptions& options : schedules()) {
    PtxRun run(kBegin + body);
    const LaunchResult result = launch(run, options, grid);
    CHECK(!result.ok);
    const std::string text = result.report.text();
    const bool named = text.find(part) != std::string::npos;
    CHECK_MESSAGE(named, to_string(options.schedule), text);
  }
}

TEST_CASE("an allocation of a pair has to know that the peer runs") {
  const std::string rest = alloc(32) + kAddress + kMeet + dealloc(32);
  check_reported(rest, "nothing says that the peer, CTA (");
  check_silent(kMeet + rest);
  check_silent(kMeetRelaxed + rest);
  // One lane that has read what the peer wrote is enough.
  check_silent(R"(
    mul.wide.u32 %a, %r9, 4;
    add.s64 %a, %out, %a;
    xor.b32 %r3, %r9, 1;
    mul.wide.u32 %b, %r3, 4;
    add.s64 %b, %out, %b;
    setp.ne.u32 %p, %t, 0;
    @%p bra TOLD;
    st.release.gpu.global.u32 [%a], 1;
  SPIN:
    ld.acquire.gpu.global.u32 %r4, [%b];
    setp.ne.u32 %first, %r4, 1;
    @%first bra SPIN;
  TOLD:
    bar.warp.sync -1;
  )" + rest);
  // Without reading it back the write says nothing.
  check_reported(
      "mul.wide.u32 %a, %r9, 4;\nadd.s64 %a, %out, %a;\nst.release.gpu.global.u32 [%a], 1;\n" + rest,
      "nothing says that the peer");
}

TEST_CASE("a deallocation of a pair has to know that the peer's allocation is complete") {
  check_reported(kMeet + alloc(32) + kAddress + dealloc(32),
                 "has completed its tcgen05.alloc of these columns");
  check_reported(kMeet + alloc(32) + kAddress + kRelinquish + dealloc(32), "has completed its tcgen05.alloc");
  check_silent(kMeet + alloc(32) + kAddress + kMeet + dealloc(32));
  check_silent(kMeet + alloc(32) + kAddress + kMeetRelaxed + dealloc(32));
  check_silent(kMeet + alloc(32) + kAddress + kMeet + kRelinquish + dealloc(32));
  // What was said of the first allocation does not count for the second.
  const std::string both =
      kMeet + alloc(64) + "bar.sync 0;\nld.shared.u32 %r5, [bar];\n" + kMeet + alloc(32) + kAddress;
  const std::string first = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, 64;\n";
  check_reported(both + first + dealloc(32), "has completed its tcgen05.alloc");
  check_silent(both + first + kMeet + dealloc(32));
}

TEST_CASE("a deallocation of a pair waits for the peer's accesses") {
  const std::string access =
      "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%t};\ntcgen05.wait::st.sync.aligned;\n"
      "tcgen05.fence::before_thread_sync;\n";
  const std::string before = kMeet + alloc(32) + kAddress + kMeet;
  check_silent(before + access + kMeet + dealloc(32));
  check_silent(before + "@%q bra NONE;\n" + access + "NONE:\n" + kMeet + dealloc(32));
  // Either the access is found at the dealloc, or it comes when the pair is giving its columns back.
  check_reported(before + access + dealloc(32), "giv");
  check_reported(before + "@!%q bra NONE;\n" + access + "NONE:\n" + dealloc(32), "");
  // Without the fence the barrier does not cover it.
  check_reported(before +
                     "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%t};\ntcgen05.wait::st.sync.aligned;\n" +
                     kMeet + dealloc(32),
                 "tcgen05.fence::before_thread_sync");
}

TEST_CASE("a CTA exits with an allocation of its pair") {
  const std::string before = kMeet + alloc(32) + kAddress + kMeet;
  check_reported(before, "the CTA exits without tcgen05.dealloc of its 32 columns");
  check_reported(before + "@%q bra OUT;\n" + dealloc(32) + "OUT:\n",
                 "the CTA exits without tcgen05.dealloc of its 32 columns");
  check_silent(before + dealloc(32));
}

TEST_CASE("what one CTA of a pair does alone hangs, and the report says who is missing") {
  const std::string before = kMeet + alloc(32) + kAddress + kMeet;
  check_reported(before + "@%q bra OVER;\n" + kRelinquish + "OVER:\n" + kMeet + dealloc(32),
                 "the peer, CTA (1,0,0), to execute its tcgen05.relinquish_alloc_permit.cta_group::2");
  check_reported(kMeet + "@%q bra OVER;\n" + alloc(32) + kAddress + "OVER:\n" + kMeet,
                 "the peer, CTA (1,0,0), to execute its tcgen05.alloc.cta_group::2");
  check_reported(before + "@!%q bra OVER;\n" + dealloc(32) + "OVER:\n" + kMeet + "@%q bra OUT;\n" +
                     dealloc(32) + "OUT:\n",
                 "the peer, CTA (0,0,0), to execute its tcgen05.dealloc.cta_group::2 of columns 0..31");
  check_reported(kMeet + "@%q ret;\n" + alloc(32), "the peer");
  check_silent(before + kRelinquish + kMeet + dealloc(32));
}

TEST_CASE("the CTAs of a pair ask for the same") {
  const std::string other = "mov.b32 %r3, 32;\n@%q mov.b32 %r3, 64;\n";
  const std::string odd = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], %r3;\n";
  check_reported(other + kMeet + odd, "of 32 columns by CTA (0,0,0) and of 64 by CTA (1,0,0)");
  check_silent("mov.b32 %r3, 64;\n" + kMeet + odd + kAddress + kMeet + dealloc(64));
  check_reported(kMeet + kRelinquish + alloc(32), "relinquish");
  check_reported(kMeet + alloc(32) + kAddress + kMeet + "add.u32 %r2, %r2, 32;\n" + dealloc(32),
                 "did not allocate");
}

TEST_CASE("one cta_group in a kernel") {
  PtxRun mixed(kBegin + kMeet + alloc(32) + kAddress + kMeet + dealloc(32) +
               "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n");
  DeviceMemory memory;
  const auto module = Module::load(mixed.ptx(), memory);
  REQUIRE(!module.ok());
  CHECK(module.status().message().find("all tcgen05 instructions of a kernel must have the same") !=
        std::string::npos);
  const auto entry = [](const char* name, int group) {
    return fmt::format(
        ".visible .entry {}() {{ tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned; ret; }}\n", name,
        group);
  };
  const auto two = Module::load(
      ".version 9.0\n.target sm_100a\n.address_size 64\n" + entry("one", 1) + entry("two", 2), memory);
  CHECK_MESSAGE(two.ok(), two.status().message());
}

// Each CTA's addresses, `rounds` of them, and last its SM, in 16 words of the output.
std::string cycles(const std::string& columns_of_round, int rounds) {
  std::string body =
      "mov.u32 %r7, %ctaid.x;\nshl.b32 %r7, %r7, 6;\ncvt.u64.u32 %a, %r7;\nadd.s64 %a, %out, %a;\n"
      "setp.eq.u32 %first, %t, 0;\n" +
      kMeet;
  for (int round = 0; round < rounds; ++round)
    body += columns_of_round + fmt::format("shr.b32 %r3, %r3, {};\n", round) +
            "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], %r3;\n" + kAddress +
            fmt::format("@%first st.global.u32 [%a+{}], %r2;\n", round * 4) + kMeet +
            "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, %r3;\nbar.sync 0;\n";
  return body + "mov.u32 %r4, %smid;\n@%first st.global.u32 [%a+60], %r4;\n";
}

struct Sharing {
  Grid grid;
  int columns;  // of pairs 0 and 2 of a cluster in the first round; others have half as many
  int rounds;   // each of half as many as the one before
};

// In no cluster do pairs wait for each other that cannot have their columns at once.
constexpr Sharing kSharings[] = {
    {{8, 8, 2}, 128, 2}, {{8, 4, 4}, 128, 2}, {{12, 2, 2}, 512, 5}, {{48, 4, 5}, 64, 1}};

TEST_CASE("a pair has one address, however many pairs share its SMs") {
  for (const Sharing& sharing : kSharings)
    for (const RunOptions& options : schedules(6)) {
      const std::string columns = fmt::format(
          "mov.u32 %r6, tile;\nshr.u32 %r3, %r9, 1;\nand.b32 %r3, %r3, 1;\nshr.u32 %r3, {}, %r3;\n",
          sharing.columns);  // with `tile` a few CTAs fill an SM
      PtxRun run(kBegin + cycles(columns, sharing.rounds));
      const LaunchResult result = launch(run, options, sharing.grid);
      REQUIRE_MESSAGE(result.ok, to_string(options.schedule), result.report.text());
      for (std::size_t even = 0; even < sharing.grid.ctas; even += 2) {
        const auto word = [&](std::size_t cta, int index) {
          return run.output<std::uint32_t>(cta * 16 + static_cast<std::size_t>(index));
        };
        for (int round = 0; round < sharing.rounds; ++round)
          CHECK(word(even, round) == word(even + 1, round));
        CHECK(word(even, 15) % 2 == 0);
        CHECK(word(even + 1, 15) == word(even, 15) + 1);
      }
    }
}

TEST_CASE("pairs that ask for all columns take turns") {
  for (const RunOptions& options : schedules()) {
    PtxRun run(kBegin + cycles("mov.b32 %r3, 512;\n", 1) + cycles("mov.b32 %r3, 512;\n", 1));
    const LaunchResult result = launch(run, options, {12, 2, 2});
    CHECK_MESSAGE(result.ok, to_string(options.schedule), result.report.text());
  }
  // Two pairs of one cluster cannot both hold them; on two SMs each they can.
  const std::string hold = kMeet + alloc(512) + kAddress + kMeet + dealloc(512);
  check_reported(
      hold, "512 columns that are free in the tensor memories of both CTAs (SM 0: allocated: columns 0..511",
      {4, 4, 2});
  check_silent(hold, {4, 4, 4});
}

TEST_CASE("a pair needs two SMs") {
  PtxRun run(kBegin + kMeet + alloc(32) + kAddress + kMeet + dealloc(32));
  const LaunchResult result = launch(run, {}, {2, 2, 1});
  REQUIRE(!result.ok);
  CHECK(result.report.kind == ErrorKind::kLaunch);
  CHECK(result.report.message ==
        "a cluster of 2 CTAs does not fit 1 SMs of 32 CTAs each: cta_group::2 needs two SMs side by side for "
        "each pair "
        "of CTAs (option sms)");
  // Others do with one.
  PtxRun alone(kBegin + kMeet);
  CHECK(launch(alone, {}, {2, 2, 1}).ok);
}

}  // namespace
}  // namespace jfa::simulator::tensor_pair_test
