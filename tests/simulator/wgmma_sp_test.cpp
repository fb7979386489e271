// wgmma.mma_async.sp: random sparse matrices against the dense product that they stand for, and the checkers
// of what only the sparse form has: a second half of B, and metadata in registers.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "conformance/session.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "tests/simulator/sparse_matrix.h"

namespace jfa::test::wgmma_sp_test {
namespace {

using namespace simulator;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kM = 64, kThreads = 128;
constexpr std::uint32_t kBOffset = 8192, kSharedBytes = 40960;
constexpr const char* kSchedules[] = {"sim:sm_90a", "sim:sm_90a?schedule=lazy",
                                      "sim:sm_90a?schedule=random&seed=3"};

struct Case {
  std::uint32_t n = 64;
  ElementType a = kBf16Elements, b = kBf16Elements;
  std::string accumulator = "f32";
  std::uint32_t selector = 0;
  bool any_order = false, a_in_registers = false, accumulate = true;
  std::uint32_t swizzle_a = 128, swizzle_b = 128;  // bytes; 0: none
  MatrixMajor a_major = MatrixMajor::kK, b_major = MatrixMajor::kK;
  bool negate_a = false, negate_b = false;

  std::uint32_t k() const { return 2 * a.step_elements(); }
  std::uint32_t registers() const { return accumulator == "f16" ? n / 4 : n / 2; }
};

// The statements around the product, for tests to change.
struct Statements {
  std::string before = "fence.proxy.async;\nbar.sync 0;\n", product, after{}, waited{};
};

// `depth` elements along K, relative to shared memory's start.
std::uint64_t descriptor(std::uint32_t rows, std::uint32_t depth, std::uint32_t swizzle, MatrixMajor major,
                         std::uint32_t offset) {
  std::uint32_t leading = 16, stride = swizzle * 8;
  if (major == MatrixMajor::kK && swizzle == 0) leading = rows * 16, stride = 128;
  if (major == MatrixMajor::kMN && swizzle == 0) leading = 128, stride = depth * 16;
  if (major == MatrixMajor::kMN && swizzle != 0) leading = depth * swizzle;
  const std::uint64_t mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return mode << 62 | std::uint64_t{stride >> 4} << 32 | std::uint64_t{leading >> 4} << 16 | offset >> 4;
}
std::uint64_t a_descriptor(const Case& c) {
  return descriptor(kM, c.a.step_elements(), c.swizzle_a, c.a_major, 0);
}
std::uint64_t b_descriptor(const Case& c) { return descriptor(c.n, c.k(), c.swizzle_b, c.b_major, kBOffset); }
std::uint32_t place(std::uint64_t descriptor, MatrixMajor major, std::uint32_t row, std::uint32_t k,
                    std::uint32_t bytes) {
  return element_address(*decode_matrix_descriptor(descriptor, DescriptorVersion::kSm90), major, row, k,
                         bytes);
}

std::string registers(const char* prefix, std::uint32_t count) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return fmt::format("{{{}}}", fmt::join(names, ", "));
}

std::string product_text(const Case& c) {
  std::string text =
      fmt::format("wgmma.mma_async.sp.sync.aligned.m64n{}k{}.{}.{}.{} {}, {}, %db, %e, {}, %p", c.n, c.k(),
                  c.accumulator, c.a.name, c.b.name, registers("%d", c.registers()),
                  c.a_in_registers ? "{%a0, %a1, %a2, %a3}" : "%da", c.selector);
  if (c.accumulator != "s32") text += fmt::format(", {}, {}", c.negate_a ? -1 : 1, c.negate_b ? -1 : 1);
  if (c.a.bytes == 2) {
    if (!c.a_in_registers) text += fmt::format(", {}", static_cast<int>(c.a_major));
    text += fmt::format(", {}", static_cast<int>(c.b_major));
  }
  return text + ";\n";
}

struct Data {
  std::vector<std::byte> image;  // of shared memory
  Words words;                   // of each thread: A's fragment, metadata, accumulators
  std::vector<double> sum;       // [64][n]
};

std::uint32_t accumulator_bits(const Case& c, int value) {
  if (c.accumulator == "s32") return static_cast<std::uint32_t>(value);
  return encode_float(value, c.accumulator == "f16" ? kFloat16 : kFloat32, Rounding::kNearest);
}

// Row and column of accumulator element i of a thread.
std::size_t d_element(const Case& c, std::uint32_t thread, std::uint32_t i) {
  const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
  return std::size_t{row} * c.n + i / 4 * 8 + thread % 4 * 2 + i % 2;
}

Data make_data(const Case& c) {
  std::mt19937 random(c.n + c.a.bytes + c.selector);
  const SparseMatrix a = random_sparse_matrix(kM, c.k(), c.a, c.any_order, random);
  const std::uint32_t k = c.k(), kept = k / 2, per_word = 4 / c.a.bytes;
  std::vector<int> b(std::size_t{c.n} * k), start(std::size_t{kM} * c.n);
  for (int& value : b) value = c.b.random_value(random);
  for (int& value : start) value = static_cast<int>(random() % 33) - 16;
  Data data;
  data.image.resize(kSharedBytes, std::byte{0x7f});  // NaN wherever nothing lies
  const auto store = [&](std::uint32_t at, const ElementType& type, int value) {
    const std::uint32_t bits = type.bits_of(value);
    std::memcpy(&data.image[at], &bits, type.bytes);
  };
  for (std::uint32_t m = 0; m < kM; ++m)
    for (std::uint32_t i = 0; i < kept; ++i)
      store(place(a_descriptor(c), c.a_major, m, i, c.a.bytes), c.a, a.kept[std::size_t{m} * kept + i]);
  for (std::uint32_t n = 0; n < c.n; ++n)
    for (std::uint32_t i = 0; i < k; ++i)
      store(place(b_descriptor(c), c.b_major, n, i, c.b.bytes), c.b, b[std::size_t{n} * k + i]);
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    for (std::uint32_t r = 0; r < 4; ++r) {
      const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
      std::uint32_t word = 0;
      for (std::uint32_t i = 0; i < per_word; ++i)
        word |= c.a.bits_of(a.kept[std::size_t{row} * kept + (thread % 4 + r / 2 * 4) * per_word + i])
                << 8 * c.a.bytes * i;
      data.words.push_back(word);
    }
    data.words.push_back(a.metadata_words(c.a, thread / 32, c.selector)[thread % 32]);
    const std::uint32_t halves = c.accumulator == "f16" ? 2 : 1;
    for (std::uint32_t r = 0; r < c.registers(); ++r) {
      std::uint32_t word = 0;
      for (std::uint32_t i = 0; i < halves; ++i)
        word |= accumulator_bits(c, start[d_element(c, thread, halves * r + i)]) << 16 * i;
      data.words.push_back(word);
    }
  }
  for (std::uint32_t m = 0; m < kM; ++m)
    for (std::uint32_t n = 0; n < c.n; ++n) {
      int sum = 0;
      for (std::uint32_t i = 0; i < k; ++i)
        sum += a.dense[std::size_t{m} * k + i] * b[std::size_t{n} * k + i];
      data.sum.push_back((c.accumulate ? start[std::size_t{m} * c.n + n] : 0) +
                         (c.negate_a != c.negate_b ? -sum : sum));
    }
  return data;
}

