// ldmatrix, stmatrix, movmatrix and mma.sync: where elements lie in a warp's registers.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <random>

#include "simulator/machine/float_format.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::warp_matrix_test {
namespace {

using Words = std::vector<std::uint32_t>;

// Runs one warp whose threads load `inputs` words each into %r0…, execute the code, and store %r16… : outputs
// words each, thread by thread.
Words run_warp(const std::string& code, const Words& words, std::size_t inputs, std::size_t outputs,
               const std::string& module_level = {}) {
  DeviceMemory memory;
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n" + module_level +
      ".visible .entry warp(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<32>; .reg .b32 %lane, %a; .reg "
      ".b64 "
      "%rd<4>; .shared .align 128 .b8 tile[1024];\nmov.u32 %lane, %tid.x;\nld.param.u64 %rd0, [in];\n" +
      fmt::format("mad.wide.u32 %rd1, %lane, {}, %rd0;\n", 4 * inputs);
  for (std::size_t i = 0; i < inputs; ++i) text += fmt::format("ld.global.b32 %r{}, [%rd1+{}];\n", i, 4 * i);
  text += code + "\nld.param.u64 %rd2, [out];\n" +
          fmt::format("mad.wide.u32 %rd3, %lane, {}, %rd2;\n", 4 * outputs);
  for (std::size_t i = 0; i < outputs; ++i)
    text += fmt::format("st.global.b32 [%rd3+{}], %r{};\n", 4 * i, 16 + i);
  text += "ret;\n}\n";
  const auto module = Module::load(text, memory);
  REQUIRE_MESSAGE(module.ok(), module.status().message());
  LaunchConfig config;
  config.block.x = 32;
  const std::uint64_t in = memory.allocate(words.size() * 4, "in");
  const std::uint64_t out = memory.allocate(32 * outputs * 4, "out");
  std::memcpy(memory.host(in, words.size() * 4), words.data(), words.size() * 4);
  config.parameters.resize(16);
  std::memcpy(config.parameters.data(), &in, 8);
  std::memcpy(config.parameters.data() + 8, &out, 8);
  const LaunchResult result = run_grid(**module, *(*module)->entries()[0], config, memory);
  REQUIRE_MESSAGE(result.ok, result.report.text());
  Words values(32 * outputs);
  std::memcpy(values.data(), memory.host(out, values.size() * 4), values.size() * 4);
  return values;
}

// Element (row, column) of matrix i is 64 i + 8 row + column; shared memory holds them row by row.
std::uint32_t element(std::uint32_t i, std::uint32_t row, std::uint32_t column) {
  return 64 * i + 8 * row + column;
}
std::uint32_t pair_of(std::uint32_t i, std::uint32_t lane, bool transposed) {
  const std::uint32_t line = lane / 4, place = 2 * (lane % 4);
  const auto at = [&](std::uint32_t k) { return transposed ? element(i, k, line) : element(i, line, k); };
  return at(place) | at(place + 1) << 16;
}

const char* const kFillTile = R"(
    shl.b32 %r8, %lane, 5; mov.u32 %r9, tile; add.u32 %r8, %r8, %r9;
    st.shared.v4.b32 [%r8], {%r0, %r1, %r2, %r3};
    st.shared.v4.b32 [%r8+16], {%r4, %r5, %r6, %r7};
    bar.warp.sync -1;
    shl.b32 %a, %lane, 4; add.u32 %a, %a, %r9;
)";
// All 256 elements, eight words a thread.
Words tile_words() {
  Words words;
  for (std::uint32_t e = 0; e < 512; e += 2) words.push_back(e | (e + 1) << 16);
  return words;
}

TEST_CASE("ldmatrix: one, two and four matrices, plain and transposed") {
  for (const bool transposed : {false, true})
    for (const std::size_t count : {1u, 2u, 4u}) {
      const char* registers[] = {"", "{%r16}", "{%r16, %r17}", "", "{%r16, %r17, %r18, %r19}"};
      const Words out = run_warp(
          std::string(kFillTile) + fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%a];", count,
                                               transposed ? ".trans" : "", registers[count]),
          tile_words(), 8, count);
      for (std::uint32_t lane = 0; lane < 32; ++lane)
        for (std::uint32_t i = 0; i < count; ++i)
          CHECK(out[lane * count + i] == pair_of(i, lane, transposed));
    }
}

