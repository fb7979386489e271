// mma.sp and mma.sp::ordered_metadata: random sparse matrices against the dense product that they stand for.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "conformance/session.h"
#include "tests/simulator/sparse_matrix.h"

namespace jfa::test::mma_sp_test {
namespace {

using namespace simulator;
using Words = std::vector<std::uint32_t>;

struct Case {
  std::uint32_t k = 32;
  ElementType a = kBf16Elements, b = kBf16Elements;
  std::string accumulator = "f32";
  std::uint32_t selector = 0;
  bool ordered = false;

  std::uint32_t words() const { return k * a.bytes / 16; }  // of A and of B, a thread
  std::uint32_t c_words() const { return accumulator == "f16" ? 2 : 4; }
  std::string opcode() const {
    return fmt::format("mma.sp{}.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{}",
                       ordered ? "::ordered_metadata" : "", k, accumulator, a.name, b.name, accumulator);
  }
};

std::string registers(std::uint32_t first, std::uint32_t count) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("%r{}", first + i));
  return fmt::format("{{{}}}", fmt::join(names, ", "));
}

std::string instruction(const Case& c) {
  const std::uint32_t b = c.words(), start = 2 * b, metadata = start + c.c_words();
  return fmt::format("{} {}, {}, {}, {}, %r{}, {};", c.opcode(), registers(24, c.c_words()),
                     registers(0, c.words()), registers(b, c.words()), registers(start, c.c_words()),
                     metadata, c.selector);
}

// One warp whose threads load A, B, C and metadata into %r0 …, execute the statement and store %r24 ….
conformance::TestKernel kernel(const std::string& statement, const Case& c, const Words& words) {
  const std::uint32_t inputs = 2 * c.words() + c.c_words() + 1;
  conformance::TestKernel kernel;
  kernel.output_bytes = std::size_t{32} * c.c_words() * 4;
  kernel.inputs.emplace_back(words.size() * 4);
  std::memcpy(kernel.inputs[0].data(), words.data(), words.size() * 4);
  kernel.ptx = fmt::format(
      ".visible .entry test(.param .u64 out, .param .u64 in0)\n{{\n.reg .b32 %r<32>, %lane; .reg .b64 %at;\n"
      "mov.u32 %lane, %tid.x;\nld.param.u64 %at, [in0];\nmad.wide.u32 %at, %lane, {}, %at;\n",
      4 * inputs);
  for (std::uint32_t i = 0; i < inputs; ++i)
    kernel.ptx += fmt::format("ld.global.b32 %r{}, [%at+{}];\n", i, 4 * i);
  kernel.ptx += fmt::format("{}\nld.param.u64 %at, [out];\nmad.wide.u32 %at, %lane, {}, %at;\n", statement,
                            4 * c.c_words());
  for (std::uint32_t i = 0; i < c.c_words(); ++i)
    kernel.ptx += fmt::format("st.global.b32 [%at+{}], %r{};\n", 4 * i, 24 + i);
  kernel.ptx += "ret;\n}\n";
  return kernel;
}

struct Product {
  Words words;           // what the threads load, thread by thread
  std::vector<int> sum;  // [16][8]
};

// Words of a thread of `count` elements, of which element(i) is the i-th.
template <class Function>
void put(Words& words, std::uint32_t count, std::uint32_t bytes, Function element) {
  const std::uint32_t per_word = 4 / bytes;
  for (std::uint32_t first = 0; first < count; first += per_word) {
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < per_word; ++i) word |= element(first + i) << 8 * bytes * i;
    words.push_back(word);
  }
}

Product make_product(const Case& c) {
  std::mt19937 random(c.k + c.a.bytes + c.selector);
  const SparseMatrix a = random_sparse_matrix(16, c.k, c.a, !c.ordered, random);
  std::vector<int> b(std::size_t{8} * c.k), start(std::size_t{16} * 8);  // B column by column
  for (int& value : b) value = c.b.random_value(random);
  for (int& value : start) value = static_cast<int>(random() % 33) - 16;
  const Words metadata = a.metadata_words(c.a, 0, c.selector);
  const std::uint32_t per_word = 4 / c.a.bytes;
  const auto c_element = [](std::uint32_t lane, std::uint32_t i) {
    return std::size_t{(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2};
  };
  Product product;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    put(product.words, c.words() * per_word, c.a.bytes, [&](std::uint32_t i) {
      const std::uint32_t word = i / per_word, row = lane / 4 + word % 2 * 8;
      const std::uint32_t column = (lane % 4 + word / 2 * 4) * per_word + i % per_word;
      return c.a.bits_of(a.kept[std::size_t{row} * c.k / 2 + column]);
    });
    put(product.words, c.words() * per_word, c.b.bytes, [&](std::uint32_t i) {
      const std::uint32_t row = (lane % 4 + i / per_word * 4) * per_word + i % per_word;
      return c.b.bits_of(b[std::size_t{lane / 4} * c.k + row]);
    });
    const ElementType accumulator{c.accumulator, c.accumulator == "f16" ? 2u : 4u,
                                  c.accumulator == "f16" ? &kFloat16 : &kFloat32};
    put(product.words, 4, accumulator.bytes, [&](std::uint32_t i) {
      const int value = start[c_element(lane, i)];
      return c.accumulator == "s32" ? static_cast<std::uint32_t>(value) : accumulator.bits_of(value);
    });
    product.words.push_back(metadata[lane]);
  }
  product.sum = start;
  for (std::uint32_t m = 0; m < 16; ++m)
    for (std::uint32_t n = 0; n < 8; ++n)
      for (std::uint32_t k = 0; k < c.k; ++k)
        product.sum[m * 8 + n] += a.dense[std::size_t{m} * c.k + k] * b[std::size_t{n} * c.k + k];
  return product;
}

