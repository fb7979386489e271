// What releases and acquires: the spellings of .sem on barriers and mbarriers, and the fences around relaxed
// ones.
#include <doctest/doctest.h>

#include <string>

#include "simulator/campaign/mutation.h"
#include "tests/simulator/shared_race.h"

namespace jfa::simulator::test::release_test {
namespace {

const RunShape kPair{.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}};
const std::string kRace = "nothing orders the two";

// %r7: the peer's rank, %r8 its cells, %r10 its bar.
const std::string kPeer = R"(
  mov.u32 %r7, %cluster_ctarank;
  xor.b32 %r7, %r7, 1;
  mapa.shared::cluster.u32 %r8, %r4, %r7;
  mov.u32 %r9, bar;
  mapa.shared::cluster.u32 %r10, %r9, %r7;
)";
const std::string kArrive = "barrier.cluster.arrive.aligned;\n",
                  kRelaxed = "barrier.cluster.arrive.relaxed.aligned;\n",
                  kWaitCluster = "barrier.cluster.wait.aligned;\n", kMeet = kArrive + kWaitCluster;

TEST_CASE("a relaxed arrival at the cluster's barrier releases what a fence in front of it does") {
  const std::string begin = kPeer + kMeet, write = "@%p0 st.shared.u32 [cells], 7;\n";
  const std::string read = kWaitCluster + "@%p0 ld.shared::cluster.u32 %r6, [%r8];\n" + kMeet;
  const std::string fence = "fence.acq_rel.cluster;\n", meet_warp = "bar.warp.sync 0xffffffff;\n";
  check_shared_races(
      {{"an arrival releases", begin + write + kArrive + read, ""},
       {"says so", begin + write + "barrier.cluster.arrive.release.aligned;\n" + read, ""},
       {"waits that say so",
        begin + write + kArrive + "barrier.cluster.wait.acquire.aligned;\n" + kArrive + read, ""},
       {"a relaxed one does not", begin + write + kRelaxed + read, kRace},
       {"a relaxed one of threads that need not be together",
        begin + write + "barrier.cluster.arrive.relaxed;\n" + read, kRace},
       {"a fence in front of it does", begin + write + fence + kRelaxed + read, ""},
       {"a fence that only releases", begin + write + "fence.release.cluster;\n" + kRelaxed + read, ""},
       {"a fence for shared memory",
        begin + write + "fence.release.sync_restrict::shared::cta.cluster;\n" + kRelaxed + read, ""},
       {"a fence that only acquires", begin + write + "fence.acquire.cluster;\n" + kRelaxed + read, kRace},
       {"a fence of the asynchronous proxy", begin + write + "fence.proxy.async;\n" + kRelaxed + read, kRace},
       {"a fence for mbarriers", begin + write + "fence.mbarrier_init.release.cluster;\n" + kRelaxed + read,
        kRace},
       {"a fence in front of the write", begin + fence + write + kRelaxed + read, kRace},
       {"another thread's fence", begin + write + "@%p3 " + fence + kRelaxed + read, kRace},
       {"another lane's, which has met the writer",
        begin + write + meet_warp + "setp.eq.u32 %p4, %r0, 1;\n@%p4 " + fence + kRelaxed + read, ""},
       {"and which has not", begin + write + "setp.eq.u32 %p4, %r0, 1;\n@%p4 " + fence + kRelaxed + read,
        kRace},
       {"an arrival behind the fence of the round before",
        begin + fence + kRelaxed + kWaitCluster + write + kRelaxed + read, kRace}},
      kPair);
}

TEST_CASE("a relaxed arrival at the cluster's barrier does not order a CTA's own threads either") {
  const std::string write = kPeer + kMeet + "st.shared.u32 [%r5], %r0;\n";
  const std::string read = kWaitCluster + "ld.shared.u32 %r6, [cells+252];\n" + kMeet;
  check_shared_races({{"released", write + kArrive + read, ""},
                      {"relaxed", write + kRelaxed + read, kRace},
                      {"beside a barrier that orders", write + kRelaxed + "bar.sync 0;\n" + read, ""}},
                     kPair);
}

