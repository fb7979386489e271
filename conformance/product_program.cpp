#include "conformance/product_program.h"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "conformance/operands.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kRowBytes = 32, kChunkBytes = 16, kGroupBytes = 128;  // eight rows of one chunk
constexpr std::uint32_t kBOffset = 4096, kSharedBytes = 12288;

const std::vector<int> kSmall = {-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
const std::vector<int> kOfE2M1 = {-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6};

// ORs `width` bits into a row from bit `at` on.
void put_bits(OperandRow& row, std::uint32_t at, std::uint32_t width, std::uint32_t bits) {
  for (std::uint32_t i = 0; i < width; ++i)
    if ((bits >> i & 1) != 0) row[(at + i) / 8] |= std::byte{1} << (at + i) % 8;
}

std::uint32_t f32(int value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)); }

// A narrow format of an integer below 8: two or more exponent bits, three or fewer fraction bits.
std::uint32_t narrow(int value, std::uint32_t exponent_bits, std::uint32_t fraction_bits) {
  const auto magnitude = static_cast<std::uint32_t>(std::abs(value));
  if (magnitude == 0) return 0;
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(magnitude)) - 1;
  const std::uint32_t bias = (1u << (exponent_bits - 1)) - 1;
  const std::uint32_t fraction = (magnitude << fraction_bits >> exponent) & ((1u << fraction_bits) - 1);
  const std::uint32_t sign = value < 0 ? 1u << (exponent_bits + fraction_bits) : 0;
  return sign | (exponent + bias) << fraction_bits | fraction;
}

// 16 narrow elements at the start of each chunk.
std::uint32_t padded_bit(std::uint32_t k, std::uint32_t width) { return k / 16 * 128 + k % 16 * width; }

}  // namespace

std::uint64_t operand_descriptor(std::uint32_t rows, std::uint32_t offset) {
  return std::uint64_t{1} << 46 | std::uint64_t{kGroupBytes >> 4} << 32 |
         std::uint64_t{rows * kChunkBytes >> 4} << 16 | offset >> 4;
}

void store_operand_row(std::vector<std::byte>& image, std::uint32_t offset, std::uint32_t rows,
                       std::uint32_t row, std::uint32_t step, const OperandRow& bytes) {
  constexpr std::uint32_t kChunks = kRowBytes / kChunkBytes;
  for (std::uint32_t i = 0; i < kChunks; ++i)
    std::memcpy(&image[offset + (step * kChunks + i) * rows * kChunkBytes + row * kChunkBytes],
                &bytes[i * kChunkBytes], kChunkBytes);
}

const ElementCode& bf16_code() {
  static const ElementCode code{16, kSmall, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, k * 16, 16, f32(value) >> 16);
                                }};
  return code;
}
const ElementCode& tf32_code() {
  static const ElementCode code{
      8, kSmall, [](OperandRow& row, std::uint32_t k, int value) { put_bits(row, k * 32, 32, f32(value)); }};
  return code;
}
const ElementCode& e4m3_code() {
  static const ElementCode code{32, kSmall, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, k * 8, 8, narrow(value, 4, 3));
                                }};
  return code;
}
const ElementCode& e2m3_code() {
  static const ElementCode code{32, kSmall, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, padded_bit(k, 6), 6, narrow(value, 2, 3));
                                }};
  return code;
}
const ElementCode& e2m1_code() {
  static const ElementCode code{32, kOfE2M1, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, padded_bit(k, 4), 4, narrow(value, 2, 1));
                                }};
  return code;
}
const ElementCode& e2m3_bytes_code() {
  static const ElementCode code{32, kSmall, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, k * 8, 6, narrow(value, 2, 3));
                                }};
  return code;
}
const ElementCode& e2m1_bytes_code() {
  static const ElementCode code{32, kOfE2M1, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, k * 8 + 2, 4, narrow(value, 2, 1));
                                }};
  return code;
}
const ElementCode& packed_f4_code() {
  static const ElementCode code{64, kOfE2M1, [](OperandRow& row, std::uint32_t k, int value) {
                                  put_bits(row, k * 4, 4, narrow(value, 2, 1));
                                }};
  return code;
}

