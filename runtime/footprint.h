// The bytes that a tensor's elements lie in.
#pragma once

#include <cstdint>
#include <optional>

#include "jfa/attention.h"

namespace jfa {

/// Runs of bytes at up to two strides: dimensions that lie side by side are one run, whatever their order.
class Footprint {
 public:
  /// No bytes at all.
  Footprint() = default;
  /// Of a normalised tensor, and of a normalised output gradient with any strides.
  static Footprint of(const Tensor& tensor);
  static Footprint of(const OutputGradient& gradient);
  static Footprint of_bytes(std::uint64_t address, std::uint64_t bytes);

  bool empty() const { return run_ == 0; }
  /// Whether the two share a byte. Exact where one is a single run or both have the same strides, as views
  /// into one buffer do; else true only if an end of one lies in the other, which is certain.
  bool meets(const Footprint& other) const;

 private:
  using Bytes = __int128;  // addresses and strides have 64 bits each
  struct Line {
    Bytes count = 1;
    Bytes stride = 0;
  };

  void add(Line line);
  Bytes end() const;
  Footprint corner(bool last) const;
  bool ends_meet(const Footprint& other) const;
  static bool runs_meet(Bytes begin, const Line& line, Bytes run, Bytes low, Bytes high);

  Bytes begin_ = 0;
  Bytes run_ = 0;
  int lines_count_ = 0;
  Line lines_[2];
};

/// Two elements of a tensor at one place: row `row` of head 0, and row 0 of head `head`.
struct SelfOverlap {
  std::int64_t row;
  std::int64_t head;
};

/// Of a normalised tensor whose strides are at least its head_dim.
std::optional<SelfOverlap> find_self_overlap(const Tensor& tensor);

}  // namespace jfa
