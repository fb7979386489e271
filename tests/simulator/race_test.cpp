// Races in shared memory: found whatever the order, by clocks; and no false alarm where something orders.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "tests/simulator/async.h"
#include "tests/simulator/shared_race.h"

namespace jfa::simulator::test::race_test {
namespace {

TEST_CASE("warps meet at bar.sync, or race") {
  const std::string write = "st.shared.u32 [%r5], %r0;\n", read = "ld.shared.u32 %r6, [cells+252];\n";
  check_shared_races(
      {{"a warp stores one value in one instruction", "@%p1 st.shared.u32 [cells], 7;", ""},
       {"two warps store it", "st.shared.u32 [cells], 7;", "nothing orders the two"},
       {"write and read", write + "bar.sync 0;\n" + read, ""},
       {"without a barrier", write + read, "nothing orders the two"},
       {"both accesses are named", write + read, "st.shared.u32 [%r5], %r0;"},
       {"both, whichever came first", write + read, "ld.shared.u32 %r6, [cells+252];"},
       {"another barrier", write + "bar.sync 0, 64;\n" + read, ""},
       {"a warp of its own", write + "@%p1 bar.sync 1, 32;\n" + read, "nothing orders the two"},
       {"arrive and sync",
        write + "@%p1 bar.arrive 1, 64;\n@!%p1 bar.sync 1, 64;\n@!%p1 ld.shared.u32 %r6, [cells+252];", ""},
       {"only the other way round",
        write + "@%p1 bar.arrive 1, 64;\n@!%p1 bar.sync 1, 64;\n@%p1 ld.shared.u32 %r6, [cells];",
        "nothing orders the two"},
       {"write after read",
        "@%p0 st.shared.u32 [cells], 1;\nbar.sync 0;\nld.shared.u32 %r6, [cells];\n"
        "@%p3 st.shared.u32 [cells], 2;",
        "nothing orders the two"},
       {"write after read behind a barrier",
        "@%p0 st.shared.u32 [cells], 1;\nbar.sync 0;\nld.shared.u32 %r6, [cells];\nbar.sync 0;\n"
        "@%p3 st.shared.u32 [cells], 2;",
        ""},
       {"neighbouring bytes are no conflict", "add.u32 %r7, %r4, %r0;\nst.shared.u8 [%r7], %r0;", ""},
       {"the same bytes are",
        "shr.u32 %r7, %r0, 1;\nadd.u32 %r7, %r4, %r7;\n"
        "@%p1 sub.u32 %r7, %r7, 1;\nst.shared.u8 [%r7], %r0;",
        "nothing orders the two"}});
}

TEST_CASE("accesses of different widths meet") {
  const std::string whole = "@%p0 st.shared.v4.u32 [cells], {%r0, %r0, %r0, %r0};\n";
  const std::string part = "@%p3 st.shared.u32 [cells+4], %r0;\n";
  const std::string read = "@%p0 ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [cells];\n";
  const std::string again = "@%p3 st.shared.v4.u32 [cells], {%r0, %r0, %r0, %r0};\n";
  const std::string meet = "bar.sync 0;\n";
  check_shared_races(
      {{"a part of what is written", whole + "@%p3 ld.shared.u8 %r6, [cells+15];", "st.shared.v4.u32"},
       {"a part is written", whole + meet + part + read, "st.shared.u32 [cells+4]"},
       {"a part is written before", whole + meet + part + meet + read, ""},
       {"parts beside each other", "@%p0 st.shared.u32 [cells], %r0;\n" + part + meet + read, ""},
       {"one of them too late", "@%p0 st.shared.u32 [cells], %r0;\n" + meet + part + read, "u32 [cells+4]"},
       {"whole again", part + meet + again + meet + read + meet + again, ""},
       {"whole again, too early", part + meet + again + meet + read + again, "ld.shared.v4.u32"},
       {"readers of parts", whole + meet + "@%p3 ld.shared.u64 %rd1, [cells+8];\n" + whole,
        "ld.shared.u64 %rd1"},
       {"a reader of all",
        whole + meet + "@%p3 ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [cells];\n" +
            "@%p0 st.shared.u8 [cells+9], %r0;",
        "ld.shared.v4.u32"},
       {"a lane each has a part", "st.shared.u32 [%r5], %r0;\nld.shared.u32 %r6, [%r5];\n" + meet + whole,
        ""},
       {"an engine writes a part",
        whole + meet + "@%p3 cp.async.ca.shared.global [cells+4], [%out], 4;\n" + "cp.async.wait_all;\n" +
            meet + read,
        ""}});
  // What the engine did not write is still the first thread's, whom warp 2 has not met.
  check_shared_races({{"the rest remains",
                       "setp.eq.u32 %p4, %r2, 2;\n" + whole +
                           "@!%p4 bar.sync 1, 64;\n"
                           "@%p3 cp.async.ca.shared.global [cells+4], [%out], 4;\ncp.async.wait_all;\n"
                           "@!%p4 bar.sync 1, 64;\n@%p4 ld.shared.u32 %r6, [cells+12];",
                       "st.shared.v4.u32"}},
                     {.block = {96, 1, 1}});
}

TEST_CASE("of a word that two warps have written, an engine may read only what both have fenced") {
  const std::string first = "@%p0 st.shared.u16 [cells], 7;\n", second = "@%p3 st.shared.u16 [cells+2], 7;\n";
  const std::string fence = "fence.proxy.async.shared::cta;\n";
  const std::string store =
      "bar.sync 0;\n@%p0 cp.async.bulk.global.shared::cta.bulk_group [%out], [cells], 16;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
  const std::string before = fence + "bar.sync 0;\n", lacking = "without fence.proxy.async behind it";
  check_shared_races(
      {{"both", before + first + second + fence + store, ""},
       {"the first", before + first + "@!%p1 " + fence + second + store, lacking, ErrorKind::kMissingFence},
       {"the second", before + first + second + "@%p1 " + fence + store, lacking, ErrorKind::kMissingFence},
       {"the second, behind both", before + first + second + "bar.sync 0;\n@%p1 " + fence + store, ""}});
}

TEST_CASE("warps that may store one constant still may not store what differs") {
  RunShape shape{.block = {64, 1, 1}};
  shape.options.constant_races = false;
  check_shared_races({{"one constant", "st.shared.u32 [cells], 7;", ""},
                      {"what may differ", "st.shared.u32 [cells], %r0;", "nothing orders the two"},
                      {"two instructions", "@%p1 st.shared.u32 [cells], 7;\n@!%p1 st.shared.u32 [cells], 7;",
                       "nothing orders the two"}},
                     shape);
}

TEST_CASE("lanes meet at bar.warp.sync") {
  const std::string write = "@%p0 st.shared.u32 [cells], 7;\n", read = "ld.shared.u32 %r6, [cells];\n";
  const RunShape one_warp{.block = {32, 1, 1}};
  check_shared_races(
      {{"one lane writes for all", write + "bar.warp.sync 0xffffffff;\n" + read, ""},
       {"without", write + read, "nothing orders the two"},
       {"a shuffle orders no memory", write + "shfl.sync.idx.b32 %r7, %r0, 0, 31, 0xffffffff;\n" + read,
        "nothing orders the two"},
       {"all lanes write one place in one instruction", "st.shared.u32 [cells], 7;\n", ""},
       {"a lane reads what it wrote", "st.shared.u32 [%r5], 7;\nld.shared.u32 %r6, [%r5];", ""}},
      one_warp);
}

TEST_CASE("an mbarrier orders what its arrivals knew before what its waiters do") {
  const std::string arrive = "mbarrier.arrive.shared.b64 _, [bar];\n";
  const std::string produce = kBarrier + "@!%p0 bra CONSUME;\nst.shared.u32 [cells], 7;\n";
  const std::string consume = "CONSUME:\n@!%p1 bra END;\n";
  const std::string end = "END:\n";
  check_shared_races(
      {{"produced and waited for", produce + arrive + consume + kWait + "ld.shared.u32 %r6, [cells];\n" + end,
        ""},
       {"not waited for", produce + arrive + consume + "ld.shared.u32 %r6, [cells];\n" + kWait + end,
        "nothing orders the two"},
       {"arrived too early",
        kBarrier + "@!%p0 bra CONSUME;\n" + arrive + "st.shared.u32 [cells], 7;\n" + consume + kWait +
            "ld.shared.u32 %r6, [cells];\n" + end,
        "nothing orders the two"},
       // Lane 0 may only speak for the others once they have met.
       {"a lane gives back what its warp reads",
        kBarrier +
            "@%p0 st.shared.u32 [cells], 7;\nbar.sync 0;\n@%p1 bra WRITER;\nld.shared.u32 %r6, [cells];\n"
            "bar.warp.sync 0xffffffff;\n@%p2 mbarrier.arrive.shared.b64 _, [bar];\nbra END;\nWRITER:\n" +
            kWait + "@%p2 st.shared.u32 [cells], 8;\n" + end,
        ""},
       {"and before they have",
        kBarrier +
            "@%p0 st.shared.u32 [cells], 7;\nbar.sync 0;\n@%p1 bra WRITER;\nld.shared.u32 %r6, [cells];\n"
            "@%p2 mbarrier.arrive.shared.b64 _, [bar];\nbra END;\nWRITER:\n" +
            kWait + "@%p2 st.shared.u32 [cells], 8;\n" + end,
        "nothing orders the two"},
       {"every lane arrives for itself",
        kBarrier +
            "@%p0 st.shared.u32 [cells], 7;\nbar.sync 0;\n@%p1 bra WRITER;\nld.shared.u32 %r6, [cells];\n"
            "mbarrier.arrive.shared.b64 _, [other];\nbra END;\nWRITER:\n"
            "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [other], 0;\n@!%p7 bra WAIT;\n"
            "@%p2 st.shared.u32 [cells], 8;\n" +
            end,
        ""}});
}

TEST_CASE("an mbarrier is used after its init") {
  const std::string use = "@%p0 mbarrier.arrive.shared.b64 _, [bar];\n" + kWait;
  const std::string init = "@%p3 mbarrier.init.shared.b64 [bar], 1;\n";
  check_shared_races({{"init, meet, use", init + "bar.sync 0;\n" + use, ""}});
  // Here warp 1 goes on first. If it did not, there would be no barrier yet.
  RunShape shape{.block = {64, 1, 1}};
  const Run run = run_kernel(kernel_text(kShared + init + use + "ret;"), 64, shape);
  REQUIRE_FALSE(run.result.ok);
  INFO(run.failure());
  CHECK(run.result.report.text().find("mbarrier.init is not ordered before") != std::string::npos);
}

TEST_CASE("strong accesses do not race with each other, and order what is around them as they say") {
  const auto reader = [](const std::string& load, const std::string& behind = {}) {
    return "@!%p3 bra END;\nSPIN: " + load + ".shared.u32 %r6, [cells+4];\n" +
           "setp.eq.u32 %p6, %r6, 0;\n@%p6 bra SPIN;\n" + behind + "ld.shared.u32 %r7, [cells];\nEND:\n";
  };
  const std::string prologue =
      "@%p0 st.shared.u32 [cells+4], 0;\nbar.sync 0;\n@!%p0 bra READ;\n"
      "st.shared.u32 [cells], 5;\n";
  const std::string set = ".shared.u32 [cells+4], 1;\n", fence = "membar.cta;\n";
  const std::string acquire = "ld.acquire.cta", release = "st.release.cta" + set + "READ:\n";
  const std::string relaxed = "st.volatile" + set + "READ:\n";
  const std::string race = "nothing orders the two";
  check_shared_races(
      {{"a flag", prologue + release + reader(acquire), ""},
       {"a weak flag", prologue + "st" + set + "READ:\n" + reader(acquire), race},
       {"a flag that is not released", prologue + relaxed + reader(acquire), race},
       {"nor acquired", prologue + release + reader("ld.volatile"), race},
       {"fences on either side", prologue + fence + relaxed + reader("ld.volatile", fence), ""},
       {"a fence on one side", prologue + fence + relaxed + reader("ld.volatile"), race},
       {"on the other", prologue + relaxed + reader("ld.volatile", fence), race},
       {"an atomic releases",
        prologue + "red.release.cta.shared.add.u32 [cells+4], 1;\nREAD:\n" + reader(acquire), ""},
       {"a relaxed one does not", prologue + "red.shared.add.u32 [cells+4], 1;\nREAD:\n" + reader(acquire),
        race}});
  const std::string zero = "@%p0 st.shared.u32 [cells], 0;\nbar.sync 0;\n";
  const std::string add = "atom.shared.add.u32 %r6, [cells], 1;\n";
  check_shared_races(
      {{"atomics", zero + add, ""},
       {"an atomic and a plain access", zero + "@%p0 " + add + "@%p3 st.shared.u32 [cells], 1;", race},
       {"a plain access behind the barrier", zero + add + "bar.sync 0;\n@%p0 ld.shared.u32 %r7, [cells];",
        ""},
       {"behind one's own atomic only", zero + add + "@%p0 ld.shared.u32 %r7, [cells];", race}});
}

TEST_CASE("a copy is observed by those who wait for it") {
  const auto run = [](const std::string& others) {
    PtxRun copy(R"(
      mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
      setp.ge.u32 %q, %t, 32;
      @%first mbarrier.init.shared.b64 [bar], 1;
      bar.sync 0;
      @!%first bra STARTED;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 4096, [bar];
      STARTED:
      bar.sync 0;
      @%q bra OTHERS;
      WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
      @!%p bra WAIT;
      bra END;
      OTHERS:
    )" + others +
                "\nld.shared.u32 %r1, [tile+64];\nEND:\n");
    std::memset(copy.input<char>(), 1, 4096);
    return copy.launch(64);
  };
  const LaunchResult raced = run("");
  REQUIRE_FALSE(raced.ok);
  INFO(raced.report.text());
  const bool early = raced.report.kind == ErrorKind::kInFlight;  // if nobody had waited yet
  CHECK((early || raced.report.kind == ErrorKind::kRace));
  // Having seen by other means that warp 0 has been there is not to have waited.
  const LaunchResult told = run("nanosleep.u32 1;\nnanosleep.u32 1;\nnanosleep.u32 1;\nnanosleep.u32 1;");
  REQUIRE_FALSE(told.ok);
  INFO(told.report.text());
  CHECK(told.report.kind == ErrorKind::kRace);
  CHECK(told.report.message.find("bulk copy from global memory writes too") != std::string::npos);
  CHECK(run("OWN: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra OWN;").ok);
}

TEST_CASE("CTAs of a cluster race, too") {
  const std::string remote =
      "mov.u32 %r7, %cluster_ctarank;\nxor.b32 %r7, %r7, 1;\n"
      "mapa.shared::cluster.u32 %r8, %r4, %r7;\n";
  const std::string meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  const std::string write = "@%p0 st.shared.u32 [cells], 7;\n",
                    read = "@%p0 ld.shared::cluster.u32 %r6, [%r8];\n";
  check_shared_races(
      {{"met", remote + meet + write + meet + read + meet, ""},
       {"not met", remote + meet + write + "bar.sync 0;\n" + read + meet, "nothing orders the two"}},
      {.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}});
}

}  // namespace
}  // namespace jfa::simulator::test::race_test
