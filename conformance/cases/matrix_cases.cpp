// Matrix instructions of a warp: mma.sync and mma.sp of every type, ldmatrix, stmatrix, movmatrix.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <optional>

#include "conformance/one_op.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kMatrixBlocks = 16, kMatrixThreads = 128;
constexpr std::uint32_t kFp8BelowTwo = 0xbfbfbfbf;  // a mask

struct Multiply {
  std::string instruction{};          // mma.sync.aligned.…
  std::uint32_t a = 4, b = 2, c = 4;  // registers
  OperandType element = OperandType::kBf16x2;
  OperandType accumulator = OperandType::kF32;
  std::uint32_t mask = 0xffffffff;     // of the elements
  std::optional<Metadata> metadata{};  // of mma.sp, in every thread, selected or not
  std::uint32_t selector = 0;
};

// A register of operands: any, or (`wide`) finite ones whose exponents differ by up to 26, so that sums are
// cut.
std::uint32_t operand_word(OperandType type, bool wide, Random& random) {
  const std::uint64_t any = random_operand(type, random);
  if (!wide || type == OperandType::kU32) return static_cast<std::uint32_t>(any);
  const auto halves = [&](std::uint32_t keep, int mantissa_bits, std::uint32_t least) {
    std::uint32_t word = 0;
    for (int half = 0; half < 2; ++half)
      word |= ((static_cast<std::uint32_t>(any >> 16 * half) & keep) | (least + random.below(27))
                                                                           << mantissa_bits)
              << 16 * half;
    return word;
  };
  if (type == OperandType::kBf16x2) return halves(0x807f, 7, 114);
  if (type == OperandType::kF16x2) return halves(0x83ff, 10, 2);
  return (static_cast<std::uint32_t>(any) & 0x807fffff) | (114 + random.below(27)) << 23;
}

std::string registers(const char* prefix, std::uint32_t count) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "{" : ", ", prefix, i);
  return text + "}";
}

TestKernel multiply(const Multiply& m, bool wide, std::string_view name) {
  TestKernel kernel;
  kernel.grid.x = kMatrixBlocks;
  kernel.block.x = kMatrixThreads;
  constexpr std::size_t kAll = std::size_t{kMatrixBlocks} * kMatrixThreads;
  kernel.output_bytes = kAll * m.c * 4;
  Random random(seed_of(name));
  const auto element = [&] { return operand_word(m.element, wide, random) & m.mask; };
  struct Source {
    const char* prefix;
    std::uint32_t count;
    std::function<std::uint32_t()> word;
  };
  std::vector<Source> sources{{"a", m.a, element},
                              {"b", m.b, element},
                              {"c", m.c, [&] { return operand_word(m.accumulator, wide, random); }}};
  if (m.metadata) sources.push_back({"e", 1, [&] { return random_metadata(*m.metadata, random); }});
  std::string load, store, parameters;
  for (const Source& source : sources) {
    parameters += fmt::format(", .param .u64 in{}", kernel.inputs.size());
    load += fmt::format("ld.param.u64 %in, [in{}];\nmad.wide.u32 %at, %index, {}, %in;\n",
                        kernel.inputs.size(), source.count * 4);
    for (std::uint32_t i = 0; i < source.count; ++i)
      load += fmt::format("ld.global.b32 %{}{}, [%at+{}];\n", source.prefix, i, 4 * i);
    std::vector<std::byte> words(kAll * source.count * 4);
    for (std::size_t i = 0; i < words.size(); i += 4) {
      const std::uint32_t word = source.word();
      std::memcpy(&words[i], &word, 4);
    }
    kernel.inputs.push_back(std::move(words));
  }
  for (std::uint32_t i = 0; i < m.c; ++i) store += fmt::format("st.global.b32 [%at+{}], %d{};\n", 4 * i, i);
  kernel.ptx = fmt::format(
      R"(.visible .entry test(.param .u64 out{})
{{
.reg .b32 %index, %block, %threads, %a<8>, %b<8>, %c<8>, %d<8>, %e<1>; .reg .b64 %in, %at;
mov.u32 %index, %tid.x;
mov.u32 %block, %ctaid.x;
mov.u32 %threads, %ntid.x;
mad.lo.u32 %index, %block, %threads, %index;
{}{} {}, {}, {}, {}{};
ld.param.u64 %in, [out];
mad.wide.u32 %at, %index, {}, %in;
{}ret;
}}
)",
      parameters, load, m.instruction, registers("d", m.c), registers("a", m.a), registers("b", m.b),
      registers("c", m.c), m.metadata ? fmt::format(", %e0, {}", m.selector) : "", m.c * 4, store);
  return kernel;
}