conformance::TestKernel kernel(const Case& c, const Data& data, const Statements& statements) {
  const std::uint32_t words = 5 + c.registers();
  conformance::TestKernel kernel;
  kernel.block.x = kThreads;
  kernel.output_bytes = std::size_t{kThreads} * c.registers() * 4;
  kernel.inputs.push_back(data.image);
  kernel.inputs.emplace_back(data.words.size() * 4);
  std::memcpy(kernel.inputs[1].data(), data.words.data(), data.words.size() * 4);
  std::string load, store;
  for (std::uint32_t i = 0; i < 4; ++i) load += fmt::format("ld.global.b32 %a{}, [%at+{}];\n", i, 4 * i);
  load += "ld.global.b32 %e, [%at+16];\n";
  for (std::uint32_t i = 0; i < c.registers(); ++i) {
    load += fmt::format("ld.global.b32 %d{}, [%at+{}];\n", i, 20 + 4 * i);
    store += fmt::format("st.global.b32 [%at+{}], %d{};\n", 4 * i, i);
  }
  kernel.ptx = fmt::format(
      R"(.visible .entry test(.param .u64 out, .param .u64 in0, .param .u64 in1)
.reqntid 128
{{
.reg .b32 %t, %i, %base, %v<4>, %a<4>, %e, %d<128>; .reg .b64 %at, %from, %da, %db; .reg .pred %p, %q;
.shared .align 1024 .b8 tile[{0}];
mov.u32 %t, %tid.x;
mov.u32 %base, tile;
ld.param.u64 %from, [in0];
shl.b32 %i, %t, 4;
COPY:
setp.ge.u32 %q, %i, {0};
@%q bra COPIED;
cvt.u64.u32 %at, %i;
add.s64 %at, %from, %at;
ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
add.u32 %e, %base, %i;
st.shared.v4.b32 [%e], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, 2048;
bra COPY;
COPIED:
and.b32 %v0, %base, 262143;
shr.u32 %v0, %v0, 4;
cvt.u64.u32 %at, %v0;
add.s64 %da, %at, {1};
add.s64 %db, %at, {2};
ld.param.u64 %at, [in1];
mad.wide.u32 %at, %t, {3}, %at;
{4}setp.eq.u32 %p, 0, {5};
setp.eq.u32 %q, %t, 0;
{6}wgmma.fence.sync.aligned;
{7}{8}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{9}ld.param.u64 %at, [out];
mad.wide.u32 %at, %t, {10}, %at;
{11}ret;
}}
)",
      kSharedBytes, a_descriptor(c), b_descriptor(c), 4 * words, load, c.accumulate ? 0 : 1,
      statements.before, statements.product.empty() ? product_text(c) : statements.product, statements.after,
      statements.waited, 4 * c.registers(), store);
  return kernel;
}