TEST_CASE("stmatrix is the inverse of ldmatrix") {
  for (const bool transposed : {false, true}) {
    Words words;
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (std::uint32_t i = 0; i < 4; ++i) words.push_back(pair_of(i, lane, transposed));
    const Words out = run_warp(fmt::format(R"(
      mov.u32 %r9, tile; shl.b32 %a, %lane, 4; add.u32 %a, %a, %r9;
      stmatrix.sync.aligned.m8n8.x4{}.shared::cta.b16 [%a], {{%r0, %r1, %r2, %r3}};
      bar.warp.sync -1;
      ld.shared.v4.b32 {{%r16, %r17, %r18, %r19}}, [%a];)",
                                           transposed ? ".trans" : ""),
                               words, 4, 4);
    for (std::uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (2 * i | (2 * i + 1) << 16));
  }
}

// Byte matrices are stored and loaded transposed; rows of 16 bytes with the values 16 row + byte.
TEST_CASE("stmatrix and ldmatrix of bytes") {
  const auto bytes = [](std::uint32_t lane, std::uint32_t first_row) {
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < 4; ++i)
      word |= (16 * (first_row + i % 2) + lane / 4 + 8 * (i / 2)) << 8 * i;
    return word;
  };
  Words words;
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t i = 0; i < 2; ++i) words.push_back(bytes(lane, 8 * i + 2 * (lane % 4)));
  const Words out = run_warp(R"(
    mov.u32 %r9, tile; and.b32 %a, %lane, 15; shl.b32 %a, %a, 4; add.u32 %a, %a, %r9;
    stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%a], {%r0, %r1};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r16, %r17}, [%a];
    shl.b32 %a, %lane, 3; add.u32 %a, %a, %r9;
    ld.shared.v2.b32 {%r18, %r19}, [%a];)",
                             words, 2, 4);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(out[4 * lane] == bytes(lane, 4 * (lane % 4)));
    CHECK(out[4 * lane + 1] == bytes(lane, 4 * (lane % 4) + 2));
    for (std::uint32_t i = 0; i < 8; ++i)
      CHECK((out[4 * lane + 2 + i / 4] >> 8 * (i % 4) & 0xff) == ((8 * lane + i) & 0xff));
  }
}

TEST_CASE("movmatrix transposes in registers") {
  Words words;
  for (std::uint32_t lane = 0; lane < 32; ++lane) words.push_back(pair_of(0, lane, false));
  const Words out = run_warp("movmatrix.sync.aligned.m8n8.trans.b16 %r16, %r0;", words, 1, 1);
  for (std::uint32_t lane = 0; lane < 32; ++lane) CHECK(out[lane] == pair_of(0, lane, true));
}

TEST_CASE("ldmatrix of rows that are not 16-byte aligned is refused") {
  const Run run = run_kernel(kernel_text(R"(
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r0, tile; add.u32 %r0, %r0, 8;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r0]; ret;)"),
                             1);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kMisaligned);
}

// --- mma.sync

struct Type {
  const char* name;
  int bytes;
  const FloatFormat* format;  // null: integers
};
const Type kF16{"f16", 2, &kFloat16}, kBF16{"bf16", 2, &kBfloat16}, kTF32{"tf32", 4, &kFloat32},
    kFp8{"e4m3", 1, &kE4m3}, kFp8Wide{"e5m2", 1, &kE5m2}, kSigned{"s8", 1, nullptr},
    kUnsigned{"u8", 1, nullptr};

std::uint32_t encode(double value, const Type& type) {
  if (type.format == nullptr) return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) & 0xff;
  return encode_float(value, *type.format, Rounding::kNearest);
}

struct Case {
  int m, k;
  Type a, b;
  const char* accumulator;
};

// Fragments as the PTX manual's tables give them, written by element index i: of A, of B, of C and D.
struct Cell {
  int row, column;
};
Cell a_cell(const Case& c, int lane, int i) {
  const int per_word = 4 / c.a.bytes, word = i / per_word, halves = c.m / 8;
  return {lane / 4 + 8 * (word % halves), (lane % 4 + 4 * (word / halves)) * per_word + i % per_word};
}
Cell b_cell(const Case& c, int lane, int i) {
  const int per_word = 4 / c.b.bytes;
  return {(lane % 4 + 4 * (i / per_word)) * per_word + i % per_word, lane / 4};
}
Cell c_cell(int lane, int i) { return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2}; }

