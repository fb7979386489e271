#include "tests/simulator/sparse_matrix.h"

#include <utility>

namespace jfa::test {

using namespace simulator;

const ElementType kBf16Elements{"bf16", 2, &kBfloat16}, kF16Elements{"f16", 2, &kFloat16},
    kTf32Elements{"tf32", 4, &kFloat32}, kE4m3Elements{"e4m3", 1, &kE4m3}, kE5m2Elements{"e5m2", 1, &kE5m2},
    kS8Elements{"s8", 1, nullptr}, kU8Elements{"u8", 1, nullptr};

SparseMatrix random_sparse_matrix(std::uint32_t rows, std::uint32_t k, const ElementType& type,
                                  bool any_order, std::mt19937& random) {
  SparseMatrix matrix{rows, k, type.bytes == 4 ? 2u : 4u, {}, {}, {}};
  matrix.dense.assign(std::size_t{rows} * k, 0);
  for (std::uint32_t first = 0; first < rows * k; first += matrix.group) {
    const auto keep = [&](std::uint32_t position) {
      matrix.kept.push_back(type.random_value(random));
      matrix.dense[first + position] = matrix.kept.back();
    };
    if (matrix.group == 2) {
      const auto position = static_cast<std::uint32_t>(random() % 2);
      keep(position);
      matrix.metadata.push_back(position == 0 ? 0b0100 : 0b1110);
    } else {
      std::uint32_t low = random() % 4, high = (low + 1 + random() % 3) % 4;
      if (low > high && !any_order) std::swap(low, high);
      keep(low);
      keep(high);
      matrix.metadata.push_back(high << 2 | low);
    }
  }
  return matrix;
}

std::vector<std::uint32_t> SparseMatrix::metadata_words(const ElementType& type, std::uint32_t warp,
                                                        std::uint32_t selector) const {
  const std::uint32_t groups = k / group;  // of a row: 4, 8 or 16
  std::vector<std::uint32_t> words(32, 0);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t thread = lane % 4, threads = groups / 4;  // of every four, that hold metadata
    if (thread / threads != selector) continue;
    for (std::uint32_t i = 0; i < 8; ++i) {
      std::uint32_t row = 16 * warp + lane / 4, column;
      if (type.bytes == 1) {  // even threads have the upper eight rows, odd ones the lower
        row += thread % 2 * 8;
        column = groups == 16 ? thread / 2 * 8 + i : i;
      } else {  // the lower half of a word has the upper eight rows
        row += i / 4 * 8;
        column = thread % threads * 4 + i % 4;
      }
      words[lane] |= metadata[std::size_t{row} * groups + column] << 4 * i;
    }
  }
  return words;
}

}  // namespace jfa::test
