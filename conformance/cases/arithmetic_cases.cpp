// Integer, floating-point, comparison and bit instructions.
#include <fmt/format.h>

#include "conformance/one_op.h"

namespace jfa::conformance {
namespace {

using T = OperandType;
using Cases = std::vector<TestCase>;

constexpr const char* kRoundings[] = {"rn", "rz", "rm", "rp"};

void add_integers(Cases& cases) {
  const std::string group = "integer";
  struct Width {
    int bits;
    T type;
  };
  for (const Width width : {Width{16, T::kU16}, Width{32, T::kU32}, Width{64, T::kU64}}) {
    for (const char* sign : {"s", "u"}) {
      const std::string type = fmt::format(".{}{}", sign, width.bits);
      const T t = width.type;
      for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"})
        cases.push_back(plain_case(group, op + type, width.bits, {t, t}));
      for (const char* op : {"mad.lo", "sad"})
        cases.push_back(plain_case(group, op + type, width.bits, {t, t, t}));
      if (width.bits != 64) cases.push_back(plain_case(group, "mul.wide" + type, width.bits * 2, {t, t}));
      if (width.bits == 32) cases.push_back(plain_case(group, "mad.wide" + type, 64, {t, t, T::kU64}));
      if (width.bits != 16) cases.push_back(plain_case(group, "mad.hi" + type, width.bits, {t, t, t}));
      // The result of a division by zero is not specified: the divisor is made odd.
      const std::string odd = fmt::format("or.b{} %b, %b, 1;\n", width.bits);
      for (const char* op : {"div", "rem"})
        cases.push_back(
            one_op_case(group, {op + type, odd + op + type + " %d, %a, %b;", width.bits, {t, t}}));
    }
    const std::string type = fmt::format(".s{}", width.bits);
    for (const char* op : {"neg", "abs"})
      cases.push_back(plain_case(group, op + type, width.bits, {width.type}));
  }
  for (const char* op : {"add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"})
    cases.push_back(plain_case(group, op, 32, {T::kU32, T::kU32}));
  cases.push_back(plain_case(group, "mad.hi.sat.s32", 32, {T::kU32, T::kU32, T::kU32}));
  for (const char* op : {"add.u16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2"})
    cases.push_back(plain_case(group, op, 32, {T::kU32, T::kU32}));
  for (const char* op : {"dp4a.u32.u32", "dp4a.u32.s32", "dp4a.s32.u32", "dp4a.s32.s32"})
    cases.push_back(plain_case(group, op, 32, {T::kU32, T::kU32, T::kU32}));
  cases.push_back(one_op_case(group, {"add.cc.u32 addc.u32",
                                      "add.cc.u32 %t0, %a, %b;\naddc.u32 %d, %a, %c;\nxor.b32 %d, %d, %t0;",
                                      32,
                                      {T::kU32, T::kU32, T::kU32}}));
  cases.push_back(one_op_case(group, {"sub.cc.u32 subc.u32",
                                      "sub.cc.u32 %t0, %a, %b;\nsubc.u32 %d, %a, %c;\nxor.b32 %d, %d, %t0;",
                                      32,
                                      {T::kU32, T::kU32, T::kU32}}));
  cases.push_back(one_op_case(
      group, {"mad.lo.cc.u32 madc.hi.u32",
              "mad.lo.cc.u32 %t0, %a, %b, %c;\nmadc.hi.u32 %t1, %a, %b, %c;\nmov.b64 %d, {%t0, %t1};",
              64,
              {T::kU32, T::kU32, T::kU32}}));
}

void add_bits(Cases& cases) {
  const std::string group = "bits";
  struct Width {
    int bits;
    T type;
  };
  for (const Width width : {Width{16, T::kU16}, Width{32, T::kU32}, Width{64, T::kU64}}) {
    const std::string b = fmt::format(".b{}", width.bits);
    for (const char* op : {"and", "or", "xor"})
      cases.push_back(plain_case(group, op + b, width.bits, {width.type, width.type}));
    for (const char* op : {"not", "cnot"})
      cases.push_back(plain_case(group, op + b, width.bits, {width.type}));
    cases.push_back(plain_case(group, "shl" + b, width.bits, {width.type, T::kCount}));
    cases.push_back(plain_case(group, "shr" + b, width.bits, {width.type, T::kCount}));
    for (const char* sign : {"u", "s"})
      cases.push_back(
          plain_case(group, fmt::format("shr.{}{}", sign, width.bits), width.bits, {width.type, T::kCount}));
  }
  for (const char* op : {"shf.l.clamp.b32", "shf.l.wrap.b32", "shf.r.clamp.b32", "shf.r.wrap.b32"})
    cases.push_back(plain_case(group, op, 32, {T::kU32, T::kU32, T::kCount}));
  for (const char* op : {"bmsk.clamp.b32", "bmsk.wrap.b32"})
    cases.push_back(plain_case(group, op, 32, {T::kCount, T::kCount}));
  for (const int bits : {32, 64}) {
    const T type = bits == 32 ? T::kU32 : T::kU64;
    cases.push_back(plain_case(group, fmt::format("popc.b{}", bits), 32, {type}));
    cases.push_back(plain_case(group, fmt::format("clz.b{}", bits), 32, {type}));
    cases.push_back(plain_case(group, fmt::format("brev.b{}", bits), bits, {type}));
    for (const char* sign : {"u", "s"}) {
      cases.push_back(plain_case(group, fmt::format("bfind.{}{}", sign, bits), 32, {type}));
      cases.push_back(plain_case(group, fmt::format("bfind.shiftamt.{}{}", sign, bits), 32, {type}));
      cases.push_back(
          plain_case(group, fmt::format("bfe.{}{}", sign, bits), bits, {type, T::kCount, T::kCount}));
    }
    cases.push_back(
        plain_case(group, fmt::format("bfi.b{}", bits), bits, {type, type, T::kCount, T::kCount}));
  }
  cases.push_back(plain_case(group, "prmt.b32", 32, {T::kU32, T::kU32, T::kU32}));
  for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})
    cases.push_back(plain_case(group, fmt::format("prmt.b32.{}", mode), 32, {T::kU32, T::kU32, T::kU32}));
  for (const int table : {0x96, 0xe8, 0xca, 0x1b, 0x80, 0xfe})
    cases.push_back(one_op_case(group, {fmt::format("lop3.b32 {:#x}", table),
                                        fmt::format("lop3.b32 %d, %a, %b, %c, {};", table),
                                        32,
                                        {T::kU32, T::kU32, T::kU32}}));
}

