// Races in global memory: between CTAs that fences and atomics order, or nothing does; and with the
// asynchronous proxy.
#include "tests/simulator/global_race.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/simulator/async.h"

namespace jfa::simulator::test::global_race_test {
namespace {

TEST_CASE("CTAs that write one word race, unless they do it atomically") {
  const std::string own = "mul.wide.u32 %rd1, %r1, 4;\nadd.s64 %rd1, %out, %rd1;\n";
  check_global_races(
      {{"one word", "@%p0 st.global.u32 [%out], %r1;", kNothingOrders},
       {"both are named", "@%p0 st.global.u32 [%out], %r1;", "by CTA ("},
       {"a word each", own + "@%p0 st.global.u32 [%rd1], %r1;", ""},
       {"a byte each", "cvt.u64.u32 %rd1, %r1;\nadd.s64 %rd1, %out, %rd1;\n@%p0 st.global.u8 [%rd1], %r1;",
        ""},
       {"atomics", "@%p0 red.global.add.u32 [%out], 1;", ""},
       {"atomics of a CTA's scope", "@%p0 red.relaxed.cta.global.add.u32 [%out], 1;", kNothingOrders},
       {"volatile", "@%p0 st.volatile.global.u32 [%out], %r1;", ""},
       {"an atomic and a plain write",
        "@%p1 bra WRITE;\n@%p0 red.global.add.u32 [%out], 1;\nbra END;\n"
        "WRITE:\n@%p0 st.global.u32 [%out], 1;\nEND:",
        kNothingOrders},
       {"all lanes of a warp, in one instruction", "@%p1 st.global.u32 [%out], 7;", ""},
       {"a byte of a lane's, which others of its warp write beside",
        "cvt.u64.u32 %rd1, %r0;\nadd.s64 %rd1, %out, %rd1;\n@%p1 bra WRITE;\n"
        "@%p0 st.global.u8 [%out+1], 7;\nbra END;\nWRITE:\nst.global.u8 [%rd1], %r0;\nEND:",
        kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("warps of a CTA, and CTAs of a cluster, meet at their barriers") {
  const std::string write =
      "mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd1, %out, %rd1;\nst.global.u32 [%rd1], %r0;\n";
  const std::string read = "ld.global.u32 %r6, [%out+252];\n";
  check_global_races({{"met", write + "bar.sync 0;\n" + read, ""}, {"not met", write + read, kNothingOrders}},
                     {.block = {64, 1, 1}});
  const std::string meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  check_global_races(
      {{"met", "@%p1 st.global.u32 [%out], 7;\n" + meet + "ld.global.u32 %r6, [%out];", ""},
       {"not met", "@%p1 st.global.u32 [%out], 7;\nld.global.u32 %r6, [%out];\n" + meet, kNothingOrders}},
      {.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}});
}

TEST_CASE("a flag orders what its writer released before what its reader acquires") {
  check_global_races(
      {{"release and acquire", hand_over(kRelease, kAcquire), ""},
       {"atomics",
        hand_over("red.release.gpu.global.add.u32 [%out], 1;",
                  "atom.acquire.gpu.global.add.u32 %r6, [%out], 0;"),
        ""},
       {"fences and relaxed accesses", hand_over(kFence + kRelaxedStore, kRelaxedLoad, kFence), ""},
       {"fences and volatile ones",
        hand_over("membar.gl;\nst.volatile.global.u32 [%out], 1;", "ld.volatile.global.u32 %r6, [%out];",
                  "membar.gl;\n"),
        ""},
       {"a relaxed write", hand_over(kRelaxedStore, kAcquire), kNothingOrders},
       {"a relaxed read", hand_over(kRelease, kRelaxedLoad), kNothingOrders},
       {"no fence of the writer's", hand_over(kRelaxedStore, kRelaxedLoad, kFence), kNothingOrders},
       {"no fence of the reader's", hand_over(kFence + kRelaxedStore, kRelaxedLoad), kNothingOrders},
       {"fences among the CTA's threads", hand_over("membar.cta;\n" + kRelaxedStore, kRelaxedLoad, kFence),
        kNothingOrders},
       {"the reader's fence among them", hand_over(kFence + kRelaxedStore, kRelaxedLoad, "membar.cta;\n"),
        kNothingOrders},
       {"a flag of 64 bits, its upper half read",
        hand_over("mov.b64 %rd1, 0x100000001;\nst.release.gpu.global.u64 [%out], %rd1;",
                  "ld.acquire.gpu.global.u32 %r6, [%out+4];"),
        ""},
       {"written behind the release", hand_over(kRelease + "\nst.global.u32 [%out+64], 8;", kAcquire),
        kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("a fence is its own thread's") {
  const std::string write =
      "mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd1, %out, %rd1;\nst.global.u32 [%rd1+64], %r0;\n";
  const std::string meet = "bar.warp.sync 0xffffffff;\n", flag = "@%p0 " + kRelaxedStore + "\nbra END;\n";
  const std::string one = "@%p0 " + kFence;
  // All lanes of CTA 0 write, its first sets the flag; CTA 1's first waits for it and reads lane 5's.
  const auto warp = [&](const std::string& publish, const std::string& acquire) {
    return "@!%p1 bra READ;\n" + write + publish + flag + "READ:\n@!%p0 bra END;\nSPIN: " + kRelaxedLoad +
           "\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra SPIN;\n" + acquire + "ld.global.u32 %r7, [%out+84];\nEND:";
  };
  check_global_races({{"the lanes have met", warp(meet + one, kFence), ""},
                      {"they have met, all of them fence", warp(meet + kFence, kFence), ""},
                      {"they have not met", warp(one, kFence), kNothingOrders},
                      {"they meet too late", warp(one + meet, kFence), kNothingOrders},
                      {"each lane fences its own", warp(kFence, kFence), kNothingOrders}},
                     kTwoCtas);
  // CTA 0's first lane writes and sets the flag; CTA 1's first waits for it, and another reads.
  const auto reader = [&](const std::string& acquire) {
    return "@!%p1 bra READ;\n@%p0 st.global.u32 [%out+64], 7;\n" + one + flag +
           "READ:\n@!%p0 bra MET;\nSPIN: " + kRelaxedLoad +
           "\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra SPIN;\nMET:\n" + acquire +
           "setp.eq.u32 %p3, %r0, 5;\n@%p3 ld.global.u32 %r7, [%out+64];\nEND:";
  };
  check_global_races({{"fenced, then told", reader(one + meet), ""},
                      {"all lanes fence, then they meet", reader(kFence + meet), ""},
                      {"not told", reader(one), kNothingOrders},
                      {"told before the fence", reader(meet + kFence), kNothingOrders}},
                     kTwoCtas);
}

TEST_CASE("a fence that only releases, or only acquires, counts as such") {
  const std::string release = "fence.release.gpu;\n", acquire = "fence.acquire.gpu;\n";
  check_global_races(
      {{"release and acquire", hand_over(release + kRelaxedStore, kRelaxedLoad, acquire), ""},
       {"its writer's acquires", hand_over(acquire + kRelaxedStore, kRelaxedLoad, kFence), kNothingOrders},
       {"its reader's releases", hand_over(kFence + kRelaxedStore, kRelaxedLoad, release), kNothingOrders},
       {"the other way round", hand_over(acquire + kRelaxedStore, kRelaxedLoad, release), kNothingOrders}},
      kTwoCtas);
}

// Every thread writes a partial result; the CTA that comes last, by a ticket, reads all of them.
const std::string kReduction = R"(
  mad.lo.u32 %r3, %r1, 64, %r0;
  mul.wide.u32 %rd1, %r3, 4;
  add.s64 %rd1, %out, %rd1;
  st.global.u32 [%rd1+64], %r0;
  bar.sync 0;  // [meet]
  @!%p0 bra TOLD;
  membar.gl;  // [release]
  atom.global.add.u32 %r4, [%out], 1;
  membar.gl;  // [acquire]
  add.u32 %r4, %r4, 1;
  setp.eq.u32 %p2, %r4, %r2;
  selp.u32 %r5, 1, 0, %p2;
  st.shared.u32 [last], %r5;
TOLD:
  bar.sync 0;
  ld.shared.u32 %r5, [last];
  setp.eq.u32 %p3, %r5, 0;
  @%p3 bra END;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd2, %out, %rd2;
  ld.global.u32 %r6, [%rd2+64];
  ld.global.u32 %r7, [%rd2+320];
  ld.global.u32 %r8, [%rd2+576];
  ld.global.u32 %r9, [%rd2+832];
  add.u32 %r6, %r6, %r7;
  add.u32 %r6, %r6, %r8;
  add.u32 %r6, %r6, %r9;
  st.global.u32 [%rd2+1088], %r6;
END:
)";

std::string without(std::string text, const std::string& mark) {
  const std::size_t at = text.find("[" + mark + "]");
  REQUIRE(at != std::string::npos);
  const std::size_t line = text.rfind('\n', at) + 1;
  return text.erase(line, text.find('\n', at) - line);
}

TEST_CASE("the last of the CTAs reads what the others have written") {
  const RunShape shape{.grid = {4, 1, 1}, .block = {64, 1, 1}};
  check_global_races({{"as it should be", kReduction, ""},
                      {"the writers' fence deleted", without(kReduction, "release"), kNothingOrders},
                      {"the reader's fence deleted", without(kReduction, "acquire"), kNothingOrders},
                      {"the barrier before the ticket deleted", without(kReduction, "meet"), kNothingOrders}},
                     shape);
}

const std::string kFillCells =
    "st.shared.v4.u32 [cells], {%r0, %r0, %r0, %r0};\nfence.proxy.async.shared::cta;\n";
const std::string kBulkStore = kFillCells +
                               "cp.async.bulk.global.shared::cta.bulk_group [%out+64], [cells], 16;\n"
                               "cp.async.bulk.commit_group;\n";

TEST_CASE("what a bulk copy writes is there when its thread has waited for the whole group") {
  const std::string wait = "cp.async.bulk.wait_group 0;\n", wait_read = "cp.async.bulk.wait_group.read 0;\n";
  check_global_races(
      {{"waited", hand_over(kRelease, kAcquire, {}, kBulkStore + wait), ""},
       {"waited once it has been read", hand_over(kRelease, kAcquire, {}, kBulkStore + wait_read + wait), ""},
       {"waited for the reading only", hand_over(kRelease, kAcquire, {}, kBulkStore + wait_read),
        "bulk copy to global memory"},
       {"waited too late", hand_over(kRelease + "\n" + wait, kAcquire, {}, kBulkStore),
        "bulk copy to global memory"}},
      kTwoCtas);
}

TEST_CASE("accesses of global memory of different widths meet") {
  const std::string fill =
      "shl.b32 %r3, %r0, 2;\nmov.u32 %r4, cells;\nadd.u32 %r4, %r4, %r3;\nst.shared.u32 [%r4], %r0;\n"
      "setp.eq.u32 %p3, %r0, 32;  // of another warp\nfence.proxy.async;\nbar.sync 0;\n";
  const std::string store =
      "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%out+64], [cells], 64;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
  const std::string part = "@%p3 st.global.u16 [%out+70], 7;\n",
                    read = "@%p3 ld.global.u8 %r6, [%out+127];\n";
  const std::string beside = "@%p3 st.global.v4.u32 [%out+112], {%r0, %r0, %r0, %r0};\n";
  const std::string meet = "bar.sync 0;\n";
  check_global_races({{"a part is read", fill + store + meet + read, ""},
                      {"a part is read too early", fill + store + read, kNothingOrders},
                      {"a part is written behind", fill + store + meet + part + meet + store, ""},
                      {"and overwritten too early", fill + store + meet + part + store, "st.global.u16"},
                      {"parts beside each other",
                       fill + "@%p0 st.global.u16 [%out+68], 7;\n" + part + meet + store + meet + read, ""},
                      {"a reader of a part", fill + store + meet + read + store, "ld.global.u8"},
                      {"what a part was read of is whole again",
                       fill + store + meet + part + meet + store + meet + beside + meet + store, ""},
                      {"whole again, and no longer",
                       fill + store + meet + part + meet + store + meet + beside + store, "st.global.v4"}},
                     {.block = {64, 1, 1}});
}

TEST_CASE("a bulk copy reads what threads of its grid wrote behind a proxy fence of global memory") {
  const std::string load =
      "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [cells], [%out+64], 16, [bar];\n"
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\n";
  const std::string write = "st.global.v4.u32 [%out+64], {%r0, %r0, %r0, %r0};\n";
  const std::string alone = "@!%p0 bra END;\n@!%p1 bra END;\n" + write;
  check_global_races(
      {{"fenced", alone + "fence.proxy.async;\n" + load + "END:", ""},
       {"the space's fence", alone + "fence.proxy.async.global;\n" + load + "END:", ""},
       {"not fenced", alone + load + "END:", kNoFence},
       {"the other space's fence", alone + "fence.proxy.async.shared::cta;\n" + load + "END:", kNoFence},
       {"another CTA, its reader fences", hand_over(kRelease, kAcquire, "fence.proxy.async;\n", write, load),
        ""},
       {"its writer fences", hand_over("fence.proxy.async;\n" + kRelease, kAcquire, {}, write, load), ""},
       {"nobody fences", hand_over(kRelease, kAcquire, {}, write, load), kNoFence},
       {"nothing orders", hand_over(kRelaxedStore, kAcquire, "fence.proxy.async;\n", write, load),
        kNothingOrders},
       {"overwritten before the copy is there",
        alone + "fence.proxy.async;\n" + load.substr(0, load.find("WAIT")) + write +
            load.substr(load.find("WAIT")) + "END:",
        kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("the end of a grid orders all that it did") {
  PtxRun run("mov.u32 %t, %ctaid.x;\nsetp.eq.u32 %p, %t, 1;\n@%p st.global.u32 [%out], 7;\n");
  CHECK(run.launch(1, 2).ok);
  CHECK(run.launch(1, 2).ok);
}

}  // namespace
}  // namespace jfa::simulator::test::global_race_test