TensorPlace dense_place(const ExactProduct& p, std::uint32_t m, std::uint32_t n) {
  if (p.ctas == 1) return {0, m, n};
  if (p.m == 256) return {m / 128, m % 128, n};
  const std::uint32_t half = p.n / 2;
  return {m / 64, m % 64 + 64 * (n / half), n % half};
}

TensorProgram exact_program(const ExactProduct& product, std::string_view name) {
  Random random(seed_of(name));
  TensorProgram p;
  p.columns = p.filled_columns = kProductColumns;
  p.shared.assign(product.ctas, std::vector<std::byte>(kSharedBytes));
  p.issuer = product.issuer;
  p.tensor.resize(std::size_t{product.ctas} * kTensorProgramLanes * p.columns);
  for (std::uint32_t& cell : p.tensor) cell = f32(static_cast<int>(random.below(100)));
  const auto place = [&](std::uint32_t m, std::uint32_t n) {
    return product.place ? product.place(m, n) : dense_place(product, m, n);
  };
  const auto matrix = [&](std::uint32_t rows, const ElementCode& code, auto store) {
    std::vector<int> values;
    for (std::uint32_t row = 0; row < rows; ++row) {
      OperandRow bytes{};
      for (std::uint32_t k = 0; k < code.elements; ++k) {
        values.push_back(code.values[random.below(code.values.size())]);
        code.put(bytes, k, values.back());
      }
      store(row, bytes);
    }
    return values;
  };
  const std::uint32_t a_rows = product.m / product.ctas, b_rows = product.n / product.ctas;
  const auto to_tensor_memory = [&](std::uint32_t row, const OperandRow& bytes) {
    for (const std::uint32_t n : {0u, product.n - 1}) {  // in every lane that has a piece of the row of D
      const TensorPlace at = place(row, n);
      std::memcpy(&p.cell(p.tensor, at.cta, at.lane, kProductAColumn), bytes.data(), kRowBytes);
    }
  };
  const std::vector<int> a =
      matrix(product.m, product.a_code(), [&](std::uint32_t row, const OperandRow& bytes) {
        if (product.a_in_tensor_memory) return to_tensor_memory(row, bytes);
        store_operand_row(p.shared[row / a_rows], 0, a_rows, row % a_rows, 0, bytes);
      });
  const std::vector<int> b =
      matrix(product.n, product.b_code(), [&](std::uint32_t row, const OperandRow& bytes) {
        store_operand_row(p.shared[row / b_rows], kBOffset, b_rows, row % b_rows, 0, bytes);
      });
  p.expected = p.tensor;
  const std::uint32_t depth = product.a_code().elements;
  for (std::uint32_t m = 0; m < product.m; ++m)
    for (std::uint32_t n = 0; n < product.n; ++n) {
      const TensorPlace at = place(m, n);
      std::uint32_t& d = p.cell(p.expected, at.cta, at.lane, at.column);
      double sum = std::bit_cast<float>(d);
      for (std::uint32_t k = 0; k < depth; ++k)
        sum += a[m * depth + k] * b[n * depth + k] * (product.factor ? product.factor(m, n, k) : 1.0);
      d = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
    }
  p.issue = fmt::format(
      "{}add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n{} [%t], {}, %a1, {}{}, %p;\n", product.before,
      operand_descriptor(a_rows, 0), operand_descriptor(b_rows, kBOffset), product.opcode,
      product.a_in_tensor_memory ? fmt::format("[%t+{}]", kProductAColumn) : "%a0",
      product.descriptor_bits | (product.n >> 3) << 17 | (product.m >> 4) << 24, product.operands);
  return p;
}

}  // namespace jfa::conformance