void check(const Case& c) {
  const std::string statement = instruction(c);
  CAPTURE(statement);
  const Product product = make_product(c);
  for (const char* device : {"sim:sm_90a", "sim:sm_100a"}) {
    const auto session = conformance::Session::open(device).value();
    const Result<std::vector<std::byte>> output = session->run(kernel(statement, c, product.words));
    REQUIRE_MESSAGE(output.ok(), output.status().message() << output.status().detail());
    int wrong = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (std::uint32_t i = 0; i < 4; ++i) {
        const bool half = c.accumulator == "f16";
        std::uint32_t word = 0;
        std::memcpy(&word, output->data() + (lane * c.c_words() + (half ? i / 2 : i)) * 4, 4);
        const double is = c.accumulator == "s32" ? static_cast<std::int32_t>(word)
                          : half                 ? decode_float(word >> i % 2 * 16 & 0xffff, kFloat16)
                                                 : decode_float(word, kFloat32);
        wrong += is != product.sum[(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2];
      }
    CHECK(wrong == 0);
  }
}

void check_refused(const std::string& statement, const Case& c, const Words& words, const std::string& part) {
  const auto session = conformance::Session::open("sim:sm_90a").value();
  const Result<std::vector<std::byte>> output = session->run(kernel(statement, c, words));
  REQUIRE(!output.ok());
  const std::string report = output.status().message() + output.status().detail();
  CHECK_MESSAGE(report.find(part) != std::string::npos, report);
}

// The words with another metadata word in a lane.
Words with_metadata(const Case& c, std::uint32_t lane, std::uint32_t word) {
  Words words = make_product(c).words;
  words[(lane + 1) * words.size() / 32 - 1] = word;
  return words;
}

TEST_CASE("mma.sp: every shape, type and selector, positions in any order and ordered") {
  struct Shape {
    std::uint32_t k_bytes, selectors;
  };
  for (const bool ordered : {false, true}) {
    for (const auto& [k_bytes, selectors] : {Shape{32, 4}, Shape{64, 2}})
      for (std::uint32_t selector = 0; selector < selectors; ++selector) {
        for (const ElementType& type : {kBf16Elements, kF16Elements, kTf32Elements})
          check({k_bytes / type.bytes, type, type, "f32", selector, ordered});
        check({k_bytes / 2, kF16Elements, kF16Elements, "f16", selector, ordered});
      }
    for (const ElementType& a : {kS8Elements, kU8Elements})
      for (const ElementType& b : {kS8Elements, kU8Elements}) {
        for (const std::uint32_t selector : {0u, 1u}) check({32, a, b, "s32", selector, ordered});
        check({64, a, b, "s32", 0, ordered});
      }
    for (const ElementType& a : {kE4m3Elements, kE5m2Elements})
      for (const ElementType& b : {kE4m3Elements, kE5m2Elements}) check({64, a, b, "f32", 0, ordered});
  }
}

TEST_CASE("mma.sp: selectors that a shape does not have are refused") {
  const auto refused = [](const Case& c, const std::string& part) {
    check_refused(instruction(c), c, make_product(Case{c.k, c.a, c.b, c.accumulator, 0, false}).words, part);
  };
  refused({16, kF16Elements, kF16Elements, "f32", 4}, "the sparsity selector is 4: with k = 16");
  refused({32, kF16Elements, kF16Elements, "f32", 2}, "it must be 0 to 1");
  refused({16, kTf32Elements, kTf32Elements, "f32", 2}, "the sparsity selector is 2: with k = 16");
  refused({64, kS8Elements, kS8Elements, "s32", 1}, "with k = 64 of these elements it must be 0");
}

TEST_CASE("mma.sp: metadata that means nothing is refused where it is read, and nowhere else") {
  const std::uint32_t ascending = 0x44444444;
  Case c;
  check_refused(instruction(c), c, with_metadata(c, 5, ascending | 0x5 << 16),
                "the sparse metadata of row 9, k = 16 … 19, bits 16 … 19 of 0x44454444, is 0x5: its two "
                "positions must differ");
  check_refused(instruction(c), c, with_metadata(c, 5, ascending | 0x5 << 16), "lane 5");
  const std::uint32_t descending = (ascending & ~0xfu) | 0x1;
  c.ordered = true;
  check_refused(instruction(c), c, with_metadata(c, 1, descending), "its two positions must ascend");
  c = {16, kTf32Elements, kTf32Elements};
  check_refused(instruction(c), c, with_metadata(c, 0, 0x8), "it must be 0x4 or 0xe");
  c = {64, kU8Elements, kU8Elements, "s32"};
  check_refused(instruction(c), c, with_metadata(c, 3, ascending | 0xfu << 28), "row 8, k = 60 … 63");
}

TEST_CASE("mma.sp: registers are counted, and what has no sparse form is unknown") {
  Case c;
  const Words words = make_product(c).words;
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string statement = instruction(c);
    const std::size_t at = statement.find(from);
    REQUIRE(at != std::string::npos);
    return statement.replace(at, from.size(), to);
  };
  check_refused(edited("{%r0, %r1, %r2, %r3}", "{%r0, %r1}"), c, words,
                "A of mma.sp m16n8k32 has 2 registers, not 4");
  check_refused(edited("{%r4, %r5, %r6, %r7}", "{%r4, %r5}"), c, words,
                "B of mma.sp m16n8k32 has 2 registers, not 4");
  check_refused(edited("bf16.bf16", "e4m3.e4m3"), c, words, "mma.sp.sync.aligned.m16n8k32");
  check_refused(edited(", 0;", ";"), c, words, "operand");
}

}  // namespace
}  // namespace jfa::test::mma_sp_test
