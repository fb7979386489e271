// What takes the place of what others wrote, engines above all: whoever comes behind it need not be ordered
// behind them, whatever the size of a copy, and byte by byte.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::overwrite_test {
namespace {

const std::string kRace = "nothing orders the two";
const std::vector<int> kSizes = {256, 512, 1024, 4096};

// A bulk copy fills `bytes` of the tile. Warp 1 waits for it, writes a word of global memory, and commits;
// warp 2, whose code `body` is, waits for the commit: it knows that all this is over, not what was written.
std::string kernel(int bytes, const std::string& body) {
  return kernel_text(fmt::format(R"(
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 full, told, own;
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r0, 64;     // a thread of warp 2
    mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;
    mov.u32 %r4, own; mov.u32 %r5, told;
    @!%p0 bra READY;
    mbarrier.init.shared.b64 [full], 1;
    mbarrier.init.shared.b64 [told], 1;
    mbarrier.init.shared.b64 [own], 1;
    READY:
    bar.sync 0;
    setp.ge.u32 %p2, %r0, 64;
    @%p2 bra SECOND;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra FIRST;
    @!%p0 bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], {0};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%out], {0}, [full];
    bra END;
    FIRST:
    WAITFULL: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;
    @!%p3 bra WAITFULL;
    setp.eq.u32 %p4, %r1, 0;
    @%p4 st.global.u32 [%out+12288], 1;
    @%p4 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
    bra END;
    SECOND:
    WAITTOLD: mbarrier.try_wait.parity.shared.b64 %p3, [told], 0;
    @!%p3 bra WAITTOLD;
    {1}
    END:
    bar.sync 0;
    ret;)",
                                 bytes, body));
}

void check(const std::string& name, int bytes, const std::string& body, const std::string& report) {
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
    RunShape shape{.block = {96, 1, 1}};
    shape.options.schedule = schedule;
    shape.options.seed = 3;
    const Run run = run_kernel(kernel(bytes, body), 4096, shape);
    CAPTURE(name);
    CAPTURE(bytes);
    CAPTURE(std::string(to_string(schedule)));
    CAPTURE(run.failure());
    CHECK(run.result.ok == report.empty());
    if (!report.empty()) CHECK(run.result.report.text().find(report) != std::string::npos);
  }
}

// Every lane writes 16 bytes of every 512.
std::string fill(int bytes) {
  std::string text;
  for (int at = 0; at < bytes; at += 512) {
    if (bytes - at < 512) text += fmt::format("setp.lt.u32 %p5, %r1, {};\n@%p5 ", (bytes - at) / 16);
    text += fmt::format("st.shared.v4.u32 [%r3+{}], {{%r0, %r0, %r0, %r0}};\n", at);
  }
  return text;
}

// The bulk engine reads [from, from + bytes) of the tile.
std::string store(int bytes, int from = 0) {
  return fmt::format(R"(
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out+8192], [tile+{}], {};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
)",
                     from, bytes);
}

// Another copy to the tile's first bytes, which warp 2 waits for.
std::string load(int bytes) {
  return fmt::format(R"(
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [own], {0};
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%out], {0}, [own];
    WAITOWN: mbarrier.try_wait.parity.shared.b64 %p3, [own], 0;
    @!%p3 bra WAITOWN;
)",
                     bytes);
}

TEST_CASE("a thread's write takes the place of a copy of any size") {
  for (const int bytes : kSizes) {
    check("nothing is overwritten", bytes, store(bytes), kRace);
    check("all is", bytes, fill(bytes) + store(bytes), "");
    check("a thread reads", bytes, fill(bytes) + "bar.warp.sync 0xffffffff;\nld.shared.u32 %r6, [tile+64];\n",
          "");
    check("the first half, which alone is read", bytes, fill(bytes / 2) + store(bytes / 2), "");
    check("the first half", bytes, fill(bytes / 2) + store(bytes), kRace);
    check("and the other is read", bytes, fill(bytes / 2) + store(bytes / 2, bytes / 2), kRace);
    check("all but four bytes", bytes,
          fill(bytes / 2) + fmt::format("@%p1 st.shared.u32 [tile+{}], 0;\n", bytes / 2) +
              store(32, bytes / 2 - 16),
          kRace);
  }
}

TEST_CASE("so does a strong one") {
  const std::string write =
      "@%p1 st.volatile.shared.u32 [tile], 1;\n@%p1 st.volatile.shared.u32 [tile+4], 1;\n"
      "@%p1 st.volatile.shared.u32 [tile+8], 1;\n@%p1 st.relaxed.cta.shared.u32 [tile+12], 1;\n";
  for (const int bytes : kSizes) {
    check("which alone is read", bytes, write + store(16), "");
    check("and what is behind it", bytes, write + store(32), kRace);
  }
}

