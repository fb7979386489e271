// tcgen05.cp of four rows and of elements that it unpacks, tcgen05.shift, and the order in which the tensor
// core does them and products.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <random>

#include "tests/simulator/tensor_program.h"

namespace jfa::test::tensor_copy_test {
namespace {

constexpr std::uint32_t kColumns = 64, kSharedBytes = 8192;
constexpr std::uint32_t kStride = 256, kLeading = 128;  // of groups of eight rows, and of chunks of 16 bytes
constexpr std::uint64_t kRows =
    std::uint64_t{1} << 46 | std::uint64_t{kStride >> 4} << 32 | std::uint64_t{kLeading >> 4} << 16;

// Random bytes everywhere, which nothing changes.
TensorProgram random_program(std::uint32_t ctas = 1) {
  std::mt19937 random(ctas);
  TensorProgram p;
  p.columns = p.filled_columns = kColumns;
  p.shared.assign(ctas, std::vector<std::byte>(kSharedBytes));
  for (auto& image : p.shared)
    for (std::byte& byte : image) byte = static_cast<std::byte>(random());
  p.tensor.resize(std::size_t{ctas} * kLanes * kColumns);
  for (std::uint32_t& cell : p.tensor) cell = static_cast<std::uint32_t>(random());
  p.expected = p.tensor;
  return p;
}

// Where the 16-byte chunk of a row lies in shared memory, from an offset on.
const std::byte* chunk_of(const TensorProgram& p, std::uint32_t cta, std::uint32_t offset, std::uint32_t row,
                          std::uint32_t chunk) {
  return &p.shared[cta][offset + row / 8 * kStride + row % 8 * 16 + chunk * kLeading];
}

std::string copy_of(const TensorProgram& p, const std::string& modifiers, std::uint32_t lane,
                    std::uint32_t column, std::uint32_t offset = 0) {
  return fmt::format("add.u32 %b0, %t, {};\nadd.s64 %a0, %s, {};\ntcgen05.cp.{}.{} [%b0], %a0;\n",
                     lane << 16 | column, kRows | offset >> 4, p.cta_group(), modifiers);
}

std::string shift_of(const TensorProgram& p, std::uint32_t lane, std::uint32_t column) {
  return fmt::format("add.u32 %b0, %t, {};\ntcgen05.shift.{}.down [%b0];\n", lane << 16 | column,
                     p.cta_group());
}

void expect_refresh(TensorProgram& p, std::uint32_t lane, std::uint32_t column, std::uint32_t offset = 0) {
  for (std::uint32_t cta = 0; cta < p.shared.size(); ++cta)
    for (std::uint32_t row = 0; row < 4; ++row)
      for (std::uint32_t chunk = 0; chunk < 2; ++chunk)
        std::memcpy(&p.cell(p.expected, cta, row * 32 + lane, column + chunk * 4),
                    chunk_of(p, cta, offset, row, chunk), 16);
}

void expect_shift(TensorProgram& p, std::uint32_t lane, std::uint32_t column) {
  for (std::uint32_t cta = 0; cta < p.shared.size(); ++cta)
    for (std::uint32_t to = lane; to < lane + 31; ++to)
      for (std::uint32_t i = column; i < column + 8; ++i)
        p.cell(p.expected, cta, to, i) = p.cell(p.expected, cta, to + 1, i);
}

TEST_CASE("tcgen05.cp.4x256b writes one lane of every quarter") {
  for (const std::uint32_t ctas : {1u, 2u})
    for (const std::uint32_t lane : {0u, 15u, 31u}) {
      CAPTURE(lane);
      TensorProgram p = random_program(ctas);
      p.issue = copy_of(p, "4x256b", lane, 8, 1024);
      expect_refresh(p, lane, 8, 1024);
      check_tensor_program(p);
    }
}

TEST_CASE("tcgen05.cp unpacks elements of 4 and 6 bits, in every shape") {
  struct Shape {
    const char* text;
    std::uint32_t rows, chunks;
    std::vector<std::uint32_t> lanes;  // that row 0 goes to
    std::uint32_t next_group;          // lanes from row 0 to row 32, or to row 1 of 4x256b
  };
  const Shape shapes[] = {{"128x256b", 128, 2, {0}, 32},
                          {"128x128b", 128, 1, {0}, 32},
                          {"4x256b", 4, 2, {0}, 32},
                          {"64x128b.warpx2::02_13", 64, 1, {0, 64}, 32},
                          {"64x128b.warpx2::01_23", 64, 1, {0, 32}, 64},
                          {"32x128b.warpx4", 32, 1, {0, 32, 64, 96}, 0}};
  for (const Shape& shape : shapes)
    for (const std::uint32_t bits : {4u, 6u}) {
      CAPTURE(std::string(shape.text));
      CAPTURE(bits);
      TensorProgram p = random_program();
      p.issue =
          copy_of(p, fmt::format("{}.b8x16.{}", shape.text, bits == 4 ? "b4x16_p64" : "b6x16_p32"), 0, 0);
      const std::uint32_t group = shape.rows == 4 ? 1 : 32;
      for (std::uint32_t row = 0; row < shape.rows; ++row)
        for (std::uint32_t k = 0; k < shape.chunks * 16; ++k) {
          std::uint32_t element = 0;
          const std::byte* const chunk = chunk_of(p, 0, 0, row, k / 16);
          for (std::uint32_t bit = 0; bit < bits; ++bit) {
            const std::uint32_t at = k % 16 * bits + bit;
            element |= (std::to_integer<std::uint32_t>(chunk[at / 8]) >> at % 8 & 1) << bit;
          }
          for (const std::uint32_t first : shape.lanes) {
            const std::uint32_t lane = first + row / group * shape.next_group + row % group;
            auto* bytes = reinterpret_cast<std::uint8_t*>(&p.cell(p.expected, 0, lane, k / 4));
            bytes[k % 4] = static_cast<std::uint8_t>(bits == 4 ? element << 2 : element);
          }
        }
      check_tensor_program(p, {"sim:sm_100a"});
    }
}

TEST_CASE("tcgen05.shift moves the rows of one quarter") {
  for (const std::uint32_t ctas : {1u, 2u})
    for (const std::uint32_t lane : {0u, 32u, 96u}) {
      CAPTURE(lane);
      TensorProgram p = random_program(ctas);
      p.issue = shift_of(p, lane, 16);
      expect_shift(p, lane, 16);
      check_tensor_program(p);
    }
  TensorProgram p = random_program();
  p.issue = "tcgen05.shift.down.cta_group::1 [%t+56];\n";
  expect_shift(p, 0, 56);
  check_tensor_program(p);
}

// bf16 A in tensor memory, 128 rows of 16; B the identity, so that D is A.
constexpr std::uint32_t kAColumn = 0, kDColumn = 16, kSecondD = 32, kIdentity = 4096;

TensorProgram convolution() {
  TensorProgram p = random_program();
  for (std::uint32_t& cell : p.tensor) {  // small integers
    const auto value = [&](std::uint32_t seed) {
      return std::bit_cast<std::uint32_t>(static_cast<float>(seed % 64)) >> 16;
    };
    cell = value(cell) | value(cell >> 8) << 16;
  }
  p.expected = p.tensor;
  for (std::uint32_t row = 0; row < 8; ++row)
    for (std::uint32_t i = 0; i < 16; i += 2) {
      const std::uint32_t word = 0x3f803f80;  // also as rows of A
      std::memcpy(&p.shared[0][row * 16 + i / 8 * kLeading + i % 8 * 2], &word, 4);
    }
  for (std::uint32_t n = 0; n < 16; ++n)
    for (std::uint32_t k = 0; k < 16; ++k) {
      const std::uint16_t bits = n == k ? 0x3f80 : 0;
      std::memcpy(&p.shared[0][kIdentity + n / 8 * kStride + n % 8 * 16 + k / 8 * kLeading + k % 8 * 2],
                  &bits, 2);
    }
  return p;
}

std::string product_of(std::uint32_t d_column) {
  return fmt::format(
      "add.s64 %a1, %s, {};\nadd.u32 %b1, %t, {};\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%b1], [%t+{}], %a1, {}, %q;\n",
      kRows | kIdentity >> 4, d_column, kAColumn,
      1u << 4 | 1u << 7 | 1u << 10 | (16u >> 3) << 17 | (128u >> 4) << 24);
}

void expect_product(TensorProgram& p, std::uint32_t d_column) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    for (std::uint32_t n = 0; n < 16; ++n)
      p.cell(p.expected, 0, lane, d_column + n) = p.cell(p.expected, 0, lane, kAColumn + n / 2) >> n % 2 * 16
                                                                                                       << 16;
}

TEST_CASE("products, shifts and refreshes of one thread run in the order of issue") {
  TensorProgram p = convolution();
  p.issue = product_of(kDColumn);
  expect_product(p, kDColumn);
  for (const std::uint32_t lane : {0u, 32u, 64u, 96u}) {
    p.issue += shift_of(p, lane, kAColumn);
    expect_shift(p, lane, kAColumn);
  }
  p.issue += copy_of(p, "4x256b", 31, kAColumn);
  expect_refresh(p, 31, kAColumn);
  p.issue += product_of(kSecondD);
  expect_product(p, kSecondD);
  std::vector<std::string> devices = kTensorSchedules;
  for (const char* schedule : {"reverse", "late", "random&seed=2", "random&seed=3"})
    devices.push_back(fmt::format("sim:sm_100a?schedule={}", schedule));
  check_tensor_program(p, devices);
}

TEST_CASE("what the tensor core does not order is caught on every schedule") {
  const TensorProgram filled = random_program();
  const auto caught = [&](const std::string& issue, const std::string& part,
                          const std::string& uncommitted = {}) {
    TensorProgram p = filled;
    p.issue = issue;
    p.uncommitted = uncommitted;
    check_refused(p, part, kTensorSchedules);
  };
  const std::string full = copy_of(filled, "128x256b", 0, 0), refresh = copy_of(filled, "4x256b", 31, 0);
  const std::string shift = shift_of(filled, 32, 0);
  caught(shift + shift,
         "tcgen05.shift writes tensor memory lanes 32..63, columns 0..7 while tcgen05.shift is");
  caught(shift + full, "tcgen05.cp writes tensor memory lanes 0..127, columns 0..7 while tcgen05.shift is");
  caught(full + shift, "tcgen05.shift writes tensor memory lanes 32..63, columns 0..7 while tcgen05.cp is");
  caught(refresh + shift,
         "tcgen05.shift writes tensor memory lanes 32..63, columns 0..7 while tcgen05.cp is");
  caught("", "columns 0..7 while tcgen05.shift is still in flight", shift);
  caught("", "columns 0..7 while tcgen05.cp is still in flight", refresh);
}

TEST_CASE("a shift may follow another that was waited for") {
  TensorProgram p = random_program();
  // The harness's commit completes the phase that follows.
  p.issue = "add.u32 %b3, %bar, 16;\nmbarrier.init.shared::cta.b64 [%b3], 1;\n" + shift_of(p, 0, 0) +
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b3];\n"
            "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %more, [%b3], 0;\n@!%more bra AGAIN;\n"
            "tcgen05.fence::after_thread_sync;\n" +
            shift_of(p, 0, 0);
  expect_shift(p, 0, 0);
  expect_shift(p, 0, 0);
  check_tensor_program(p);
  const std::string fence = "tcgen05.fence::after_thread_sync;\n";
  p.issue.erase(p.issue.find(fence), fence.size());
  check_refused(p, "without tcgen05.fence::after_thread_sync by this thread", kTensorSchedules);
}