TEST_CASE("fence.mbarrier_init releases inits to whoever a relaxed arrival tells, and nothing else") {
  const std::string init = "@%p0 mbarrier.init.shared.b64 [bar], 1;\n";
  const std::string fence = "fence.mbarrier_init.release.cluster;\n";
  const std::string use = "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];\n" + kWait;
  const std::string met = kRelaxed + kWaitCluster, end = kMeet;
  const std::string lacking = "mbarrier.init is not ordered before";
  check_shared_races(
      {{"released", kPeer + init + kArrive + kWaitCluster + use + end, ""},
       {"forgotten", kPeer + init + met + use + end, lacking},
       {"fenced", kPeer + init + fence + met + use + end, ""},
       {"by the thread that made it", kPeer + init + "@%p0 " + fence + met + use + end, ""},
       {"by another thread", kPeer + init + "@%p3 " + fence + met + use + end, lacking},
       {"too early", kPeer + fence + init + met + use + end, lacking},
       {"by a fence for everything", kPeer + init + "fence.acq_rel.cluster;\n" + met + use + end, ""},
       {"two of them",
        kPeer + init + "@%p0 " + fence + "@%p0 mbarrier.init.shared.b64 [other], 1;\n@%p0 " + fence + met +
            use + "@%p0 mbarrier.arrive.shared.b64 _, [other];\n" + end,
        ""},
       {"the second too late",
        kPeer + init + "@%p0 " + fence + "@%p0 mbarrier.init.shared.b64 [other], 1;\n" + met + use +
            "@%p3 mbarrier.arrive.shared.b64 _, [other];\n" + end,
        lacking},
       {"handed on by those who were told",
        kPeer + init + fence + kRelaxed + "@!%p1 barrier.cluster.wait.aligned;\nbar.sync 0;\n" +
            "@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];\n" +
            "@%p1 barrier.cluster.wait.aligned;\n" + kWait + end,
        ""},
       {"a store in front of it stays the thread's own",
        kPeer + kMeet + "@%p0 st.shared.u32 [cells], 7;\n" + init + fence + met +
            "@%p0 ld.shared::cluster.u32 %r6, [%r8];\n" + use + end,
        kRace}},
      kPair);
}

TEST_CASE("mbarrier operations release and acquire as they say") {
  const auto produce = [](const std::string& arrive) {
    return kBarrier + "@!%p0 bra CONSUME;\nst.shared.u32 [cells], 7;\n" + arrive +
           ".shared::cta.b64 _, [bar];\nCONSUME:\n@!%p1 bra END;\n";
  };
  const auto consume = [](const std::string& wait, const std::string& behind = {}) {
    return "WAIT: mbarrier." + wait + ".shared::cta.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\n" + behind +
           "ld.shared.u32 %r6, [cells];\nEND:\n";
  };
  const std::string arrive = "mbarrier.arrive", relaxed = "mbarrier.arrive.relaxed.cta";
  const std::string wait = "try_wait.parity", relaxed_wait = "try_wait.parity.relaxed.cta";
  const std::string fence = "fence.acq_rel.cta;\n";
  const std::string release = "fence.release.sync_restrict::shared::cta.cluster;\n",
                    acquire = "fence.acquire.sync_restrict::shared::cluster.cluster;\n";
  check_shared_races(
      {{"unsaid", produce(arrive) + consume(wait), ""},
       {"said", produce("mbarrier.arrive.release.cta") + consume("try_wait.parity.acquire.cta"), ""},
       {"a relaxed arrival", produce(relaxed) + consume(wait), kRace},
       {"a relaxed wait", produce(arrive) + consume(relaxed_wait), kRace},
       {"a relaxed test", produce(arrive) + consume("test_wait.parity.relaxed.cta"), kRace},
       {"both behind fences", produce(fence + relaxed) + consume(relaxed_wait, fence), ""},
       {"behind fences for shared memory", produce(release + relaxed) + consume(relaxed_wait, acquire), ""},
       {"a fence in front of the arrival", produce(fence + relaxed) + consume(wait), ""},
       {"a fence behind the wait", produce(arrive) + consume(relaxed_wait, fence), ""},
       {"only one of two", produce(fence + relaxed) + consume(relaxed_wait), kRace},
       {"only the other", produce(relaxed) + consume(relaxed_wait, fence), kRace},
       {"the wrong ones", produce(acquire + relaxed) + consume(relaxed_wait, release), kRace},
       {"a relaxed drop", produce("mbarrier.arrive_drop.relaxed.cta") + consume(wait), kRace},
       {"a drop", produce("mbarrier.arrive_drop.release.cta") + consume(wait), ""}});
  const auto expecting = [](const std::string& sem) {
    return kBarrier + "@!%p0 bra CONSUME;\nst.shared.u32 [cells], 7;\nmbarrier.arrive.expect_tx" + sem +
           ".shared::cta.b64 _, [bar], 0;\nCONSUME:\n@!%p1 bra END;\n";
  };
  check_shared_races({{"one that expects bytes", expecting("") + consume(wait), ""},
                      {"relaxed", expecting(".relaxed.cta") + consume(wait), kRace}});
}

