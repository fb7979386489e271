// Exact products of small integers around one tcgen05.mma, whose D shows where elements lie.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "conformance/tensor_program.h"

namespace jfa::conformance {

using OperandRow = std::array<std::byte, 32>;  ///< of one step

/// The descriptor of an operand of `rows` rows at an offset: K-major, not swizzled.
std::uint64_t operand_descriptor(std::uint32_t rows, std::uint32_t offset);
/// Puts a row of a step where it says.
void store_operand_row(std::vector<std::byte>& image, std::uint32_t offset, std::uint32_t rows,
                       std::uint32_t row, std::uint32_t step, const OperandRow& bytes);

/// The exponent of the scale factor of a row's block.
inline int scale_exponent(std::uint32_t row, std::uint32_t block) {
  return static_cast<int>((row * 5 + block * 3) % 4);
}

/// How a row holds small integers.
struct ElementCode {
  std::uint32_t elements = 16;
  std::vector<int> values;  ///< that an element can have
  /// Puts element k with the value into a row.
  void (*put)(OperandRow& row, std::uint32_t k, int value) = nullptr;
};
const ElementCode& bf16_code();
const ElementCode& tf32_code();
const ElementCode& e4m3_code();
const ElementCode& e2m3_code();        ///< 16 in the first 12 of every 16 bytes
const ElementCode& e2m1_code();        ///< 16 in the first 8 of every 16 bytes
const ElementCode& e2m3_bytes_code();  ///< a byte each: in bits 5:0
const ElementCode& e2m1_bytes_code();  ///< a byte each: in bits 5:2
const ElementCode& packed_f4_code();   ///< e2m1, 64 in a row

/// Where an element of D lies.
struct TensorPlace {
  std::uint32_t cta = 0, lane = 0, column = 0;
};

/// D = A · B + D. Operands are K-major and not swizzled.
struct ExactProduct {
  std::string opcode = "tcgen05.mma.cta_group::1.kind::f16";
  std::uint32_t ctas = 1, m = 128, n = 64;
  std::uint32_t descriptor_bits = 1u << 4 | 1u << 7 | 1u << 10;  ///< of the instruction, but for M and N
  const ElementCode& (*a_code)() = bf16_code;
  const ElementCode& (*b_code)() = bf16_code;
  bool a_in_tensor_memory = false;
  std::uint32_t issuer = 0;
  std::string
      operands{};        ///< between the instruction descriptor and enable-input-d: ", {%b1, %b2, %b3, %b4}"
  std::string before{};  ///< instructions that make them
  std::function<TensorPlace(std::uint32_t m, std::uint32_t n)> place{};  ///< none: of cta_group::1 or ::2
  /// Of element k of rows m of A and n of B: what their product is multiplied by.
  std::function<double(std::uint32_t m, std::uint32_t n, std::uint32_t k)> factor{};
};

/// D begins at column 0, A in tensor memory at kProductAColumn. The rest, up to kProductColumns, holds small
/// numbers too; from kProductFreeColumn on nobody but `before` and `operands` uses it.
inline constexpr std::uint32_t kProductAColumn = 256, kProductFreeColumn = 264, kProductColumns = 288;
TensorProgram exact_program(const ExactProduct& product, std::string_view name);

/// Where D lies with cta_group::1 and M = 128, and with cta_group::2.
TensorPlace dense_place(const ExactProduct& product, std::uint32_t m, std::uint32_t n);

}  // namespace jfa::conformance
