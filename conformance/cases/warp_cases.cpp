// Instructions whose lanes meet: shuffles, votes, matches, reductions.
#include <fmt/format.h>

#include "conformance/one_op.h"

namespace jfa::conformance {
namespace {

using T = OperandType;

// The lanes of a warp must agree on it: lane 0's.
constexpr const char* kUniformB = "shfl.sync.idx.b32 %b, %b, 0, 31, -1;\n";

}  // namespace

void add_warp_cases(std::vector<TestCase>& cases) {
  const std::string group = "warp";
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    // Every distance, and every segment width with its clamp.
    cases.push_back(one_op_case(
        group, {fmt::format("shfl.sync.{}.b32", mode),
                fmt::format("{}and.b32 %t0, %b, 31;\nshr.u32 %t1, %b, 8;\nand.b32 %t1, %t1, 0x1f1f;\n"
                            "shfl.sync.{}.b32 %t2|%p, %a, %t0, %t1, 0xffffffff;\n"
                            "selp.b32 %t3, 1, 0, %p;\nmov.b64 %d, {{%t2, %t3}};",
                            kUniformB, mode),
                64,
                {T::kU32, T::kU32}}));
  }
  for (const char* mode : {"all", "any", "uni"})
    cases.push_back(one_op_case(
        group,
        {fmt::format("vote.sync.{}.pred", mode),
         fmt::format("{}setp.lt.u32 %q, %a, %b;\nvote.sync.{}.pred %p, %q, 0xffffffff;", kUniformB, mode),
         1,
         {T::kU32, T::kU32}}));
  cases.push_back(one_op_case(group, {"vote.sync.ballot.b32",
                                      "setp.lt.u32 %q, %a, %b;\nvote.sync.ballot.b32 %d, %q, 0xffffffff;",
                                      32,
                                      {T::kU32, T::kU32}}));
  cases.push_back(one_op_case(group, {"vote.sync.ballot.b32 of half a warp",
                                      "mov.u32 %d, 0;\nmov.u32 %t0, %laneid;\nsetp.gt.u32 %p, %t0, 15;\n"
                                      "setp.lt.u32 %q, %a, %b;\n@%p vote.sync.ballot.b32 %d, %q, 0xffff0000;",
                                      32,
                                      {T::kU32, T::kU32}}));
  cases.push_back(one_op_case(
      group,
      {"match.any.sync.b32", "and.b32 %t0, %a, 3;\nmatch.any.sync.b32 %d, %t0, 0xffffffff;", 32, {T::kU32}}));
  cases.push_back(one_op_case(
      group,
      {"match.any.sync.b64", "and.b64 %l0, %a, 7;\nmatch.any.sync.b64 %d, %l0, 0xffffffff;", 32, {T::kU64}}));
  cases.push_back(one_op_case(
      group, {"match.all.sync.b32",
              "shfl.sync.idx.b32 %t1, %b, 0, 31, -1;\nsetp.lt.s32 %q, %t1, 0;\nselp.b32 %t0, %t1, %a, %q;\n"
              "match.all.sync.b32 %d|%p, %t0, 0xffffffff;\n@%p xor.b32 %d, %d, 0x55;",
              32,
              {T::kU32, T::kU32}}));
  for (const char* op :
       {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"})
    cases.push_back(one_op_case(group, {fmt::format("redux.sync.{}", op),
                                        fmt::format("redux.sync.{} %d, %a, 0xffffffff;", op),
                                        32,
                                        {T::kU32}}));
  for (const char* op : {"min", "max", "min.NaN", "max.NaN", "min.abs", "max.abs"})
    cases.push_back(one_op_case(group,
                                {fmt::format("redux.sync.{}.f32", op),
                                 fmt::format("redux.sync.{}.f32 %d, %a, 0xffffffff;", op),
                                 32,
                                 {T::kSmallF32}},
                                Needs::kBlackwell));
  cases.push_back(one_op_case(
      group,
      {"elect.sync",
       "mov.u32 %t0, %laneid;\nand.b32 %t1, %t0, 1;\nsetp.eq.u32 %q, %t1, 1;\nmov.u32 %d, 0;\n"
       "@%q elect.sync %t2|%p, 0xaaaaaaaa;\n@%q selp.b32 %t3, 1, 0, %p;\n@%q mad.lo.u32 %d, %t2, 2, %t3;",
       32,
       {T::kU32}}));
  cases.push_back(one_op_case(group, {"special registers",
                                      "mov.u32 %t0, %lanemask_lt;\nmov.u32 %t1, %lanemask_le;\n"
                                      "mov.u32 %t2, %lanemask_gt;\nmov.u32 %t3, %lanemask_ge;\n"
                                      "mov.u32 %t4, %lanemask_eq;\nmov.u32 %t5, %laneid;\n"
                                      "xor.b32 %d, %t0, %t5;\nmad.lo.u32 %d, %d, 31, %t1;\n"
                                      "mad.lo.u32 %d, %d, 31, %t2;\nmad.lo.u32 %d, %d, 31, %t3;\n"
                                      "mad.lo.u32 %d, %d, 31, %t4;\nmov.u32 %t0, %nctaid.x;\n"
                                      "mad.lo.u32 %d, %d, 31, %t0;\nxor.b32 %d, %d, %a;",
                                      32,
                                      {T::kU32}}));
  cases.push_back(
      one_op_case(group, {"divergence and reconvergence",
                          "and.b32 %t0, %a, 15;\nmov.u32 %d, 0;\nmov.u32 %t1, 0;\n"
                          "LOOP: setp.ge.u32 %p, %t1, %t0;\n@%p bra DONE;\nadd.u32 %t1, %t1, 1;\n"
                          "mad.lo.u32 %d, %d, 33, %b;\nbra LOOP;\nDONE: bar.warp.sync 0xffffffff;\n"
                          "shfl.sync.bfly.b32 %t2, %d, 5, 31, -1;\nxor.b32 %d, %d, %t2;",
                          32,
                          {T::kU32, T::kU32}}));
}

}  // namespace jfa::conformance