Result<std::vector<std::byte>> run(const char* device, const Case& c, const Data& data,
                                   const Statements& statements) {
  return conformance::Session::open(device).value()->run(kernel(c, data, statements));
}

void check(const Case& c, const Statements& statements = {}) {
  const std::string statement = product_text(c);
  CAPTURE(statement);
  CAPTURE(c.swizzle_a);
  CAPTURE(c.swizzle_b);
  const Data data = make_data(c);
  for (const char* device : kSchedules) {
    const Result<std::vector<std::byte>> output = run(device, c, data, statements);
    REQUIRE_MESSAGE(output.ok(), output.status().message() << output.status().detail());
    int wrong = 0;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread)
      for (std::uint32_t i = 0; i < c.n / 2; ++i) {
        const bool half = c.accumulator == "f16";
        std::uint32_t word = 0;
        std::memcpy(&word, output->data() + (thread * c.registers() + (half ? i / 2 : i)) * 4, 4);
        const double is = c.accumulator == "s32" ? static_cast<std::int32_t>(word)
                          : half                 ? decode_float(word >> i % 2 * 16 & 0xffff, kFloat16)
                                                 : decode_float(word, kFloat32);
        wrong += is != data.sum[d_element(c, thread, i)];
      }
    CHECK(wrong == 0);
  }
}

// Refused, on every schedule.
void check_refused(const Case& c, const Data& data, const Statements& statements, const std::string& part) {
  for (const char* device : kSchedules) {
    const Result<std::vector<std::byte>> output = run(device, c, data, statements);
    REQUIRE(!output.ok());
    const std::string report = output.status().message() + output.status().detail();
    CHECK_MESSAGE(report.find(part) != std::string::npos, report);
  }
}

TEST_CASE(
    "wgmma.sp: every type, A in shared memory and in registers, both selectors, positions in any order") {
  for (const bool a_in_registers : {false, true})
    for (const bool any_order : {false, true}) {
      Case c;
      c.a_in_registers = a_in_registers;
      c.any_order = any_order;
      for (const ElementType& type : {kBf16Elements, kF16Elements, kTf32Elements})
        for (c.selector = 0; c.selector < 2; ++c.selector) {
          c.a = c.b = type;
          check(c);
        }
      c.selector = 0;
      c.a = c.b = kF16Elements;
      c.accumulator = "f16";
      check(c);
      for (const ElementType& a : {kE4m3Elements, kE5m2Elements})
        for (const ElementType& b : {kE4m3Elements, kE5m2Elements})
          for (const char* accumulator : {"f32", "f16"}) {
            c.a = a, c.b = b, c.accumulator = accumulator;
            check(c);
          }
      for (const ElementType& a : {kS8Elements, kU8Elements})
        for (const ElementType& b : {kS8Elements, kU8Elements}) {
          c.a = a, c.b = b, c.accumulator = "s32";
          check(c);
        }
    }
}