void add_single(Cases& cases) {
  const std::string group = "f32";
  const std::vector<T> two = {T::kF32, T::kF32}, three = {T::kF32, T::kF32, T::kF32};
  for (const char* op : {"add", "sub", "mul"})
    for (const char* ftz : {"", ".ftz"}) {
      cases.push_back(plain_case(group, fmt::format("{}{}.f32", op, ftz), 32, two));
      cases.push_back(plain_case(group, fmt::format("{}{}.sat.f32", op, ftz), 32, two));
    }
  for (const char* rounding : kRoundings)
    for (const char* ftz : {"", ".ftz"}) {
      for (const char* op : {"add", "sub", "mul", "div"})
        cases.push_back(plain_case(group, fmt::format("{}.{}{}.f32", op, rounding, ftz), 32, two));
      for (const char* op : {"sqrt", "rcp"})
        cases.push_back(plain_case(group, fmt::format("{}.{}{}.f32", op, rounding, ftz), 32, {T::kF32}));
      for (const char* sat : {"", ".sat"})
        cases.push_back(plain_case(group, fmt::format("fma.{}{}{}.f32", rounding, ftz, sat), 32, three));
      for (const char* op : {"add", "sub", "mul"})
        cases.push_back(plain_case(group, fmt::format("{}.{}{}.f32x2", op, rounding, ftz), 64,
                                   {T::kF32x2, T::kF32x2}, Needs::kBlackwell));
      cases.push_back(plain_case(group, fmt::format("fma.{}{}.f32x2", rounding, ftz), 64,
                                 {T::kF32x2, T::kF32x2, T::kF32x2}, Needs::kBlackwell));
    }
  for (const char* ftz : {"", ".ftz"}) {
    for (const char* op : {"neg", "abs"})
      cases.push_back(plain_case(group, fmt::format("{}{}.f32", op, ftz), 32, {T::kF32}));
    for (const char* op : {"min", "max"}) {
      for (const char* how : {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"})
        cases.push_back(plain_case(group, fmt::format("{}{}{}.f32", op, ftz, how), 32, two));
      for (const char* how : {"", ".NaN", ".abs"})
        cases.push_back(one_op_case(group,
                                    {fmt::format("{}{}{}.f32 of three", op, ftz, how),
                                     fmt::format("{}{}{}.f32 %d, %a, %b, %c;", op, ftz, how), 32, three},
                                    Needs::kBlackwell));
    }
  }
  cases.push_back(plain_case(group, "copysign.f32", 32, two));
}

void add_double(Cases& cases) {
  const std::string group = "f64";
  const std::vector<T> two = {T::kF64, T::kF64};
  for (const char* rounding : kRoundings) {
    for (const char* op : {"add", "sub", "mul", "div"})
      cases.push_back(plain_case(group, fmt::format("{}.{}.f64", op, rounding), 64, two));
    for (const char* op : {"sqrt", "rcp"})
      cases.push_back(plain_case(group, fmt::format("{}.{}.f64", op, rounding), 64, {T::kF64}));
    cases.push_back(plain_case(group, fmt::format("fma.{}.f64", rounding), 64, {T::kF64, T::kF64, T::kF64}));
  }
  for (const char* op : {"min", "max", "copysign"})
    cases.push_back(plain_case(group, fmt::format("{}.f64", op), 64, two));
  for (const char* op : {"neg", "abs"})
    cases.push_back(plain_case(group, fmt::format("{}.f64", op), 64, {T::kF64}));
}

void add_half(Cases& cases) {
  const std::string group = "half";
  struct Kind {
    const char* type;
    T operand;
    int bits;
  };
  for (const Kind kind : {Kind{"f16", T::kF16, 16}, Kind{"f16x2", T::kF16x2, 32}, Kind{"bf16", T::kBf16, 16},
                          Kind{"bf16x2", T::kBf16x2, 32}}) {
    const std::vector<T> two = {kind.operand, kind.operand},
                         three = {kind.operand, kind.operand, kind.operand};
    for (const char* op :
         {"add.rn", "sub.rn", "mul.rn", "add", "sub", "mul", "min", "max", "min.NaN", "max.NaN"})
      cases.push_back(plain_case(group, fmt::format("{}.{}", op, kind.type), kind.bits, two));
    for (const char* op : {"fma.rn", "fma.rn.relu"})
      cases.push_back(plain_case(group, fmt::format("{}.{}", op, kind.type), kind.bits, three));
    for (const char* op : {"neg", "abs"})
      cases.push_back(plain_case(group, fmt::format("{}.{}", op, kind.type), kind.bits, {kind.operand}));
    if (kind.type[0] == 'b') continue;
    for (const char* op : {"add.ftz", "mul.ftz", "add.sat", "mul.ftz.sat"})
      cases.push_back(plain_case(group, fmt::format("{}.{}", op, kind.type), kind.bits, two));
    for (const char* op : {"fma.rn.ftz", "fma.rn.sat"})
      cases.push_back(plain_case(group, fmt::format("{}.{}", op, kind.type), kind.bits, three));
  }
  for (const char* type : {"f16", "bf16"}) {
    const T operand = type[0] == 'b' ? T::kBf16 : T::kF16;
    cases.push_back(
        plain_case(group, fmt::format("add.rn.f32.{}", type), 32, {operand, T::kF32}, Needs::kBlackwell));
    cases.push_back(plain_case(group, fmt::format("fma.rn.f32.{}", type), 32, {operand, operand, T::kF32},
                               Needs::kBlackwell));
  }
}

void add_comparisons(Cases& cases) {
  const std::string group = "comparison";
  for (const char* how : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (const char* type : {"s16", "u16", "s32", "u32", "s64", "u64"}) {
      const T operand = type[1] == '1' ? T::kU16 : type[1] == '3' ? T::kU32 : T::kU64;
      cases.push_back(plain_case(group, fmt::format("setp.{}.{}", how, type), 1, {operand, operand}));
    }
  for (const char* how : {"lo", "ls", "hi", "hs"})
    cases.push_back(plain_case(group, fmt::format("setp.{}.u32", how), 1, {T::kU32, T::kU32}));
  for (const char* how :
       {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
    cases.push_back(plain_case(group, fmt::format("setp.{}.f32", how), 1, {T::kF32, T::kF32}));
    cases.push_back(plain_case(group, fmt::format("setp.{}.ftz.f32", how), 1, {T::kF32, T::kF32}));
    cases.push_back(plain_case(group, fmt::format("setp.{}.f64", how), 1, {T::kF64, T::kF64}));
  }
  for (const char* combine : {"and", "or", "xor"})
    cases.push_back(
        one_op_case(group, {fmt::format("setp.lt.{}.f32", combine),
                            fmt::format("setp.gt.s32 %q, %c, 0;\nsetp.lt.{}.f32 %p|%q, %a, %b, %q;\n"
                                        "@%q xor.b32 %c, %c, 1;\nselp.b32 %d, %c, %a, %p;",
                                        combine),
                            32,
                            {T::kF32, T::kF32, T::kU32}}));
  for (const char* how : {"eq", "ne"})
    for (const char* type : {"b16", "b32", "b64"}) {
      const T operand = type[1] == '1' ? T::kU16 : type[1] == '3' ? T::kU32 : T::kU64;
      cases.push_back(plain_case(group, fmt::format("setp.{}.{}", how, type), 1, {operand, operand}));
    }
  for (const char* combine : {"and", "or", "xor"})
    cases.push_back(one_op_case(
        group, {fmt::format("{}.pred", combine),
                fmt::format("setp.lt.s32 %p, %a, 0;\nsetp.lt.s32 %q, %b, 0;\n{}.pred %p, %p, %q;\n"
                            "not.pred %q, %p;\nmov.pred %p, %q;",
                            combine),
                1,
                {T::kU32, T::kU32}}));
  for (const char* type : {"b32", "u32", "s32", "f32", "b64", "u64", "s64"}) {
    const bool wide = type[1] == '6';
    const T operand = wide ? T::kU64 : T::kF32;
    cases.push_back(one_op_case(group, {fmt::format("selp.{}", type),
                                        fmt::format("setp.lt.s32 %q, %c, 0;\nselp.{} %d, %a, %b, %q;", type),
                                        wide ? 64 : 32,
                                        {operand, operand, T::kU32}}));
  }
  for (const char* type : {"b16", "u16", "s16"})
    cases.push_back(one_op_case(group, {fmt::format("selp.{}", type),
                                        fmt::format("setp.lt.s32 %q, %c, 0;\nselp.{} %d, %a, %b, %q;", type),
                                        16,
                                        {T::kU16, T::kU16, T::kU32}}));
  for (const char* type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    const T operand = type[1] == '1' ? T::kU16 : type[1] == '3' ? T::kU32 : T::kU64;
    cases.push_back(plain_case(group, fmt::format("mov.{}", type),
                               type[1] == '1'   ? 16
                               : type[1] == '3' ? 32
                                                : 64,
                               {operand}));
  }
  for (const char* op : {"slct.b32.s32", "slct.b32.f32", "slct.ftz.b32.f32"})
    cases.push_back(plain_case(group, op, 32, {T::kU32, T::kU32, T::kF32}));
  for (const char* op : {"set.lt.u32.f32", "set.geu.ftz.f32.f32", "set.ne.u32.s32"})
    cases.push_back(plain_case(group, op, 32, {T::kF32, T::kF32}));
  for (const char* op : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
    cases.push_back(plain_case(group, fmt::format("testp.{}.f32", op), 1, {T::kF32}));
}

}  // namespace

void add_arithmetic_cases(std::vector<TestCase>& cases) {
  add_integers(cases);
  add_bits(cases);
  add_single(cases);
  add_double(cases);
  add_half(cases);
  add_comparisons(cases);
}

}  // namespace jfa::conformance
