#include "runtime/footprint.h"

#include <algorithm>
#include <utility>

#include "generator/dtype.h"

namespace jfa {

Footprint Footprint::of(const Tensor& tensor) { return of(OutputGradient::of(tensor)); }

Footprint Footprint::of(const OutputGradient& gradient) {
  Footprint footprint;
  if (gradient.rows == 0 || gradient.heads == 0 || gradient.address >= kAddressLimit) return footprint;
  footprint.begin_ = static_cast<Bytes>(gradient.address);
  footprint.end_ = footprint.begin_ + kElementBytes;
  footprint.element_ = kElementBytes;
  footprint.dimensions_[0] = {gradient.head_dim, gradient.dim_stride * kElementBytes};
  footprint.dimensions_[1] = {gradient.heads, gradient.head_stride * kElementBytes};
  footprint.dimensions_[2] = {gradient.rows, gradient.row_stride * kElementBytes};
  for (Dimension& dimension : footprint.dimensions_) {
    const Bytes reach = (dimension.extent - 1) * dimension.stride;
    (reach < 0 ? footprint.begin_ : footprint.end_) += reach;
    dimension.stride = std::max(dimension.stride, -dimension.stride);
  }
  return footprint;
}

Footprint Footprint::of_bytes(std::uint64_t address, std::uint64_t bytes) {
  Footprint footprint;
  if (address >= kAddressLimit) return footprint;
  footprint.begin_ = static_cast<Bytes>(address);
  footprint.element_ = static_cast<Bytes>(std::min(bytes, kAddressLimit));
  footprint.end_ = footprint.begin_ + footprint.element_;
  return footprint;
}

// A footprint as runs of bytes at up to two strides, in ascending order: dimensions that lie side by side are
// one run, whatever their order.
class Footprint::Runs {
 public:
  explicit Runs(const Footprint& footprint) : begin_(footprint.begin_), run_(footprint.element_) {
    Dimension dimensions[3];
    std::ranges::copy(footprint.dimensions_, dimensions);
    std::ranges::sort(dimensions, {}, &Dimension::stride);
    for (const Dimension& dimension : dimensions) add(dimension);
  }

  // Exact if both together have at most two strides.
  bool meet(const Runs& other) const {
    if (const std::optional<bool> certain = lattices_meet(other)) return *certain;
    for (const bool last : {false, true}) {
      if (corner(last).lattices_meet(other).value_or(false)) return true;
      if (other.corner(last).lattices_meet(*this).value_or(false)) return true;
    }
    return false;
  }

 private:
  Runs(Bytes begin, Bytes run) : begin_(begin), run_(run) {}

  // A third stride is left out: what is kept is still part of the tensor.
  void add(const Dimension& dimension) {
    if (dimension.extent <= 1 || dimension.stride == 0) return;
    Dimension* const last = strides_ > 0 ? &dimensions_[strides_ - 1] : nullptr;
    if (!last && dimension.stride <= run_) {
      run_ += (dimension.extent - 1) * dimension.stride;
    } else if (last && dimension.stride == last->stride) {
      last->extent += dimension.extent - 1;
    } else if (last && dimension.stride == last->stride * last->extent) {
      last->extent *= dimension.extent;
    } else if (strides_ < 2) {
      dimensions_[strides_++] = dimension;
    }
  }

  // The first run or the last one.
  Runs corner(bool last) const {
    Bytes begin = begin_;
    for (const Dimension& dimension : dimensions_)
      begin += last ? (dimension.extent - 1) * dimension.stride : 0;
    return {begin, run_};
  }

  // Whether one of a dimension's runs, the first at `begin`, meets [low, high).
  static bool runs_meet(Bytes begin, const Dimension& dimension, Bytes run, Bytes low, Bytes high) {
    // The first run that ends behind `low`.
    const Bytes index =
        low < begin + run || dimension.extent == 1 ? 0 : (low - begin - run) / dimension.stride + 1;
    const Bytes found = begin + index * dimension.stride;
    return index < dimension.extent && found < high && found + run > low;
  }

  // Where a run of this one lies, as seen from a run of the other, is again a lattice: of the strides of
  // both. Nothing if those are more than two.
  std::optional<bool> lattices_meet(const Runs& other) const {
    Runs distances = *this;
    for (int i = 0; i < other.strides_; ++i) {
      const Dimension& dimension = other.dimensions_[i];
      Dimension* const end = distances.dimensions_ + distances.strides_;
      Dimension* same = std::find_if(distances.dimensions_, end,
                                     [&](const Dimension& mine) { return mine.stride == dimension.stride; });
      if (same == end) {
        if (distances.strides_ == 2) return std::nullopt;
        ++distances.strides_;
        same->stride = dimension.stride;
      }
      same->extent += dimension.extent - 1;
      distances.begin_ -= (dimension.extent - 1) * dimension.stride;
    }
    auto [few, many] = std::pair(distances.dimensions_[0], distances.dimensions_[1]);
    if (few.extent > many.extent) std::swap(few, many);
    for (Bytes i = 0; i < few.extent; ++i) {
      if (runs_meet(distances.begin_ + i * few.stride, many, run_, other.begin_, other.begin_ + other.run_))
        return true;
    }
    return false;
  }

  Bytes begin_;
  Bytes run_;
  int strides_ = 0;
  Dimension dimensions_[2];
};

bool Footprint::shares_bytes(const Footprint& other) const { return Runs(*this).meet(Runs(other)); }

std::optional<SelfOverlap> find_self_overlap(const Tensor& tensor) {
  if (tensor.rows <= 1 || tensor.heads <= 1) return std::nullopt;
  // As a rule one dimension lies within a step of the other.
  const auto within = [&](std::int64_t extent, std::int64_t stride, std::int64_t outer_stride) {
    return __int128{extent - 1} * stride + tensor.head_dim <= outer_stride;
  };
  if (within(tensor.heads, tensor.head_stride, tensor.row_stride) ||
      within(tensor.rows, tensor.row_stride, tensor.head_stride))
    return std::nullopt;
  const bool few_rows = tensor.rows < tensor.heads;
  const std::int64_t few = few_rows ? tensor.rows : tensor.heads;
  const std::int64_t many = few_rows ? tensor.heads : tensor.rows;
  const std::int64_t few_stride = few_rows ? tensor.row_stride : tensor.head_stride;
  const std::int64_t many_stride = few_rows ? tensor.head_stride : tensor.row_stride;
  for (std::int64_t i = 1; i < few; ++i) {
    const __int128 place = __int128{i} * few_stride;
    const __int128 below = place / many_stride;
    for (const __int128 j : {below, below + 1}) {  // the neighbours on either side
      const __int128 distance = place - j * many_stride;
      if (j < 1 || j >= many || distance >= tensor.head_dim || -distance >= tensor.head_dim) continue;
      const auto other = static_cast<std::int64_t>(j);
      return few_rows ? SelfOverlap{i, other} : SelfOverlap{other, i};
    }
  }
  return std::nullopt;
}

}  // namespace jfa