void check_product(const Case& c) {
  const std::string accumulator = c.accumulator;
  const bool half = accumulator == "f16", integer = accumulator == "s32";
  const Type c_type = half ? kF16 : Type{"f32", 4, &kFloat32};
  std::mt19937 random(3);
  const auto values = [&](int count) {
    std::vector<double> v(static_cast<std::size_t>(count));
    for (double& x : v)
      x = static_cast<double>(random() % 9) - (c.a.format == nullptr && c.a.name[0] == 'u' ? 0 : 4);
    return v;
  };
  const std::vector<double> a = values(c.m * c.k), b = values(c.k * 8), start = values(c.m * 8);
  Words words;
  const int a_words = c.m * c.k * c.a.bytes / 128, b_words = 8 * c.k * c.b.bytes / 128;
  const int c_elements = c.m / 4, c_words = half ? c_elements / 2 : c_elements;
  for (int lane = 0; lane < 32; ++lane) {
    const auto put = [&](int count, int bytes, auto bits_of_element) {
      const int per_word = 4 / bytes;
      for (int w = 0; w < count; ++w) {
        std::uint32_t word = 0;
        for (int i = 0; i < per_word; ++i) word |= bits_of_element(w * per_word + i) << 8 * bytes * i;
        words.push_back(word);
      }
    };
    put(a_words, c.a.bytes, [&](int i) {
      const Cell cell = a_cell(c, lane, i);
      return encode(a[static_cast<std::size_t>(cell.row * c.k + cell.column)], c.a);
    });
    put(b_words, c.b.bytes, [&](int i) {
      const Cell cell = b_cell(c, lane, i);
      return encode(b[static_cast<std::size_t>(cell.row * 8 + cell.column)], c.b);
    });
    put(c_words, half ? 2 : 4, [&](int i) {
      const Cell cell = c_cell(lane, i);
      const double value = start[static_cast<std::size_t>(cell.row * 8 + cell.column)];
      return integer ? static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) : encode(value, c_type);
    });
  }
  const auto registers = [](int first, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("%r{}", first + i));
    return fmt::format("{{{}}}", fmt::join(names, ", "));
  };
  const std::string op =
      fmt::format("mma.sync.aligned.m{}n8k{}.row.col.{}.{}.{}.{} {}, {}, {}, {};", c.m, c.k, accumulator,
                  c.a.name, c.b.name, accumulator, registers(16, c_words), registers(0, a_words),
                  registers(a_words, b_words), registers(a_words + b_words, c_words));
  CAPTURE(op);
  const Words out = run_warp(op, words, static_cast<std::size_t>(a_words + b_words + c_words),
                             static_cast<std::size_t>(c_words));
  int wrong = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < c_elements; ++i) {
      const Cell cell = c_cell(lane, i);
      double want = start[static_cast<std::size_t>(cell.row * 8 + cell.column)];
      for (int k = 0; k < c.k; ++k)
        want += a[static_cast<std::size_t>(cell.row * c.k + k)] *
                b[static_cast<std::size_t>(k * 8 + cell.column)];
      const std::uint32_t word = out[static_cast<std::size_t>(lane * c_words + (half ? i / 2 : i))];
      const double is = integer ? static_cast<std::int32_t>(word)
                        : half  ? decode_float(word >> 16 * (i % 2) & 0xffff, kFloat16)
                                : decode_float(word, kFloat32);
      wrong += is != want;
    }
  CHECK(wrong == 0);
}

TEST_CASE("mma.sync: every shape and type") {
  for (const int k : {8, 16}) {
    check_product({16, k, kF16, kF16, "f32"});
    check_product({16, k, kF16, kF16, "f16"});
    check_product({16, k, kBF16, kBF16, "f32"});
  }
  for (const int k : {4, 8}) check_product({16, k, kTF32, kTF32, "f32"});
  for (const int k : {16, 32})
    for (const Type& a : {kFp8, kFp8Wide})
      for (const Type& b : {kFp8, kFp8Wide})
        for (const char* accumulator : {"f32", "f16"}) check_product({16, k, a, b, accumulator});
  for (const Type& type : {kSigned, kUnsigned}) {
    check_product({8, 16, type, type, "s32"});
    check_product({16, 16, type, type, "s32"});
    check_product({16, 32, type, type, "s32"});
  }
}

TEST_CASE("mma.sync with the wrong number of registers is refused") {
  const Run run = run_kernel(
      kernel_text(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3}, "
          "{%f0, %f1, %f2, %f3}; ret;"),
      1);
  CHECK(run.load_error.find("A of mma.sync m16n8k16 has 2 registers, not 4") != std::string::npos);
}

}  // namespace
}  // namespace jfa::simulator::test::warp_matrix_test
