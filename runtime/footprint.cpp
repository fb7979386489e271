#include "runtime/footprint.h"

#include <algorithm>
#include <initializer_list>

namespace jfa {
namespace {

constexpr std::int64_t kElementBytes = 2;

}  // namespace

// Lines come in the order of their strides. A third that does not merge is left out: what is kept is still
// part of the tensor.
void Footprint::add(Line line) {
  if (line.count <= 1 || line.stride == 0) return;
  Line* const last = lines_count_ > 0 ? &lines_[lines_count_ - 1] : nullptr;
  if (!last && line.stride <= run_) {
    run_ += (line.count - 1) * line.stride;
  } else if (last && line.stride == last->stride) {
    last->count += line.count - 1;
  } else if (last && line.stride == last->stride * last->count) {
    last->count *= line.count;
  } else if (lines_count_ < 2) {
    lines_[lines_count_++] = line;
  }
}

Footprint Footprint::of(const Tensor& tensor) { return of(OutputGradient::of(tensor)); }

Footprint Footprint::of(const OutputGradient& gradient) {
  Footprint footprint;
  if (gradient.rows == 0 || gradient.heads == 0) return footprint;
  footprint.begin_ = gradient.address;
  footprint.run_ = kElementBytes;
  Line lines[] = {{gradient.head_dim, Bytes{gradient.dim_stride} * kElementBytes},
                  {gradient.heads, Bytes{gradient.head_stride} * kElementBytes},
                  {gradient.rows, Bytes{gradient.row_stride} * kElementBytes}};
  for (Line& line : lines) {
    if (line.stride >= 0) continue;
    footprint.begin_ += (line.count - 1) * line.stride;
    line.stride = -line.stride;
  }
  std::ranges::sort(lines, {}, &Line::stride);
  for (const Line& line : lines) footprint.add(line);
  return footprint;
}

Footprint Footprint::of_bytes(std::uint64_t address, std::uint64_t bytes) {
  Footprint footprint;
  footprint.begin_ = address;
  footprint.run_ = bytes;
  return footprint;
}

Footprint::Bytes Footprint::end() const {
  Bytes end = begin_ + run_;
  for (const Line& line : lines_) end += (line.count - 1) * line.stride;
  return end;
}

// Whether one of the line's runs, the first at `begin`, meets [low, high).
bool Footprint::runs_meet(Bytes begin, const Line& line, Bytes run, Bytes low, Bytes high) {
  // The first run that ends behind `low`.
  const Bytes index = low < begin + run || line.count == 1 ? 0 : (low - begin - run) / line.stride + 1;
  const Bytes found = begin + index * line.stride;
  return index < line.count && found < high && found + run > low;
}

Footprint Footprint::corner(bool last) const {
  Footprint corner;
  corner.begin_ = last ? end() - run_ : begin_;
  corner.run_ = run_;
  return corner;
}

bool Footprint::ends_meet(const Footprint& other) const {
  return meets(other.corner(false)) || meets(other.corner(true)) || other.meets(corner(false)) ||
         other.meets(corner(true));
}

bool Footprint::meets(const Footprint& other) const {
  if (empty() || other.empty() || end() <= other.begin_ || other.end() <= begin_) return false;
  // Where a run of this one lies, as seen from a run of the other, is again a lattice: of both's strides.
  Footprint distances = *this;
  for (int i = 0; i < other.lines_count_; ++i) {
    const Line& line = other.lines_[i];
    Line* const end_of_lines = distances.lines_ + distances.lines_count_;
    Line* same = std::find_if(distances.lines_, end_of_lines,
                              [&](const Line& mine) { return mine.stride == line.stride; });
    if (same == end_of_lines) {
      if (distances.lines_count_ == 2) return ends_meet(other);
      ++distances.lines_count_;
      same->stride = line.stride;
    }
    same->count += line.count - 1;
    distances.begin_ -= (line.count - 1) * line.stride;
  }
  const auto [few, many] = std::minmax(distances.lines_[0], distances.lines_[1],
                                       [](const Line& a, const Line& b) { return a.count < b.count; });
  for (Bytes i = 0; i < few.count; ++i) {
    if (runs_meet(distances.begin_ + i * few.stride, many, run_, other.begin_, other.begin_ + other.run_))
      return true;
  }
  return false;
}

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