TEST_CASE("who waits for a copy by a relaxed wait has to fence") {
  const std::string begin = R"(
    @%p0 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [cells], [%out], 1024, [bar];
    WAIT: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p7, [bar], 0;
    @!%p7 bra WAIT;
  )";
  const std::string read = "ld.shared.u32 %r6, [%r5];\n";
  for (const SharedRaceCase& c :
       {SharedRaceCase{"without", begin + read, "bulk copy from global memory writes too"},
        SharedRaceCase{"with", begin + "fence.acquire.sync_restrict::shared::cluster.cluster;\n" + read,
                       ""}}) {
    const Run run = run_kernel(kernel_text(kShared + c.body + "\nret;"), 256, {.block = {64, 1, 1}});
    CAPTURE(c.name);
    CAPTURE(run.failure());
    CHECK(run.result.ok == c.report.empty());
    CHECK(run.result.report.text().find(c.report) != std::string::npos);
  }
}

TEST_CASE("mutants of how a cluster meets are noticed") {
  const std::string init = "@%p0 mbarrier.init.shared.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n";
  const std::string use = "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];\n" + kWait;
  const std::string ptx =
      kernel_text(kShared + kPeer + init + kRelaxed + kWaitCluster + use +
                  "@%p0 st.shared.u32 [cells], 7;\nbarrier.cluster.arrive.release.aligned;\n" + kWaitCluster +
                  "@%p0 ld.shared::cluster.u32 %r6, [%r8];\n" + kMeet + "\nret;");
  REQUIRE(run_kernel(ptx, 64, kPair).result.ok);
  const Mutations mutations = enumerate_mutations(ptx).value();
  int relaxed = 0, fences = 0;
  for (const Mutant& mutant : mutations.mutants) {
    const SyncSite& site = mutations.sites[mutant.site];
    relaxed += mutant.change == "relaxed";
    fences += site.operation == "fence.mbarrier_init";
    // The last meeting only keeps a CTA from leaving while its peer still reads.
    const bool last = site.begin > ptx.rfind("ld.shared::cluster");
    const bool of_interest = mutant.change == "relaxed" || site.operation == "fence.mbarrier_init";
    if (!of_interest || last) continue;
    CAPTURE(mutant.replacement);
    CHECK_FALSE(run_kernel(replace_statement(ptx, site, mutant.replacement), 64, kPair).result.ok);
  }
  CHECK(relaxed == 2);  // what is relaxed already has no such mutant
  CHECK(fences == 1);
}

}  // namespace
}  // namespace jfa::simulator::test::release_test