TEST_CASE("operands of copies and shifts") {
  TensorProgram p = random_program();
  const auto refused = [&](const std::string& issue, const std::string& part) {
    p.issue = issue;
    check_refused(p, part);
  };
  refused(shift_of(p, 16, 0), "tcgen05.shift of lane 16 of tensor memory: it must be 0, 32, 64 or 96");
  refused(shift_of(p, 128, 0), "tcgen05.shift of lane 128 of tensor memory");
  refused(shift_of(p, 0, 60), "of which column 64 is not allocated by this CTA");
  refused(copy_of(p, "4x256b", 32, 0),
          "tcgen05.cp to lane 32 of tensor memory: it must be one of the first 32");
  refused(copy_of(p, "128x256b", 31, 0), "tcgen05.cp to lane 31 of tensor memory: it must be 0");
  refused(copy_of(p, "4x256b.b8x16", 0, 0), "the format that becomes it go together");
  refused(copy_of(p, "4x256b.b4x16_p64", 0, 0), "the format that becomes it go together");
  refused("add.s64 %a0, %s, 0;\ntcgen05.cp.cta_group::1.4x256b [%t], %a0;\n", "bits 48:46 are 0");
  refused("tcgen05.shift.cta_group::2.down [%t];\n",
          "has cta_group::1: all tcgen05 instructions of a kernel must have the same");
  // Of four rows no others need be there, of 16 unpacked elements no padding.
  p.shared[0].resize(0);
  p.shared[0].resize(64 + kLeading);
  p.issue = copy_of(p, "4x256b", 31, 0);
  expect_refresh(p, 31, 0);
  check_tensor_program(p);
}

}  // namespace
}  // namespace jfa::test::tensor_copy_test
