// What a grid's races in global memory are found against: what was read before the first write of a page, and
// atomics that nothing orders.
#include <doctest/doctest.h>

#include <string>

#include "tests/simulator/global_race.h"

namespace jfa::simulator::test::global_history_test {
namespace {

// The page of the place is not the flag's, so that nothing but reads is known of it when it is written.
const std::string kPlace = "[%out+8192]";
const std::string kRead = "ld.global.u32 %r7, " + kPlace + ";\n";
const std::string kWrite = "st.global.u32 " + kPlace + ", 7;\n";

TEST_CASE("a read races with a write that comes later") {
  const std::string each = "@!%p0 bra END;\n@%p1 bra FIRST;\n";
  const std::string byte = "ld.global.u8 %r7, [%out+8193];\n";
  check_global_races(
      {{"CTA 0 reads", each + kWrite + "bra END;\nFIRST:\n" + kRead + "END:", kNothingOrders},
       {"CTA 1 reads", each + kRead + "bra END;\nFIRST:\n" + kWrite + "END:", kNothingOrders},
       {"the reader is named", each + kRead + "bra END;\nFIRST:\n" + kWrite + "END:", "by CTA ("},
       {"the reader says so first", hand_over(kRelease, kAcquire, {}, kRead, kWrite), ""},
       {"it says so too early", hand_over(kRelease + "\n" + kRead, kAcquire, {}, {}, kWrite), kNothingOrders},
       {"the writer does not listen", hand_over(kRelease, kRelaxedLoad, {}, kRead, kWrite), kNothingOrders},
       {"another byte", hand_over(kRelease + "\n" + byte, kAcquire, {}, {}, "st.global.u8 [%out+8192], 7;\n"),
        ""},
       {"the same byte",
        hand_over(kRelease + "\n" + byte, kAcquire, {}, {}, "st.global.u8 [%out+8193], 7;\n"),
        kNothingOrders},
       {"an atomic",
        hand_over(kRelease + "\n" + kRead, kAcquire, {}, {}, "red.global.add.u32 " + kPlace + ", 1;\n"),
        kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("of a load by many lanes, every lane's bytes are remembered") {
  // Lane i reads 16 bytes at step * i behind the place, then writes a word at step * i + shift.
  const auto lanes = [](int step, int shift, const std::string& between = {}) {
    return "@!%p1 bra END;\nmul.lo.s32 %r3, %r0, " + std::to_string(step) +
           ";\nmul.wide.s32 %rd1, %r3, 1;\nadd.s64 %rd1, %out, %rd1;\n"
           "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8192];\n" +
           between + "st.global.u32 [%rd1+" + std::to_string(8192 + shift) + "], 7;\nEND:";
  };
  const std::string meet = "bar.warp.sync 0xffffffff;\n";
  check_global_races({{"its own, side by side", lanes(16, 12), ""},
                      {"the next lane's", lanes(16, 16), kNothingOrders},
                      {"the next lane's, who has read", lanes(16, 16, meet), ""},
                      {"its own, apart", lanes(48, 8), ""},
                      {"nobody's, between", lanes(48, 16), ""},
                      {"the next lane's, apart", lanes(48, 60), kNothingOrders},
                      {"its own, backwards", lanes(-16, 0), ""},
                      {"the next lane's, backwards", lanes(-16, -16), kNothingOrders},
                      {"everybody's", lanes(0, 0), kNothingOrders},
                      {"everybody's, who have read", lanes(0, 0, meet), ""}},
                     kTwoCtas);
}

TEST_CASE("reads that are repeated a thousand times are remembered by the last") {
  // CTA 0's first thread reads a hundred words again and again, in ticks of their own.
  const std::string loop = R"(
  mov.u32 %r3, 0;
LOOP:
  rem.u32 %r4, %r3, 100;
  mul.wide.u32 %rd1, %r4, 4;
  add.s64 %rd1, %out, %rd1;
  ld.global.u32 %r5, [%rd1+8192];
  red.release.gpu.global.add.u32 [%out+16], 1;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, 1000;
  @%p3 bra LOOP;
)";
  const std::string again = "ld.global.u32 %r5, [%out+8392];\n", write = "st.global.u32 [%out+8392], 7;\n";
  check_global_races(
      {{"told when all was read", hand_over(kRelease, kAcquire, {}, loop, write), ""},
       {"read once more", hand_over(kRelease + "\n" + again, kAcquire, {}, loop, write), kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("what a lane has read again behind its warp is remembered among many reads") {
  // All lanes of CTA 0 read the place and meet; its first thread tells CTA 1, which writes there, and goes on
  // to read a hundred other words again and again.
  const auto reads = [](const std::string& at_500) {
    return "@!%p1 bra WRITE;\n" + kRead + "bar.warp.sync 0xffffffff;\n@!%p0 bra END;\n" + kRelease + R"(
  mov.u32 %r3, 0;
LOOP:
  rem.u32 %r4, %r3, 100;
  mul.wide.u32 %rd1, %r4, 4;
  add.s64 %rd1, %out, %rd1;
  ld.global.u32 %r5, [%rd1+8704];
  setp.ne.u32 %p4, %r3, 500;
  @%p4 bra NEXT;
)" + at_500 +
           R"(
NEXT:
  red.release.gpu.global.add.u32 [%out+16], 1;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, 1000;
  @%p3 bra LOOP;
  bra END;
WRITE:
  @!%p0 bra END;
SPIN: ld.relaxed.gpu.global.u32 %r6, [%out+16];
  setp.lt.u32 %p2, %r6, 1000;
  @%p2 bra SPIN;
)" + kAcquire +
           "\n" + kWrite + "END:";
  };
  check_global_races({{"not again", reads({}), ""}, {"again", reads(kRead), kNothingOrders}}, kTwoCtas);
}

TEST_CASE("a bulk copy that reads races with a write that comes later") {
  const std::string wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\n";
  const std::string load =
      "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [cells], [%out+8192], 64, [bar];\n";
  const auto write = [](int at) { return "st.global.u32 [%out+" + std::to_string(at) + "], 7;\n"; };
  check_global_races(
      {{"told when it was there", hand_over(kRelease, kAcquire, {}, load + wait, write(8192)), ""},
       {"told before", hand_over(kRelease + "\n" + wait, kAcquire, {}, load, write(8192)),
        "bulk copy from global memory"},
       {"its end", hand_over(kRelease + "\n" + wait, kAcquire, {}, load, write(8252)),
        "bulk copy from global memory"},
       {"behind its end", hand_over(kRelease + "\n" + wait, kAcquire, {}, load, write(8256)), ""}},
      kTwoCtas);
}

// CTAs 0 and 1 add to one place and count themselves; CTA 2 reads it once `wanted` of `counter` have.
std::string add_up(const std::string& add, const std::string& count, const std::string& wanted,
                   const std::string& read = kRead) {
  return "@!%p0 bra END;\nsetp.eq.u32 %p3, %r1, 2;\n@%p3 bra SPIN;\n" + add + count +
         "bra END;\nSPIN: " + kAcquire + "\nsetp.lt.u32 %p2, %r6, " + wanted + ";\n@%p2 bra SPIN;\n" + read +
         "END:";
}
const std::string kCount = "red.release.gpu.global.add.u32 [%out], 1;\n";
const std::string kOneCounts = "setp.eq.u32 %p4, %r1, 1;\n@%p4 " + kCount;

TEST_CASE("who reads what several add to is ordered behind each of them") {
  const RunShape three{.grid = {3, 1, 1}, .block = {32, 1, 1}};
  const std::string add = "red.relaxed.gpu.global.add.u32 " + kPlace + ", 1;\n";
  const std::string volatile_store = "st.volatile.global.u32 " + kPlace + ", 1;\n";
  const std::string ordered_add = "atom.acq_rel.gpu.global.add.u32 %r8, " + kPlace + ", 1;\n";
  check_global_races({{"both", add_up(add, kCount, "2"), ""},
                      {"one", add_up(add, kOneCounts, "1"), kNothingOrders},
                      {"one, who overwrites", add_up(add, kOneCounts, "1", kWrite), kNothingOrders},
                      {"one, who adds, too", add_up(add, kOneCounts, "1", add), ""},
                      {"one of those who store", add_up(volatile_store, kOneCounts, "1"), kNothingOrders},
                      {"both of them", add_up(volatile_store, kCount, "2"), ""},
                      {"a chain of which the last one tells",
                       add_up(ordered_add + "setp.eq.u32 %p4, %r8, 1;\n@%p4 ", kCount, "1"), ""},
                      {"a chain of which the first one tells",
                       add_up(ordered_add + "setp.eq.u32 %p4, %r8, 0;\n@%p4 ", kCount, "1"), kNothingOrders}},
                     three);
}

TEST_CASE("who reads what lanes of several warps add to, again and again, is ordered behind them") {
  // Warps of CTA 0 add; its first thread reads.
  const auto warps = [](const std::string& last) {
    return "@!%p1 bra END;\nmov.u32 %r3, 0;\nLOOP: red.global.add.u32 " + kPlace +
           ", 1;\nbar.warp.sync 0xffffffff;\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p3, %r3, 50;\n@%p3 bra "
           "LOOP;\n" +
           last + "@%p0 ld.global.u32 %r7, " + kPlace + ";\nEND:";
  };
  const std::string add = "red.global.add.u32 " + kPlace + ", 1;\n";
  check_global_races(
      {{"they have met", warps("bar.sync 0;\n"), ""},
       {"they have not", warps(""), kNothingOrders},
       {"some add once more", warps("bar.sync 0;\nsetp.eq.u32 %p4, %r0, 77;\n@%p4 " + add), kNothingOrders}},
      {.grid = {1, 1, 1}, .block = {96, 1, 1}});
}

TEST_CASE("a plain write races with an atomic that is not ordered behind it, though another one is") {
  const std::string add = "red.relaxed.gpu.global.add.u32 " + kPlace + ", 1;\n";
  const std::string clear = "st.global.u32 " + kPlace + ", 0;\n";
  check_global_races(
      {{"who clears tells who adds", hand_over(kRelease, kAcquire, {}, clear + add, add), ""},
       {"nobody tells", hand_over(kRelaxedStore, kRelaxedLoad, {}, clear + add, add), kNothingOrders},
       {"of one CTA's scope, then of all",
        hand_over(kRelaxedStore, kRelaxedLoad, {},
                  "red.relaxed.cta.global.add.u32 " + kPlace + ", 1;\n" + add, add),
        kNothingOrders}},
      kTwoCtas);
}

TEST_CASE("who reads what several add to in bulk is ordered behind each of them") {
  const std::string fill =
      "st.shared.v4.u32 [cells], {%r0, %r0, %r0, %r0};\nfence.proxy.async.shared::cta;\n";
  const std::string add =
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out+8192], [cells], 16;\n"
      "cp.async.bulk.commit_group;\n";
  const std::string wait = "cp.async.bulk.wait_group 0;\n";
  const RunShape three{.grid = {3, 1, 1}, .block = {32, 1, 1}};
  check_global_races({{"both", add_up(fill + add + add + wait, kCount, "2"), ""},
                      {"one", add_up(fill + add + add + wait, kOneCounts, "1"), kNothingOrders},
                      {"both, told before the last ones' end",
                       add_up(fill + add + wait + add, kCount + wait, "2"), "bulk reduction"}},
                     three);
}

}  // namespace
}  // namespace jfa::simulator::test::global_history_test
