// A sparse matrix of small integers, dense and compressed, and its metadata as threads hold it. Written from
// the figures of the PTX ISA, thread by thread, and shares nothing with the simulator.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "simulator/machine/float_format.h"

namespace jfa::test {

/// An element type as PTX names it.
struct ElementType {
  std::string name = "bf16";
  std::uint32_t bytes = 2;
  const simulator::FloatFormat* format = &simulator::kBfloat16;  // null: integers

  std::uint32_t bits_of(int value) const {
    if (format == nullptr) return static_cast<std::uint32_t>(value) & 0xff;
    return simulator::encode_float(value, *format, simulator::Rounding::kNearest);
  }
  /// Small integers that every format holds exactly.
  int random_value(std::mt19937& random) const {
    return static_cast<int>(random() % 9) - (name[0] == 'u' ? 0 : 4);
  }
  std::uint32_t step_elements() const { return 32 / bytes; }
};
extern const ElementType kBf16Elements, kF16Elements, kTf32Elements, kE4m3Elements, kE5m2Elements,
    kS8Elements, kU8Elements;

struct SparseMatrix {
  std::uint32_t rows = 16, k = 32;
  std::uint32_t group = 4;              ///< elements along k of which half are there: 4, or 2 of tf32
  std::vector<int> dense;               ///< [rows][k]
  std::vector<int> kept;                ///< [rows][k / 2]
  std::vector<std::uint32_t> metadata;  ///< [rows][k / group], four bits each

  /// Of rows 16 · warp … 16 · warp + 15, a word for each lane; 0, which means nothing, in lanes that the
  /// selector does not pick.
  std::vector<std::uint32_t> metadata_words(const ElementType& type, std::uint32_t warp,
                                            std::uint32_t selector) const;
};

/// any_order: of two elements of a group, the second may lie before the first.
SparseMatrix random_sparse_matrix(std::uint32_t rows, std::uint32_t k, const ElementType& type,
                                  bool any_order, std::mt19937& random);

}  // namespace jfa::test