void add_product(std::vector<TestCase>& cases, const Multiply& m, const std::string& name) {
  cases.push_back({name, "matrix", Needs::kAny, [m, name] { return multiply(m, false, name); }});
  if (m.element == OperandType::kU32) return;
  const std::string wide = name + ", wide exponents";
  cases.push_back({wide, "matrix", Needs::kAny, [m, wide] { return multiply(m, true, wide); }});
}

void add_multiply(std::vector<TestCase>& cases, Multiply m) {
  m.instruction = "mma.sync.aligned." + m.instruction;
  add_product(cases, m, m.instruction);
}

// With metadata in any order from each of the threads that can hold it, and with ordered metadata.
void add_sparse(std::vector<TestCase>& cases, Multiply m, std::uint32_t selectors) {
  const std::string shape_and_types = m.instruction;
  const bool one_of_two = m.element == OperandType::kF32;
  m.instruction = "mma.sp.sync.aligned." + shape_and_types;
  m.metadata = one_of_two ? Metadata::kOneOfTwo : Metadata::kAnyOrder;
  for (m.selector = 0; m.selector < selectors; ++m.selector)
    add_product(cases, m, fmt::format("{}, selector {}", m.instruction, m.selector));
  m.instruction = "mma.sp::ordered_metadata.sync.aligned." + shape_and_types;
  m.metadata = one_of_two ? Metadata::kOneOfTwo : Metadata::kAscending;
  m.selector = 0;
  add_product(cases, m, m.instruction);
}

void add_sparse_products(std::vector<TestCase>& cases) {
  using T = OperandType;
  struct Size {
    std::uint32_t k, words, selectors;  // K of 16-bit elements, registers of A and of B
  };
  for (const Size& size : {Size{16, 2, 4}, Size{32, 4, 2}}) {
    const auto add = [&](const std::string& instruction, Multiply m) {
      m.instruction = instruction;
      m.a = m.b = size.words;
      add_sparse(cases, std::move(m), size.selectors);
    };
    const std::uint32_t k = size.k;
    add(fmt::format("m16n8k{}.row.col.f32.f16.f16.f32", k), {.element = T::kF16x2});
    add(fmt::format("m16n8k{}.row.col.f16.f16.f16.f16", k),
        {.c = 2, .element = T::kF16x2, .accumulator = T::kF16x2});
    add(fmt::format("m16n8k{}.row.col.f32.bf16.bf16.f32", k), {.element = T::kBf16x2});
    add(fmt::format("m16n8k{}.row.col.f32.tf32.tf32.f32", k / 2), {.element = T::kF32});
  }
  for (const char* a : {"e4m3", "e5m2"})
    for (const char* b : {"e4m3", "e5m2"})
      add_sparse(
          cases,
          {fmt::format("m16n8k64.row.col.f32.{}.{}.f32", a, b), 4, 4, 4, T::kU32, T::kSmallF32, kFp8BelowTwo},
          1);
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"})
      for (const char* saturate : {"", "satfinite."}) {
        const std::string types = fmt::format("row.col.{}s32.{}.{}.s32", saturate, a, b);
        add_sparse(cases, {"m16n8k32." + types, 2, 2, 4, T::kU32, T::kU32}, 2);
        add_sparse(cases, {"m16n8k64." + types, 4, 4, 4, T::kU32, T::kU32}, 1);
      }
}