TEST_CASE("wgmma.sp: widths, layouts, signs, without accumulators") {
  for (const std::uint32_t n : {8u, 24u, 136u, 256u}) {
    Case c;
    c.n = n;
    check(c);
    c.a = c.b = kE4m3Elements;
    check(c);
  }
  for (const MatrixMajor major : {MatrixMajor::kK, MatrixMajor::kMN})
    for (const std::uint32_t swizzle : {0u, 32u, 64u, 128u}) {
      Case c;
      c.n = 128;
      c.a_major = major;
      c.swizzle_a = swizzle;
      check(c);
      if (major == MatrixMajor::kK && swizzle == 32) continue;  // 64 bytes along K do not fit
      c = {};
      c.b_major = major;
      c.swizzle_b = swizzle;
      check(c);
      if (major == MatrixMajor::kMN) continue;  // the other types are K-major
      for (const ElementType& type : {kTf32Elements, kE5m2Elements}) {
        c.a = c.b = type;
        check(c);
      }
    }
  for (int i = 0; i < 8; ++i) {
    Case c;
    c.negate_a = (i & 1) != 0;
    c.negate_b = (i & 2) != 0;
    c.accumulate = (i & 4) != 0;
    c.a_in_registers = i % 3 == 0;
    check(c);
  }
}

TEST_CASE("wgmma.sp: metadata is read at issue, and what means nothing is refused") {
  Case c;
  Statements overwritten;
  overwritten.after = "mov.b32 %e, 0;\n";
  check(c, overwritten);
  Data data = make_data(c);
  const std::size_t words = data.words.size() / kThreads;
  data.words[37 * words + 4] = 0x44a44444;  // warp 1, lane 5: its second word along K
  check_refused(c, data, {},
                "the sparse metadata of row 25, k = 20 … 23, bits 20 … 23 of 0x44a44444, is 0xa");
  check_refused(c, data, {}, "warp 1, lane 5");
  c.a = c.b = kTf32Elements;
  data = make_data(c);
  data.words[4] = 0x44444445;
  check_refused(c, data, {}, "is 0x5: it must be 0x4 or 0xe");
}

TEST_CASE("wgmma.sp: selectors and layouts that do not exist are refused") {
  Case c;
  c.selector = 2;
  check_refused(c, make_data({}), {}, "the sparsity selector is 2: with k = 32 of these elements");
  c.selector = 1;
  c.a = c.b = kE4m3Elements;
  check_refused(c, make_data({}), {}, "with k = 64 of these elements it must be 0");
  c = {};
  Statements narrow;
  narrow.before += "or.b64 %db, %db, 0x8000000000000000;\n";  // 32-byte rows
  check_refused(c, make_data(c), narrow,
                "64 bytes of K from there cross the end of its 32-byte swizzled row");
}

TEST_CASE("wgmma.sp: both halves of B are fenced, and may not be overwritten while they are read") {
  const Case c;
  const Data data = make_data(c);
  for (const std::uint32_t k : {0u, c.k() - 2}) {
    const std::string store =
        fmt::format("@%q st.shared.b32 [%base+{}], %t;\n", place(b_descriptor(c), c.b_major, 9, k, 2));
    Statements unfenced;
    unfenced.before += store + "bar.sync 0;\n";
    check_refused(c, data, unfenced, "fence.proxy.async");
    Statements overwritten;
    overwritten.after = store;
    check_refused(c, data, overwritten, "the B operand of wgmma");
    Statements in_time;
    in_time.waited = store;
    check(c, in_time);
  }
}

TEST_CASE("wgmma.sp: registers belong to the tensor core until they are waited for") {
  Case c;
  c.a_in_registers = true;
  const Data data = make_data(c);
  Statements early;
  early.after = "mov.b32 %a3, 0;\n";
  check_refused(c, data, early, "part of the A operand");
  early.after = "mov.b32 %v0, %d7;\n";
  check_refused(c, data, early, "part of the accumulator");
}

}  // namespace
}  // namespace jfa::test::wgmma_sp_test
