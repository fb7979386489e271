// The order in which an instruction's modifiers may be written. Like ptxas, the simulator takes any, but for
// what an order tells apart: the words of the instruction's name come first (`mul.wide`,
// `cp.async.bulk.tensor`), and types, state spaces, the layouts of matrices and eviction priorities keep
// theirs
// (`cvt.f32.u32` is not `cvt.u32.f32`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::simulator {

/// An instruction's modifiers as written, without their dots, and what is known of their order.
class WrittenModifiers {
 public:
  /// `opcode`: "cvt", the word before the first dot. The views must outlive this.
  WrittenModifiers(std::string_view opcode, std::vector<std::string_view> words);

  /// Whether the words of the name are in front.
  bool begin_with_name() const { return begin_with_name_; }
  /// In how many ways the modifiers, in some order, are those of a row of the instruction table: each takes
  /// one group and each group one, or none where a choice is empty. Counts no further than two. `matched`:
  /// what each group got in the first way.
  int ways(const std::vector<std::vector<std::string>>& groups, std::vector<std::string_view>& matched) const;

 private:
  /// Modifiers of one sequence keep their order.
  enum class Sequence : std::uint8_t { kNone, kName, kType, kSpace, kLayout, kEviction };
  struct Search;
  static Sequence sequence_of(std::string_view word);

  std::vector<std::string_view> words_;
  std::vector<Sequence> sequences_;  // by word
  bool begin_with_name_ = true;
};

}  // namespace jfa::simulator
