// Integer arithmetic, shifts and bit fields against expected values, with the edges the manual names.
#include <doctest/doctest.h>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::integer_test {
namespace {

using V64 = std::vector<std::uint64_t>;
using V32 = std::vector<std::uint32_t>;

constexpr std::uint64_t kMin32 = 0x80000000, kMax32 = 0x7fffffff, kOnes32 = 0xffffffff;
constexpr std::uint64_t kMin64 = 0x8000000000000000, kOnes64 = 0xffffffffffffffff;

TEST_CASE("addition and subtraction wrap, .sat clamps") {
  CHECK(run_op32("add.s32 %d, %a, %b;", {u32s({1, kMax32, kOnes32}), u32s({2, 1, 1})}) ==
        V32{3, 0x80000000, 0});
  CHECK(run_op32("add.sat.s32 %d, %a, %b;", {u32s({kMax32, kMin32, 5}), u32s({1, kOnes32, 6})}) ==
        V32{0x7fffffff, 0x80000000, 11});
  CHECK(run_op32("sub.sat.s32 %d, %a, %b;", {u32s({kMin32, 3}), u32s({1, 5})}) ==
        V32{0x80000000, 0xfffffffe});
  CHECK(run_op("sub.s64 %d, %a, %b;", 64, {u64s({0, kMin64}), u64s({1, 1})}) == V64{kOnes64, kMin64 - 1});
  CHECK(run_op("add.u16 %d, %a, %b;", 16, {u16s({0xffff}), u16s({2})}) == V64{1});
}

TEST_CASE("16-bit results stay zero-extended in their registers") {
  // Were the upper half dirty, the comparison as 32 bits after cvt would see it.
  CHECK(run_op32("{ .reg .b16 %h; add.s16 %h, %a, %b; cvt.u32.u16 %d, %h; }", {u16s({0x7fff}), u16s({1})}) ==
        V32{0x8000});
  CHECK(run_op32("{ .reg .b16 %h; add.s16 %h, %a, %b; cvt.s32.s16 %d, %h; }", {u16s({0x7fff}), u16s({1})}) ==
        V32{0xffff8000});
}

TEST_CASE("products: low, high, wide") {
  CHECK(run_op32("mul.hi.u32 %d, %a, %b;", {u32s({kOnes32, kMin32}), u32s({kOnes32, 2})}) ==
        V32{0xfffffffe, 1});
  CHECK(run_op32("mul.hi.s32 %d, %a, %b;", {u32s({kOnes32, kMin32}), u32s({kOnes32, kMin32})}) ==
        V32{0, 0x40000000});
  CHECK(run_op("mul.hi.u64 %d, %a, %b;", 64, {u64s({kOnes64}), u64s({kOnes64})}) == V64{kOnes64 - 1});
  CHECK(run_op("mul.hi.s64 %d, %a, %b;", 64, {u64s({kOnes64}), u64s({5})}) == V64{kOnes64});
  CHECK(run_op("mul.wide.s32 %d, %a, %b;", 64, {u32s({kOnes32}), u32s({7})}) ==
        V64{static_cast<std::uint64_t>(-7)});
  CHECK(run_op("mul.wide.u32 %d, %a, %b;", 64, {u32s({kOnes32}), u32s({kOnes32})}) ==
        V64{0xfffffffe00000001});
  CHECK(run_op32("mul.wide.s16 %d, %a, %b;", {u16s({0x8000}), u16s({0x8000})}) == V32{0x40000000});
  CHECK(run_op("mad.wide.s32 %d, %a, %b, %c;", 64, {u32s({kOnes32}), u32s({4}), u64s({100})}) == V64{96});
  CHECK(run_op("mul.lo.u16 %d, %a, %b;", 16, {u16s({0xffff}), u16s({0xffff})}) == V64{1});
}

TEST_CASE("division: by zero, of the most negative number") {
  CHECK(run_op32("div.s32 %d, %a, %b;",
                 {u32s({7, 7, kMin32, static_cast<std::uint32_t>(-7)}), u32s({2, 0, kOnes32, 2})}) ==
        V32{3, 0xffffffff, 0x80000000, static_cast<std::uint32_t>(-3)});
  CHECK(run_op32("rem.s32 %d, %a, %b;",
                 {u32s({7, kMin32, static_cast<std::uint32_t>(-7)}), u32s({4, kOnes32, 4})}) ==
        V32{3, 0, static_cast<std::uint32_t>(-3)});
  CHECK(run_op("div.u64 %d, %a, %b;", 64, {u64s({kOnes64}), u64s({10})}) == V64{kOnes64 / 10});
}

TEST_CASE("min, max, abs, neg, sad") {
  CHECK(run_op32("min.s32 %d, %a, %b;", {u32s({kOnes32}), u32s({1})}) == V32{0xffffffff});
  CHECK(run_op32("min.u32 %d, %a, %b;", {u32s({kOnes32}), u32s({1})}) == V32{1});
  CHECK(run_op32("max.s32 %d, %a, %b;", {u32s({kMin32}), u32s({0})}) == V32{0});
  CHECK(run_op32("abs.s32 %d, %a;", {u32s({kMin32, kOnes32})}) == V32{0x80000000, 1});
  CHECK(run_op32("neg.s32 %d, %a;", {u32s({kMin32, 1})}) == V32{0x80000000, 0xffffffff});
  CHECK(run_op32("sad.s32 %d, %a, %b, %c;", {u32s({kOnes32}), u32s({4}), u32s({10})}) == V32{15});
}

TEST_CASE("carries run through add.cc and addc") {
  const V64 sum = run_op(
      "{ .reg .b32 %l0, %h0, %l1, %h1, %l, %h;"
      "mov.b64 {%l0, %h0}, %a; mov.b64 {%l1, %h1}, %b;"
      "add.cc.u32 %l, %l0, %l1; addc.u32 %h, %h0, %h1; mov.b64 %d, {%l, %h}; }",
      64, {u64s({0xffffffff, kOnes64}), u64s({1, 2})});
  CHECK(sum == V64{0x100000000, 1});
  const V64 difference = run_op(
      "{ .reg .b32 %l0, %h0, %l1, %h1, %l, %h;"
      "mov.b64 {%l0, %h0}, %a; mov.b64 {%l1, %h1}, %b;"
      "sub.cc.u32 %l, %l0, %l1; subc.u32 %h, %h0, %h1; mov.b64 %d, {%l, %h}; }",
      64, {u64s({0x100000000, 0}), u64s({1, 1})});
  CHECK(difference == V64{0xffffffff, kOnes64});
}

TEST_CASE("shift amounts clamp at the width") {
  CHECK(run_op32("shl.b32 %d, %a, %b;", {u32s({1, 1, 1, 1}), u32s({0, 31, 32, kOnes32})}) ==
        V32{1, 0x80000000, 0, 0});
  CHECK(run_op32("shr.u32 %d, %a, %b;", {u32s({kOnes32, kOnes32}), u32s({31, 32})}) == V32{1, 0});
  CHECK(run_op32("shr.s32 %d, %a, %b;", {u32s({kMin32, kMin32, kMax32}), u32s({31, 200, 64})}) ==
        V32{0xffffffff, 0xffffffff, 0});
  CHECK(run_op("shl.b64 %d, %a, %b;", 64, {u64s({1, 1}), u32s({63, 64})}) == V64{kMin64, 0});
  CHECK(run_op("shr.s64 %d, %a, %b;", 64, {u64s({kMin64}), u32s({100})}) == V64{kOnes64});
  CHECK(run_op("shl.b16 %d, %a, %b;", 16, {u16s({3, 3}), u32s({15, 16})}) == V64{0x8000, 0});
}

TEST_CASE("funnel shifts") {
  const std::vector<Column> in = {u32s({0x11111111, 0x11111111}), u32s({0x22222222, 0x22222222}),
                                  u32s({4, 40})};
  CHECK(run_op32("shf.l.wrap.b32 %d, %a, %b, %c;", in) == V32{0x22222221, 0x22222211});
  CHECK(run_op32("shf.l.clamp.b32 %d, %a, %b, %c;", in) == V32{0x22222221, 0x11111111});
  CHECK(run_op32("shf.r.wrap.b32 %d, %a, %b, %c;", in) == V32{0x21111111, 0x22111111});
  CHECK(run_op32("shf.r.clamp.b32 %d, %a, %b, %c;", in) == V32{0x21111111, 0x22222222});
}

TEST_CASE("bit fields at the edges") {
  CHECK(run_op32("bfe.u32 %d, %a, %b, %c;", {u32s({0xabcd1234, 0xabcd1234, 0xabcd1234, 0xabcd1234}),
                                             u32s({8, 28, 0, 40}), u32s({8, 8, 0, 4})}) ==
        V32{0x12, 0xa, 0, 0});
  CHECK(run_op32("bfe.s32 %d, %a, %b, %c;", {u32s({0xabcd1234, 0x00000080, 0x80000000}), u32s({28, 0, 40}),
                                             u32s({8, 8, 4})}) == V32{0xfffffffa, 0xffffff80, 0xffffffff});
  CHECK(run_op("bfe.u64 %d, %a, %b, %c;", 64, {u64s({0x123456789abcdef0}), u32s({32}), u32s({16})}) ==
        V64{0x5678});
  CHECK(run_op32("bfi.b32 %d, %a, %b, %c, %e;",
                 {u32s({0xff, 0xff, 0xff}), u32s({0, kOnes32, 7}), u32s({4, 0, 32}), u32s({8, 0, 8})}) ==
        V32{0xff0, 0xffffffff, 7});
}

TEST_CASE("counts and reversals") {
  CHECK(run_op32("popc.b32 %d, %a;", {u32s({0, kOnes32, 0xf0})}) == V32{0, 32, 4});
  CHECK(run_op32("clz.b32 %d, %a;", {u32s({0, 1, kMin32})}) == V32{32, 31, 0});
  CHECK(run_op32("clz.b64 %d, %a;", {u64s({0, 1})}) == V32{64, 63});
  CHECK(run_op32("brev.b32 %d, %a;", {u32s({1, 0x0000ffff})}) == V32{0x80000000, 0xffff0000});
  CHECK(run_op32("bfind.u32 %d, %a;", {u32s({0, 1, kMin32})}) == V32{0xffffffff, 0, 31});
  CHECK(run_op32("bfind.s32 %d, %a;", {u32s({0, kOnes32, kMin32, 5})}) == V32{0xffffffff, 0xffffffff, 30, 2});
  CHECK(run_op32("bfind.shiftamt.u32 %d, %a;", {u32s({1, kMin32})}) == V32{31, 0});
}

TEST_CASE("prmt picks bytes and replicates signs, its modes") {
  const std::vector<Column> in = {u32s({0x83828180, 0x03020100}), u32s({0x07060504, 0x07060504}),
                                  u32s({0x7531, 0x3210})};
  CHECK(run_op32("prmt.b32 %d, %a, %b, %c;", in) == V32{0x07058381, 0x03020100});
  CHECK(run_op32("prmt.b32 %d, %a, %b, 0xba98;", in) == V32{0xffffffff, 0});
  const std::vector<Column> modes = {u32s({0x03020100, 0x03020100}), u32s({0x07060504, 0x07060504}),
                                     u32s({1, 3})};
  CHECK(run_op32("prmt.b32.f4e %d, %a, %b, %c;", modes) == V32{0x04030201, 0x06050403});
  CHECK(run_op32("prmt.b32.b4e %d, %a, %b, %c;", modes) == V32{0x06070001, 0x00010203});
  CHECK(run_op32("prmt.b32.rc8 %d, %a, %b, %c;", modes) == V32{0x01010101, 0x03030303});
  CHECK(run_op32("prmt.b32.rc16 %d, %a, %b, %c;", modes) == V32{0x03020302, 0x03020302});
}

TEST_CASE("24-bit products, dp2a, masks, extensions and the n-th set bit") {
  const std::vector<Column> ab = {u32s({0xffffffff, 0x01800001}), u32s({0x00000003, 0x00000100})};
  CHECK(run_op32("mul24.lo.u32 %d, %a, %b;", ab) == V32{0x02fffffd, 0x80000100});
  CHECK(run_op32("mul24.hi.u32 %d, %a, %b;", ab) == V32{0x000002ff, 0x00008000});
  CHECK(run_op32("mul24.lo.s32 %d, %a, %b;", ab) == V32{static_cast<std::uint32_t>(-3), 0x80000100});
  CHECK(run_op32("mul24.hi.s32 %d, %a, %b;", ab) == V32{kOnes32, 0xffff8000});
  CHECK(run_op32("mad24.lo.s32 %d, %a, %b, 10;", ab) == V32{7, 0x8000010a});
  const std::vector<Column> dot = {u32s({0xffff0002}), u32s({0x05fe0304}), u32s({1000})};
  CHECK(run_op32("dp2a.lo.s32.s32 %d, %a, %b, %c;", dot) == V32{1000 + 2 * 4 - 3});
  CHECK(run_op32("dp2a.hi.s32.s32 %d, %a, %b, %c;", dot) == V32{1000 - 4 - 5});
  CHECK(run_op32("dp2a.hi.u32.u32 %d, %a, %b, %c;", dot) == V32{1000 + 2 * 0xfe + 0xffff * 5});
  const std::vector<Column> mask = {u32s({4, 30, 36, 0}), u32s({8, 5, 3, 40})};
  CHECK(run_op32("bmsk.clamp.b32 %d, %a, %b;", mask) == V32{0xff0, 0xc0000000, 0, kOnes32});
  CHECK(run_op32("bmsk.wrap.b32 %d, %a, %b;", mask) == V32{0xff0, 0xc0000000, 0x70, 0xff});
  const std::vector<Column> wide = {u32s({0xabcd, 0xabcd, 0xabcd}), u32s({4, 0, 36})};
  CHECK(run_op32("szext.clamp.s32 %d, %a, %b;", wide) == V32{0xfffffffd, 0, 0xabcd});
  CHECK(run_op32("szext.wrap.u32 %d, %a, %b;", wide) == V32{0xd, 0, 0xd});
  const std::vector<Column> nth = {u32s({0xf0, 0xf0, 0xf0, 0xf0, 0xf0}), u32s({0, 7, 5, 3, 9}),
                                   u32s({2, static_cast<std::uint32_t>(-3), 0, 0, 1})};
  CHECK(run_op32("fns.b32 %d, %a, %b, %c;", nth) == V32{5, 5, 5, kOnes32, kOnes32});
}

TEST_CASE("logic and lop3") {
  const std::vector<Column> in = {u32s({0xff00ff00}), u32s({0xf0f0f0f0}), u32s({0xcccccccc})};
  CHECK(run_op32("lop3.b32 %d, %a, %b, %c, 0x80;", in) == V32{0xff00ff00 & 0xf0f0f0f0 & 0xcccccccc});
  CHECK(run_op32("lop3.b32 %d, %a, %b, %c, 0x96;", in) == V32{0xff00ff00 ^ 0xf0f0f0f0 ^ 0xcccccccc});
  CHECK(run_op32("lop3.b32 %d, %a, %b, %c, 0x1e;", in) == V32{0xff00ff00 ^ (0xf0f0f0f0 | 0xcccccccc)});
  CHECK(run_op32("cnot.b32 %d, %a;", {u32s({0, 5})}) == V32{1, 0});
  CHECK(run_op("xor.b64 %d, %a, %b;", 64, {u64s({kOnes64}), u64s({1})}) == V64{kOnes64 - 1});
}

TEST_CASE("comparisons, combinations, two predicates") {
  CHECK(run_op("setp.lt.s32 %p, %a, %b;", 1, {u32s({kOnes32, 1}), u32s({1, 1})}) == V64{1, 0});
  CHECK(run_op("setp.lo.u32 %p, %a, %b;", 1, {u32s({kOnes32, 0}), u32s({1, 1})}) == V64{0, 1});
  CHECK(run_op("setp.ne.and.s32 %q, %a, %b, 1; setp.ge.or.u32 %p, %a, %b, !%q;", 1,
               {u32s({3, 3}), u32s({4, 3})}) == V64{0, 1});
  CHECK(run_op32(
            "setp.gt.s32 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; selp.u32 %t0, 2, 0, %q; or.b32 %d, %d, %t0;",
            {u32s({5, 1}), u32s({2, 2})}) == V32{1, 2});
}

}  // namespace
}  // namespace jfa::simulator::test::integer_test
