// What must be caught of tcgen05 on every schedule, and what is refused.
#include <doctest/doctest.h>

#include "tests/simulator/product_kernel.h"

namespace jfa::test::tcgen05_checks_test {
namespace {

using namespace simulator;

TEST_CASE("what the checkers must catch on every schedule") {
  const std::string& product = kProduct;
  check_caught(edited(product, "wait"), "tcgen05.ld");
  check_caught(edited(product, "after mma"), "tcgen05.fence::after_thread_sync");
  check_caught(edited(product, "after st"), "tcgen05.fence::after_thread_sync");
  check_caught(edited(product, "before st"), "tcgen05.fence::before_thread_sync");
  check_caught(edited(product, "wait st"), "while tcgen05.st is still in flight");
  check_caught(edited(product, "store d"), "nothing has written since its allocation");
  check_caught(edited(product, "proxy"), "fence.proxy.async");
  check_caught(edited(product, "dealloc"), "without tcgen05.dealloc");
  check_caught(edited(product, "commit"), "");  // a deadlock: nobody arrives
  check_caught(edited(product, "wait ld"), "no tcgen05.wait::ld has followed");
  check_caught(edited(product, "before dealloc"),
               "tcgen05.dealloc writes tensor memory lane 32 column 0, last read by tcgen05.ld, without "
               "tcgen05.fence::before_thread_sync by the thread that did");
  check_caught(edited(product, "all read"), "");  // in flight, or a race
  check_caught(edited(product, "ld",
                      "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, "
                      "%r16, %r17}, [%r8];"),
               "may touch lanes");
  check_caught(
      edited(product, "alloc", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3+8], 32;"),
      "not allocated by this CTA");
  check_caught(edited(product, "mma",
                      "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;\n"
                      "tcgen05.mma.cta_group::1.kind::f16 [%r8+8], %rd11, %rd12, %r30, %p5;"),
               "while tcgen05.mma is still in flight");  // another accumulator, overlapping
  check_caught(product, "M = 32", {.m = 32});
  check_caught(
      edited(product, "mma",
             "add.s64 %rd11, %rd11, 7;\ntcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;"),
      "cross the end of its 128-byte swizzled row");
}

TEST_CASE("an mma's source may not change before its commit is observed") {
  const std::string& product = kProduct;
  check_caught(edited(product, "commit",
                      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n"
                      "st.shared.b32 [%r3+1024], %r30;"),
               "the A operand of tcgen05.mma");
}

TEST_CASE("what a commit tells, and who has to hear it") {
  const std::string& product = kProduct;
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n";
  // The second arrival may come after the CTA has gone.
  check_caught(edited(product, "commit",
                      "mbarrier.init.shared::cta.b64 [%r3+16], 1;\n" + commit +
                          "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+16];"),
               "has exited");
  // That the products are over, not what their thread wrote.
  check_caught(edited(edited(product, "commit", "st.shared.b32 [%r3+24], %r30;\n" + commit), "after mma",
                      "tcgen05.fence::after_thread_sync;\nld.shared.b32 %r40, [%r3+24];"),
               "nothing orders the two");
  // With that their operands may be overwritten, by whom ever.
  check_passes(
      edited(product, "after mma", "tcgen05.fence::after_thread_sync;\n@!%p1 st.shared.b32 [%r3+1024], 0;"));
}

TEST_CASE("a fence in front of the wait does not count, though the product be over by then") {
  // Warp 0, which waits as it should, may have seen the end of the product before the others fence.
  std::string early = edited(kProduct, "after mma", "@!%p3 tcgen05.fence::after_thread_sync;");
  early.insert(early.find("WAIT:"), "@%p3 tcgen05.fence::after_thread_sync;\n");
  check_caught(early, "without tcgen05.fence::after_thread_sync by this thread");
}

TEST_CASE("tcgen05 instructions that are not modelled are refused when the image is loaded") {
  Device device("sim:sm_100a");
  const auto refused = [&](const std::string& statement) {
    void* none[] = {nullptr};
    const CUresult result = device.run(edited(kProduct, "mma", statement), "product", none, 1, 128, 1024);
    CHECK(result == CUDA_ERROR_INVALID_PTX);
    const std::string report = device.report();
    const bool named = report.find(statement.substr(0, statement.find(' '))) != std::string::npos;
    CHECK_MESSAGE(named, report);
  };
  refused("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r8], %rd11, %rd12, %r30, %p5, 3;");
  refused("tcgen05.mma.cta_group::1.kind::f16.ashift [%r8], [%r8], %rd12, %r30, %p5;");
  refused("tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5, 16;");
  refused("tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, {%r1, %r2}, %p5;");
  refused("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r8];");
  refused("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r8];");
  refused("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r8], 16;");
  refused("tcgen05.mma.cta_group::2.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;");  // beside cta_group::1
}

}  // namespace
}  // namespace jfa::test::tcgen05_checks_test
