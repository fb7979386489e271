// cvt between all the types, and moves that pack and unpack.
#include <fmt/format.h>

#include "conformance/one_op.h"

namespace jfa::conformance {
namespace {

using T = OperandType;

struct Integer {
  const char* name;
  T operand;
  int bits;  // of the type
  int register_bits;
};
constexpr Integer kIntegers[] = {{"s8", T::kU16, 8, 16},   {"u8", T::kU16, 8, 16},   {"s16", T::kU16, 16, 16},
                                 {"u16", T::kU16, 16, 16}, {"s32", T::kU32, 32, 32}, {"u32", T::kU32, 32, 32},
                                 {"s64", T::kU64, 64, 64}, {"u64", T::kU64, 64, 64}};

struct Float {
  const char* name;
  T operand;
  int bits;
};
constexpr Float kFloats[] = {
    {"f16", T::kF16, 16}, {"bf16", T::kBf16, 16}, {"f32", T::kF32, 32}, {"f64", T::kF64, 64}};

// Whether every value of one type is a value of the other: nothing to saturate, and ptxas refuses `.sat`.
bool holds(const Integer& to, const Integer& from) {
  const bool to_signed = to.name[0] == 's', from_signed = from.name[0] == 's';
  if (from_signed) return to_signed && to.bits >= from.bits;
  return to.bits >= from.bits + (to_signed ? 1 : 0);
}

void add(std::vector<TestCase>& cases, const std::string& instruction, int bits, std::vector<T> columns,
         Needs needs = Needs::kAny) {
  cases.push_back(plain_case("conversion", instruction, bits, std::move(columns), needs));
}

}  // namespace

void add_conversion_cases(std::vector<TestCase>& cases) {
  for (const Integer& to : kIntegers) {
    for (const Integer& from : kIntegers) {
      if (&to == &from) continue;
      add(cases, fmt::format("cvt.{}.{}", to.name, from.name), to.register_bits, {from.operand});
      if (!holds(to, from))
        add(cases, fmt::format("cvt.sat.{}.{}", to.name, from.name), to.register_bits, {from.operand});
    }
    for (const Float& f : kFloats) {
      if (to.bits == 8 && f.operand == T::kBf16) continue;  // the ISA has none
      for (const char* rounding : {"rni", "rzi", "rmi", "rpi"})
        add(cases, fmt::format("cvt.{}.{}.{}", rounding, to.name, f.name), to.register_bits, {f.operand});
      for (const char* rounding : {"rn", "rz", "rm", "rp"})
        add(cases, fmt::format("cvt.{}.{}.{}", rounding, f.name, to.name), f.bits, {to.operand});
    }
    for (const char* rounding : {"rni", "rzi"})
      add(cases, fmt::format("cvt.{}.ftz.{}.f32", rounding, to.name), to.register_bits, {T::kF32});
  }
  struct Integral {
    const char* types;
    T operand;
    int bits;
  };
  for (const char* rounding : {"rni", "rzi", "rmi", "rpi"})
    for (const Integral& to : {Integral{".f32.f32", T::kF32, 32}, Integral{".ftz.f32.f32", T::kF32, 32},
                               Integral{".f64.f64", T::kF64, 64}, Integral{".f16.f16", T::kF16, 16}})
      add(cases, fmt::format("cvt.{}{}", rounding, to.types), to.bits, {to.operand});
  for (const char* op : {"cvt.sat.f32.f32", "cvt.ftz.sat.f32.f32", "cvt.ftz.f32.f32"})
    add(cases, op, 32, {T::kF32});
  for (const char* rounding : {"rn", "rz", "rm", "rp"}) {
    add(cases, fmt::format("cvt.{}.f32.f64", rounding), 32, {T::kF64});
    add(cases, fmt::format("cvt.{}.ftz.f32.f64", rounding), 32, {T::kF64});
    add(cases, fmt::format("cvt.{}.f16.f64", rounding), 16, {T::kF64});
  }
  add(cases, "cvt.f64.f32", 64, {T::kF32});
  add(cases, "cvt.ftz.f64.f32", 64, {T::kF32});
  for (const char* rounding : {"rn", "rz"}) {
    for (const char* how : {"", ".relu"}) {
      add(cases, fmt::format("cvt.{}{}.f16.f32", rounding, how), 16, {T::kF32});
      add(cases, fmt::format("cvt.{}{}.bf16.f32", rounding, how), 16, {T::kF32});
      add(cases, fmt::format("cvt.{}{}.f16x2.f32", rounding, how), 32, {T::kF32, T::kF32});
      add(cases, fmt::format("cvt.{}{}.bf16x2.f32", rounding, how), 32, {T::kF32, T::kF32});
    }
  }
  for (const char* op : {"cvt.rna.tf32.f32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32", "cvt.rn.relu.tf32.f32"})
    add(cases, op, 32, {T::kF32});
  for (const char* op : {"cvt.f32.f16", "cvt.ftz.f32.f16", "cvt.sat.f32.f16"}) add(cases, op, 32, {T::kF16});
  add(cases, "cvt.f32.bf16", 32, {T::kBf16});
  add(cases, "cvt.f64.f16", 64, {T::kF16});
  for (const char* type : {"e4m3x2", "e5m2x2"}) {
    for (const char* relu : {"", ".relu"}) {
      add(cases, fmt::format("cvt.rn.satfinite{}.{}.f32", relu, type), 16, {T::kF32, T::kF32});
      add(cases, fmt::format("cvt.rn.satfinite{}.{}.f16x2", relu, type), 16, {T::kF16x2});
      add(cases, fmt::format("cvt.rn{}.f16x2.{}", relu, type), 32, {T::kU16});
    }
  }
  for (const char* type : {"e2m3x2", "e3m2x2"}) {
    add(cases, fmt::format("cvt.rn.satfinite.{}.f32", type), 16, {T::kF32, T::kF32}, Needs::kBlackwell);
    add(cases, fmt::format("cvt.rn.f16x2.{}", type), 32, {T::kU16}, Needs::kBlackwell);
  }
  for (const char* rounding : {"rz", "rp"})
    for (const char* how : {"", ".satfinite"}) {
      add(cases, fmt::format("cvt.{}{}.ue8m0x2.f32", rounding, how), 16, {T::kF32, T::kF32},
          Needs::kBlackwell);
      add(cases, fmt::format("cvt.{}{}.ue8m0x2.bf16x2", rounding, how), 16, {T::kBf16x2}, Needs::kBlackwell);
    }
  add(cases, "cvt.rn.bf16x2.ue8m0x2", 32, {T::kU16}, Needs::kBlackwell);
  cases.push_back(one_op_case("conversion", {"cvta.to.global.u64",
                                             "mov.b64 %l0, {%a, %b};\ncvta.global.u64 %l1, %l0;\n"
                                             "cvta.to.global.u64 %l2, %l1;\nxor.b64 %d, %l2, %l0;",
                                             64,
                                             {T::kU32, T::kU32}}));
  cases.push_back(one_op_case("conversion", {"mov.b64 pack and unpack",
                                             "mov.b64 %l0, {%b, %a};\nmov.b64 {%t0, %t1}, %l0;\n"
                                             "mov.b32 {%h0, %h1}, %t0;\nmov.b32 %t2, {%h1, %h0};\n"
                                             "mov.b64 %d, {%t2, %t1};",
                                             64,
                                             {T::kU32, T::kU32}}));
}

}  // namespace jfa::conformance
