#include "generator/emit_wgmma.h"

#include <fmt/format.h>

namespace jfa {
namespace {

constexpr int kPerLine = 8;

// "piece(0), piece(1) … piece(count - 1)", a few a line.
template <class Piece>
std::string list(int count, std::string_view line_begin, std::string_view line_end, Piece piece) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i % kPerLine == 0) text += line_begin;
    text += piece(i);
    if (i + 1 < count) text += ", ";
    if (i % kPerLine == kPerLine - 1 || i + 1 == count) text += line_end;
  }
  return text;
}

// Up to the operands: the accumulator is %0 … and the predicate comes from operand `predicate`.
std::string instruction(int columns, int registers, int predicate, std::string_view operands) {
  return fmt::format(
      "  asm volatile(\n"
      "      \"{{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %{}, 0;\\n\\t\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.\" JFA_PTX_ELEMENT \".\" JFA_PTX_ELEMENT \" {{\"\n"
      "{}"
      "      \"}}, {};\\n\\t}}\"\n"
      "      : {}",
      predicate, columns, list(registers, "      \"", "\"\n", [](int i) { return fmt::format("%{}", i); }),
      operands, list(registers, "", "\n        ", [](int i) { return fmt::format("\"+f\"(d[{}])", i); }));
}

}  // namespace

std::string wgmma_ss_text(int columns) {
  const int registers = columns / 2;
  return fmt::format(
             "// d (+)= a * b: a 64 x 16 and b 16 x {}, both in shared memory. Asynchronous.\n"
             "namespace jfa::kernel {{\n\n"
             "// Contiguous along the 16 unless said otherwise. kRowsOfA: along the rows of a; kColumnsOfB: "
             "along\n"
             "// the columns of b.\n"
             "template <bool kRowsOfA = false, bool kColumnsOfB = false>\n"
             "__device__ inline void wgmma_ss(float (&d)[{}], u64 a, u64 b, bool accumulate) {{\n",
             columns, registers) +
         instruction(columns, registers, registers + 2,
                     fmt::format("%{}, %{}, p, 1, 1, %{}, %{}", registers, registers + 1, registers + 3,
                                 registers + 4)) +
         ": \"l\"(a), \"l\"(b), \"r\"(static_cast<u32>(accumulate)), \"n\"(static_cast<int>(kRowsOfA)),\n"
         "        \"n\"(static_cast<int>(kColumnsOfB)));\n"
         "}\n\n}  // namespace jfa::kernel\n";
}

std::string wgmma_rs_text(int columns) {
  const int registers = columns / 2;
  return fmt::format(
             "// d (+)= a * b: a 64 x 16 in registers, b 16 x {} in shared memory with its columns "
             "contiguous.\n"
             "// Asynchronous.\n"
             "namespace jfa::kernel {{\n\n"
             "__device__ inline void wgmma_rs(float (&d)[{}], const u32 (&a)[4], u64 b, bool accumulate) "
             "{{\n",
             columns, registers) +
         instruction(columns, registers, registers + 5,
                     fmt::format("{{%{}, %{}, %{}, %{}}}, %{}, p, 1, 1, 1", registers, registers + 1,
                                 registers + 2, registers + 3, registers + 4)) +
         ": \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
         "\"r\"(static_cast<u32>(accumulate)));\n"
         "}\n\n}  // namespace jfa::kernel\n";
}

}  // namespace jfa
