// Loads, stores and atomics: widths, vectors, spaces, extensions.
#include <fmt/format.h>

#include "conformance/one_op.h"

namespace jfa::conformance {
namespace {

using T = OperandType;
using Cases = std::vector<TestCase>;

// 16 bytes of the first column that belong to the thread, whatever its number.
constexpr const char* kSixteenBytes =
    "and.b32 %t7, %index, 1023;\nld.param.u64 %l3, [in0];\nmad.wide.u32 %l3, %t7, 16, %l3;\n";

void add_loads(Cases& cases) {
  const std::string group = "memory";
  for (const char* how : {"", ".nc", ".nc.L1::no_allocate", ".L1::no_allocate", ".nc.L2::128B",
                          ".relaxed.gpu", ".acquire.gpu", ".volatile", ".ca", ".cg"}) {
    const std::string_view view = how;
    const bool ordered = view.starts_with(".relaxed") || view.starts_with(".acquire") || view == ".volatile";
    const std::string load = ordered ? fmt::format("ld{}.global", how) : fmt::format("ld.global{}", how);
    cases.push_back(
        one_op_case(group, {fmt::format("{}.v4.u32", load),
                            fmt::format("{}{}.v4.u32 {{%t0, %t1, %t2, %t3}}, [%l3];\n"
                                        "mad.lo.u32 %d, %t0, 31, %t1;\nmad.lo.u32 %d, %d, 31, %t2;\n"
                                        "mad.lo.u32 %d, %d, 31, %t3;",
                                        kSixteenBytes, load),
                            32,
                            {T::kU32}}));
  }
  for (const char* type : {"u8", "s8", "u16", "s16", "u32", "s32", "b32", "f32"})
    cases.push_back(one_op_case(group, {fmt::format("ld.global.{} into 32 bits", type),
                                        fmt::format("{}ld.global.{} %d, [%l3+4];", kSixteenBytes, type),
                                        32,
                                        {T::kU32}}));
  for (const char* type : {"u8", "s8", "u16", "s16", "u32", "s32", "u64"})
    cases.push_back(one_op_case(group, {fmt::format("ld.global.{} into 64 bits", type),
                                        fmt::format("{}ld.global.{} %d, [%l3+8];", kSixteenBytes, type),
                                        64,
                                        {T::kU32}}));
  cases.push_back(one_op_case(group, {"ld.global.v2.u64",
                                      fmt::format("{}ld.global.v2.u64 {{%l0, %l1}}, [%l3];\n"
                                                  "mad.lo.u64 %d, %l0, 31, %l1;",
                                                  kSixteenBytes),
                                      64,
                                      {T::kU32}}));
  cases.push_back(
      one_op_case(group, {"ld.global.v4.u8 and v2.u16",
                          fmt::format("{}ld.global.v4.u8 {{%t0, %t1, %t2, %t3}}, [%l3];\n"
                                      "ld.global.v2.u16 {{%t4, %t5}}, [%l3+4];\n"
                                      "mad.lo.u32 %d, %t0, 31, %t1;\nmad.lo.u32 %d, %d, 31, %t2;\n"
                                      "mad.lo.u32 %d, %d, 31, %t3;\nmad.lo.u32 %d, %d, 31, %t4;\n"
                                      "mad.lo.u32 %d, %d, 31, %t5;",
                                      kSixteenBytes),
                          32,
                          {T::kU32}}));
  cases.push_back(
      one_op_case(group, {"generic addresses",
                          ".shared .align 16 .b8 words[512];\nmov.u32 %t0, %tid.x;\n"
                          "shl.b32 %t1, %t0, 3;\nmov.u32 %t2, words;\nadd.u32 %t2, %t2, %t1;\n"
                          "cvt.u64.u32 %l0, %t2;\ncvta.shared.u64 %l1, %l0;\nst.u32 [%l1], %a;\n"
                          "cvta.to.shared.u64 %l2, %l1;\ncvt.u32.u64 %t2, %l2;\n"
                          "st.shared.u32 [%t2+4], %b;\nld.u32 %t3, [%l1+4];\nld.shared.u32 %t4, [%t2];\n"
                          "mov.b64 %d, {%t3, %t4};",
                          64,
                          {T::kU32, T::kU32}}));
  cases.push_back(one_op_case(
      group, {"st.shared.v4.b32 and ld.shared.v2.b64",
              ".shared .align 16 .b8 words[1024];\nmov.u32 %t0, %tid.x;\nshl.b32 %t0, %t0, 4;\n"
              "mov.u32 %t1, words;\nadd.u32 %t1, %t1, %t0;\nst.shared.v4.b32 [%t1], {%a, %b, %b, %a};\n"
              "bar.sync 0;\nxor.b32 %t2, %t1, 16;\nld.shared.v2.b64 {%l0, %l1}, [%t2];\nmad.lo.u64 %d, %l0, "
              "31, %l1;",
              64,
              {T::kU32, T::kU32}}));
  cases.push_back(
      one_op_case(group, {"st.shared.b16 and ld.shared.u8",
                          ".shared .align 16 .b8 words[512];\nmov.u32 %t0, %tid.x;\n"
                          "shl.b32 %t0, %t0, 3;\nmov.u32 %t1, words;\nadd.u32 %t1, %t1, %t0;\n"
                          "cvt.u16.u32 %h0, %a;\nst.shared.b16 [%t1], %h0;\nst.shared.b8 [%t1+2], %b;\n"
                          "st.shared.u8 [%t1+3], %a;\nld.shared.u32 %t2, [%t1];\n"
                          "ld.shared.s8 %t3, [%t1+1];\nmov.b64 %d, {%t2, %t3};",
                          64,
                          {T::kU32, T::kU32}}));
  cases.push_back(one_op_case(
      group,
      {"st.local and ld.local",
       ".local .align 16 .b8 depot[64];\nst.local.v2.b32 [depot+8], {%a, %b};\nst.local.b64 [depot], 5;\n"
       "mov.u64 %l0, depot;\nand.b32 %t0, %b, 15;\ncvt.u64.u32 %l1, %t0;\nadd.u64 %l0, %l0, %l1;\n"
       "st.local.u8 [%l0], %a;\nld.local.v2.u64 {%l1, %l2}, [depot];\nmad.lo.u64 %d, %l1, 31, %l2;",
       64,
       {T::kU32, T::kU32}}));
}

// Every vector of every type through the spaces: 16 bytes go from global to shared memory, from there by a
// generic address to registers, and out.
void add_typed_accesses(Cases& cases) {
  for (const char* type : {"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    const bool wide = type[1] == '6';
    const int bytes = wide ? 8 : 4;
    for (const int count : {1, 2, 4}) {
      if (wide && count == 4) continue;
      const std::string suffix =
          fmt::format("{}{}", count == 1 ? "" : fmt::format(".v{}", count), fmt::format(".{}", type));
      std::string code = fmt::format(
          ".shared .align 16 .b8 words[1024];\n{}mov.u32 %t6, %tid.x;\nshl.b32 %t6, %t6, 4;\nmov.u32 %t5, "
          "words;\n"
          "add.u32 %t5, %t5, %t6;\ncvt.u64.u32 %l2, %t5;\ncvta.shared.u64 %l2, %l2;\n",
          kSixteenBytes);
      for (int at = 0; at < 16; at += bytes * count) {
        const std::string list = count == 1   ? (wide ? "%l0" : "%t0")
                                 : wide       ? "{%l0, %l1}"
                                 : count == 2 ? "{%t0, %t1}"
                                              : "{%t0, %t1, %t2, %t3}";
        code += fmt::format(
            "ld.global{0} {1}, [%l3+{2}];\nst.shared{0} [%t5+{2}], {1};\nld.shared{0} {1}, [%t5+{2}];\n"
            "st{0} [%l2+{2}], {1};\nld{0} {1}, [%l2+{2}];\nst.shared{0} [%t5+{2}], {1};\n",
            suffix, list, at);
      }
      code += "ld.shared.v2.b64 {%l0, %l1}, [%t5];\nmad.lo.u64 %d, %l0, 31, %l1;";
      // st.global too, into the thread's own result, which is then read back and stored again.
      code += fmt::format(
          "\nld.param.u64 %l3, [out];\nmad.wide.u32 %l3, %index, 8, %l3;\nmov.b64 {{%t0, %t1}}, %d;\nmov.b64 "
          "%l0, %d;\n"
          "st.global{} [%l3], {};\n",
          wide ? fmt::format(".{}", type) : fmt::format(".v2.{}", type), wide ? "%l0" : "{%t0, %t1}");
      code +=
          wide ? "ld.global.b64 %d, [%l3];" : "ld.global.v2.b32 {%t2, %t3}, [%l3];\nmov.b64 %d, {%t2, %t3};";
      cases.push_back(one_op_case("memory", {fmt::format("ld and st{}", suffix), code, 64, {T::kU32}}));
    }
    // One word and four of them to global memory.
    if (!wide)
      cases.push_back(one_op_case(
          "memory",
          {fmt::format("st.global.{0} and .v4.{0}", type),
           fmt::format("and.b32 %t7, %index, 3;\nshl.b32 %t7, %t7, 3;\nld.param.u64 %l3, [out];\n"
                       "shr.u32 %t6, %index, 2;\nmad.wide.u32 %l3, %t6, 32, %l3;\nsetp.eq.u32 %q, %t7, 0;\n"
                       "@%q st.global.v4.{0} [%l3], {{%a, %b, %c, %e}};\n@%q st.global.{0} [%l3+16], %b;\n"
                       "bar.warp.sync 0xffffffff;\ncvt.u64.u32 %l2, %t7;\nadd.u64 %l3, %l3, %l2;\n"
                       "setp.lt.u32 %q, %t7, 16;\nmov.b64 %d, {{%a, %c}};\n@%q ld.global.b64 %d, [%l3];",
                       type),
           64,
           {T::kU32, T::kU32, T::kU32, T::kU32}}));
  }
}

// Parameters are read whole and in parts.
TestKernel parameters() {
  TestKernel kernel;
  kernel.block.x = 1;
  kernel.output_bytes = 28;
  kernel.expected.resize(kernel.output_bytes);
  // What a tensor map looks like is each device's own affair: it is read in two ways, and the difference
  // written.
  kernel.inputs.push_back(std::vector<std::byte>(4096));
  kernel.maps.push_back({CU_TENSOR_MAP_DATA_TYPE_UINT32, {32, 32}, {128}, {32, 8}});
  kernel.ptx = R"(.visible .entry test(.param .u64 out, .param .u64 in0, .param .align 64 .b8 pair[128])
{
.reg .b64 %out, %x<4>; .reg .b32 %y<8>;
ld.param.u64 %out, [out];
ld.param.v2.u64 {%x0, %x1}, [pair];
ld.param.v2.u32 {%y0, %y1}, [pair];
ld.param.v2.f32 {%y2, %y3}, [pair+8];
ld.param.u32 %y4, [pair];
ld.param.s32 %y5, [pair+4];
ld.param.f32 %y6, [pair+8];
mov.b64 %x2, {%y0, %y1};
sub.u64 %x0, %x0, %x2;
st.global.u64 [%out], %x0;
mov.b64 %x2, {%y2, %y3};
sub.u64 %x1, %x1, %x2;
st.global.u64 [%out+8], %x1;
sub.u32 %y4, %y4, %y0;
st.global.u32 [%out+16], %y4;
sub.u32 %y5, %y5, %y1;
st.global.s32 [%out+20], %y5;
sub.u32 %y6, %y6, %y2;
st.global.f32 [%out+24], %y6;
bra.uni DONE;
st.global.u32 [%out], 1;
DONE: ret;
}
)";
  return kernel;
}

// An atomic on a word of the thread's own, old value and new one below each other.
void add_atomic(Cases& cases, const std::string& operation, const std::string& type, T operand) {
  const std::size_t bytes = operand_bytes(operand);
  const bool wide = bytes == 8;
  const std::string bits = fmt::format("b{}", bytes * 8);
  const std::string place = fmt::format(
      "ld.param.u64 %l3, [out];\nmad.wide.u32 %l3, %index, 8, %l3;\nst.global.{} [%l3], %a;\n", bits);
  const std::string combine = wide ? "mad.lo.u64 %d, %l0, 31, %l1;" : "mov.b64 %d, {%t0, %t1};";
  const std::string old_value = wide ? "%l0" : "%t0", new_value = wide ? "%l1" : "%t1";
  const std::string third = operation == "cas" ? ", %c" : "";
  std::vector<T> columns(operation == "cas" ? 3 : 2, operand);
  // A swap is to succeed now and then.
  const std::string same =
      operation == "cas"
          ? fmt::format("and.b32 %t2, %index, 1;\nsetp.eq.u32 %q, %t2, 0;\n@%q mov.{} %b, %a;\n", bits)
          : "";
  cases.push_back(one_op_case(
      "atomics", {fmt::format("atom.global.{}.{}", operation, type),
                  fmt::format("{}{}atom.global.{}.{} {}, [%l3], %b{};\nld.global.{} {}, [%l3];\n{}", same,
                              place, operation, type, old_value, third, bits, new_value, combine),
                  64, columns}));
  const std::string shared = fmt::format(
      ".shared .align 16 .b8 words[512];\nmov.u32 %t4, %tid.x;\nshl.b32 %t4, %t4, 3;\nmov.u32 %t5, words;\n"
      "add.u32 %t5, %t5, %t4;\nst.shared.{} [%t5], %a;\n",
      bits);
  cases.push_back(one_op_case(
      "atomics", {fmt::format("atom.shared.{}.{}", operation, type),
                  fmt::format("{}{}atom.shared.{}.{} {}, [%t5], %b{};\nld.shared.{} {}, [%t5];\n{}", same,
                              shared, operation, type, old_value, third, bits, new_value, combine),
                  64, columns}));
  if (operation == "cas" || operation == "exch") return;
  cases.push_back(one_op_case(
      "atomics",
      {fmt::format("red.global.{}.{}", operation, type),
       fmt::format("{}red.relaxed.gpu.global.{}.{} [%l3], %b;\nld.global.{} {}, [%l3];\n{}", place, operation,
                   type, bits, new_value, wide ? "mov.b64 %d, %l1;" : "mov.b64 %d, {%t1, %a};"),
       64, columns}));
}

void add_atomics(Cases& cases) {
  for (const char* op : {"add", "min", "max", "inc", "dec"}) add_atomic(cases, op, "u32", T::kU32);
  for (const char* op : {"add", "min", "max"}) add_atomic(cases, op, "s32", T::kU32);
  for (const char* op : {"and", "or", "xor", "exch", "cas"}) add_atomic(cases, op, "b32", T::kU32);
  for (const char* op : {"add", "min", "max"}) add_atomic(cases, op, "u64", T::kU64);
  for (const char* op : {"min", "max"}) add_atomic(cases, op, "s64", T::kU64);
  for (const char* op : {"and", "or", "xor", "exch", "cas"}) add_atomic(cases, op, "b64", T::kU64);
  add_atomic(cases, "add", "f32", T::kF32);
  add_atomic(cases, "add", "f64", T::kF64);
  add_atomic(cases, "add.noftz", "f16x2", T::kF16x2);
  add_atomic(cases, "add.noftz", "bf16x2", T::kBf16x2);
  cases.push_back(one_op_case(
      "atomics",
      {"red.global.add.v2.f32",
       "ld.param.u64 %l3, [out];\nmad.wide.u32 %l3, %index, 8, %l3;\nst.global.v2.b32 [%l3], {%a, %b};\n"
       "red.relaxed.gpu.global.add.v2.f32 [%l3], {%c, %e};\nld.global.v2.b32 {%t0, %t1}, [%l3];\n"
       "mov.b64 %d, {%t0, %t1};",
       64,
       {T::kF32, T::kF32, T::kF32, T::kF32}}));
  // As a kernel tells the host something that it polls for.
  cases.push_back(one_op_case(
      "atomics", {"atom.relaxed.cas, st.release.sys and ld.relaxed.sys",
                  "and.b32 %t2, %index, 1;\nsetp.eq.u32 %q, %t2, 0;\n@%q mov.b32 %b, %a;\n"
                  "ld.param.u64 %l3, [out];\nmad.wide.u32 %l3, %index, 8, %l3;\nst.global.b32 [%l3], %a;\n"
                  "atom.relaxed.global.cas.b32 %t0, [%l3], %b, %c;\n"
                  "st.release.sys.global.u32 [%l3+4], %t0;\nld.relaxed.sys.global.u32 %t1, [%l3];\n"
                  "ld.relaxed.sys.global.u32 %t3, [%l3+4];\nadd.u32 %t1, %t1, %t3;\n"
                  "mov.b64 %d, {%t0, %t1};",
                  64,
                  {T::kU32, T::kU32, T::kU32}}));
  cases.push_back(one_op_case(
      "atomics",
      {"contended atom.shared.add.u32",
       ".shared .align 4 .b32 sum;\nmov.u32 %t0, %tid.x;\nsetp.eq.u32 %q, %t0, 0;\n"
       "@%q st.shared.u32 [sum], 0;\nbar.sync 0;\natom.shared.add.u32 %t1, [sum], %a;\nbar.sync 0;\n"
       "ld.shared.u32 %d, [sum];",
       32,
       {T::kU32}}));
}

}  // namespace

void add_memory_cases(std::vector<TestCase>& cases) {
  add_loads(cases);
  add_typed_accesses(cases);
  cases.push_back({"ld.param", "memory", Needs::kAny, parameters});
  add_atomics(cases);
}

}  // namespace jfa::conformance
