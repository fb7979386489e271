// The bytes that a tensor's elements lie in.
#pragma once

#include <cstdint>
#include <optional>

#include "generator/dtype.h"
#include "jfa/attention.h"

namespace jfa {


class Footprint {
 public:
  /// No bytes at all.
  Footprint() = default;
  /// Of a normalised tensor, and of a normalised output gradient with any strides.
  static Footprint of(const Tensor& tensor);
  static Footprint of(const OutputGradient& gradient);
  static Footprint of_bytes(std::uint64_t address, std::uint64_t bytes);

  /// Whether the two share a byte. Exact where one is a single run of bytes or both have the same strides, as
  /// views into one buffer do; else true only if an end of one lies in the other, which is certain.
  bool meets(const Footprint& other) const {
    return begin_ < other.end_ && other.begin_ < end_ && begin_ < end_ && other.begin_ < other.end_ &&
           shares_bytes(other);
  }

 private:
  // Of normalised tensors every term has room for its sums. What begins beyond all device addresses is left
  // out.
  using Bytes = std::int64_t;
  static constexpr std::uint64_t kAddressLimit = std::uint64_t{1} << 60;

  bool shares_bytes(const Footprint& other) const;

  struct Dimension {
    Bytes extent = 1;
    Bytes stride = 0;
  };
  class Runs;

  Bytes begin_ = 0, end_ = 0;
  Bytes element_ = 0;  // bytes of one
  Dimension dimensions_[3];
};

/// Two elements of a tensor at one place: row `row` of head 0, and row 0 of head `head`.
struct SelfOverlap {
  std::int64_t row;
  std::int64_t head;
};

/// Of a normalised tensor whose strides are at least its head_dim.
std::optional<SelfOverlap> find_self_overlap(const Tensor& tensor);

}  // namespace jfa