TEST_CASE("a write of single bytes takes the place of those, in shared and in global memory") {
  const std::string meet = "bar.warp.sync 0xffffffff;\n";
  const auto read = [&](const std::string& place) { return meet + "ld." + place + ";\n"; };
  for (const std::string& of : {std::string("st.shared.u8"), std::string("st.volatile.shared.u8")}) {
    const std::string write = "@%p1 " + of + " [tile+1], %r0;\n@%p1 " + of + " [tile+2], %r0;\n";
    for (const int bytes : kSizes) {
      check(of, bytes, write + read("shared.u8 %r6, [tile+1]"), "");
      check(of + ", the next", bytes, write + read("shared.u8 %r6, [tile+2]"), "");
      check(of + ", and what is in front", bytes, write + read("shared.u8 %r6, [tile]"), kRace);
      check(of + ", and what is behind", bytes, write + read("shared.u32 %r6, [tile]"), kRace);
    }
  }
  for (const std::string& of : {std::string("st.global.u8"), std::string("st.volatile.global.u8")}) {
    const std::string write = "@%p1 " + of + " [%out+12289], %r0;\n@%p1 " + of + " [%out+12290], %r0;\n";
    check(of, 16, write + read("global.u8 %r6, [%out+12289]"), "");
    check(of + ", the next", 16, write + read("global.u8 %r6, [%out+12290]"), "");
    check(of + ", and what is in front", 16, write + read("global.u8 %r6, [%out+12288]"), kRace);
    check(of + ", and what is behind", 16, write + read("global.u32 %r6, [%out+12288]"), kRace);
  }
}

TEST_CASE("a strong write does not hide a copy from other strong ones") {
  // Warp 2 has waited for the copy itself; warp 3 only sees that it has been there.
  for (const int bytes : kSizes) {
    const auto text = [&](const std::string& others) {
      return kernel(bytes, R"(
        setp.ge.u32 %p2, %r0, 96;
        @%p2 bra OTHERS;
        WAITSELF: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;
        @!%p3 bra WAITSELF;
        @%p1 red.shared.add.u32 [tile], 1;
        @%p1 st.volatile.shared.u32 [tile+16], 1;
        bra END;
        OTHERS:
)" + others + R"(
        nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1;
        setp.eq.u32 %p4, %r0, 96;
        @%p4 red.shared.add.u32 [tile], 1;
)");
    };
    const std::string waits =
        "WAITTOO: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;\n@!%p3 bra WAITTOO;\n";
    const RunShape shape{.block = {128, 1, 1}};
    const Run late = run_kernel(text(""), 4096, shape), right = run_kernel(text(waits), 4096, shape);
    CAPTURE(bytes);
    INFO(late.failure(), right.failure());
    CHECK_FALSE(late.result.ok);
    CHECK(late.result.report.kind == ErrorKind::kRace);
    CHECK(right.result.ok);
  }
}

TEST_CASE("an engine's write takes the place of another's, as far as it goes") {
  for (const int bytes : kSizes) {
    check("the same", bytes, load(bytes) + store(bytes), "");
    check("a longer one", bytes, load(2 * bytes) + store(2 * bytes), "");
    check("a part, which alone is read", bytes, load(bytes / 2) + store(bytes / 2), "");
    check("a part", bytes, load(bytes / 2) + store(bytes), kRace);
    check("a small part", bytes, load(16) + store(16), "");
    check("and what is behind it", bytes, load(16) + store(16, 16), kRace);
    check("by st.async", bytes, R"(
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [own], 16;
        @%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2], {%r0, %r0, %r0, %r0}, [%r4];
        WAITOWN: mbarrier.try_wait.parity.shared.b64 %p3, [own], 0;
        @!%p3 bra WAITOWN;
)" + store(16),
          "");
  }
}

TEST_CASE("a part of the middle leaves both ends") {
  const std::string middle = R"(
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [own], 1024;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+1024], [%out], 1024, [own];
    WAITOWN: mbarrier.try_wait.parity.shared.b64 %p3, [own], 0;
    @!%p3 bra WAITOWN;
)";
  check("the middle", 4096, middle + store(1024, 1024), "");
  check("in front of it", 4096, middle + store(32, 992), kRace);
  check("in front", 4096, middle + store(1024), kRace);
  check("behind it", 4096, middle + store(32, 2032), kRace);
  check("behind", 4096, middle + store(2048, 2048), kRace);
}

TEST_CASE("a reduction goes behind what its thread is behind") {
  const std::string reduce = R"(
    @%p1 mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [own], 4;
    @%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %r0, [%r4];
    WAITOWN: mbarrier.try_wait.parity.shared.b64 %p3, [own], 0;
    @!%p3 bra WAITOWN;
)";
  const std::string waits =
      "@!%p1 bra READS;\nWAITSELF: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;\n@!%p3 bra WAITSELF;\n"
      "READS:\n";
  for (const int bytes : kSizes) {
    check("a copy", bytes, waits + reduce + "ld.shared.u32 %r6, [tile];\n", "");
    check("another word", bytes, waits + reduce + "ld.shared.u32 %r6, [tile+4];\n", kRace);
    check("a copy it has not waited for", bytes, reduce, kRace);
    check("what a thread wrote", bytes, "@%p1 st.shared.u32 [tile], 0;\n" + reduce, "");
    check("what another lane wrote", bytes,
          "setp.eq.u32 %p4, %r0, 65;\n@%p4 st.shared.u32 [tile], 0;\n" + reduce, kRace);
  }
}

}  // namespace
}  // namespace jfa::simulator::test::overwrite_test