// One warp moves matrices between shared memory and registers; rows lie in the order that the second input
// says.
TestKernel move_matrices(const std::string& instruction, std::uint32_t count) {
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.output_bytes = 1024;
  Random random(seed_of(instruction));
  std::vector<std::byte> matrices(1024), rows(32 * 4);
  for (std::byte& byte : matrices) byte = static_cast<std::byte>(random.next());
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = (lane * 13 + 5) % 32 * 16;
    std::memcpy(&rows[lane * 4], &row, 4);
  }
  kernel.inputs = {std::move(matrices), std::move(rows)};
  const bool stores = instruction.starts_with("st");
  const std::string move =
      stores ? fmt::format("{} [%row], {};\nbar.warp.sync 0xffffffff;\n", instruction, registers("r", count))
             : fmt::format("{} {}, [%row];\n", instruction, registers("r", count));
  std::string load, result;
  for (std::uint32_t i = 0; i < 8; ++i) {
    load += fmt::format("ld.global.b32 %x, [%at+{0}];\nst.shared.b32 [%place+{0}], %x;\n", 4 * i);
    if (stores)
      result += fmt::format("ld.shared.b32 %x, [%place+{0}];\nst.global.b32 [%at+{0}], %x;\n", 4 * i);
    if (!stores)
      result +=
          fmt::format("st.global.b32 [%at+{}], {};\n", 4 * i, i < count ? fmt::format("%r{}", i) : "%lane");
    if (i < 4) load += fmt::format("add.u32 %r{}, %x, {};\n", i, i);
  }
  kernel.ptx = fmt::format(
      R"(.visible .entry test(.param .u64 out, .param .u64 in0, .param .u64 in1)
{{
.reg .b32 %lane, %tile, %place, %row, %x, %r<4>; .reg .b64 %in, %at;
.shared .align 128 .b8 tile[1024];
mov.u32 %lane, %tid.x;
mov.u32 %tile, tile;
mad.lo.u32 %place, %lane, 32, %tile;
ld.param.u64 %in, [in0];
mad.wide.u32 %at, %lane, 32, %in;
{}ld.param.u64 %in, [in1];
mad.wide.u32 %at, %lane, 4, %in;
ld.global.b32 %row, [%at];
add.u32 %row, %row, %tile;
bar.warp.sync 0xffffffff;
{}ld.param.u64 %in, [out];
mad.wide.u32 %at, %lane, 32, %in;
{}ret;
}}
)",
      load, move, result);
  return kernel;
}

}  // namespace

void add_matrix_cases(std::vector<TestCase>& cases) {
  using T = OperandType;
  for (const char* d : {"f32", "f16"}) {
    const bool f32 = d[1] == '3';
    const T accumulator = f32 ? T::kF32 : T::kF16x2;
    add_multiply(cases, {fmt::format("m16n8k8.row.col.{0}.f16.f16.{0}", d), 2, 1, f32 ? 4u : 2u, T::kF16x2,
                         accumulator});
    add_multiply(cases, {fmt::format("m16n8k16.row.col.{0}.f16.f16.{0}", d), 4, 2, f32 ? 4u : 2u, T::kF16x2,
                         accumulator});
  }
  add_multiply(cases, {"m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4, T::kBf16x2, T::kF32});
  add_multiply(cases, {"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, T::kBf16x2, T::kF32});
  add_multiply(cases, {"m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4, T::kF32, T::kF32});
  add_multiply(cases, {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, T::kF32, T::kF32});
  for (const char* a : {"e4m3", "e5m2"})
    for (const char* b : {"e4m3", "e5m2"})
      add_multiply(cases, {fmt::format("m16n8k32.row.col.f32.{}.{}.f32", a, b), 4, 2, 4, T::kU32,
                           T::kSmallF32, kFp8BelowTwo});
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"})
      for (const char* saturate : {"", "satfinite."})
        add_multiply(cases, {fmt::format("m16n8k32.row.col.{}s32.{}.{}.s32", saturate, a, b), 4, 2, 4,
                             T::kU32, T::kU32});
  add_multiply(cases, {"m16n8k16.row.col.s32.s8.s8.s32", 2, 1, 4, T::kU32, T::kU32});
  add_multiply(cases, {"m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2, T::kU32, T::kU32});
  add_sparse_products(cases);
  for (const std::uint32_t count : {1u, 2u, 4u})
    for (const char* transposed : {"", ".trans"})
      for (const char* direction : {"ld", "st"}) {
        const std::string instruction =
            fmt::format("{}matrix.sync.aligned.m8n8.x{}{}.shared.b16", direction, count, transposed);
        cases.push_back(
            {instruction, "matrix", Needs::kAny, [=] { return move_matrices(instruction, count); }});
      }
  cases.push_back(plain_case("matrix", "movmatrix.sync.aligned.m8n8.trans.b16", 32, {T::kU32}));
}

}  // namespace jfa::conformance
