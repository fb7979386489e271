#include "simulator/tensor_core/tensor_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "simulator/machine/vector_clones.h"

namespace jfa::simulator {
namespace {

// Whether the cells of all lanes are initialised in every column.
JFA_VECTOR_CLONES bool all_lanes(const std::uint16_t* columns, std::uint32_t count) {
  std::uint16_t common = 0xffff;
  for (std::uint32_t i = 0; i < count; ++i) common &= columns[i];
  return common == 0xffff;
}

}  // namespace

TensorMemory::TensorMemory(bool checks)
    : checks_(checks),
      cells_(kTensorLanes * kTensorColumns, 0xffffffff),
      initialised_(kTensorBlocks * kTensorColumns, 0) {}

TensorMemory::Holder& TensorMemory::holder(Owner owner) {
  const auto found =
      std::find_if(holders_.begin(), holders_.end(), [&](const Holder& h) { return h.owner == owner; });
  if (found != holders_.end()) return *found;
  return holders_.emplace_back(Holder{.owner = owner});
}

std::string TensorMemory::describe_allocations() const {
  if (allocations_.empty()) return "no columns are allocated";
  std::string text = "allocated:";
  for (const Allocation& a : allocations_) {
    text += fmt::format(" columns {}..{}", a.first_column, a.first_column + a.columns - 1);
  }
  return text;
}

// The first column from `from` on behind which so many are free.
std::uint32_t TensorMemory::next_fit(std::uint32_t from, std::uint32_t columns) const {
  std::uint32_t first = from;
  for (const Allocation& a : allocations_) {
    if (first + columns <= a.first_column) break;
    first = std::max(first, a.first_column + a.columns);
  }
  return first;
}

void TensorMemory::check_request(Owner owner, std::uint32_t columns, const ProgramPoint& point) {
  const Holder& state = holder(owner);
  if (columns < 32 || columns > kTensorColumns || !std::has_single_bit(columns)) {
    fail(ErrorKind::kTensorMemory, point,
         fmt::format("tcgen05.alloc of {} columns: must be a power of two from 32 to 512", columns));
  }
  if (state.relinquished) {
    fail(ErrorKind::kTensorMemory, point, "tcgen05.alloc after the CTA's tcgen05.relinquish_alloc_permit");
  }
  if (columns > state.last_columns) {
    fail(ErrorKind::kTensorMemory, point,
         fmt::format("tcgen05.alloc of {} columns after one of {}: a CTA's allocations must not grow",
                     columns, state.last_columns));
  }
}

std::optional<std::uint32_t> TensorMemory::allocate(Owner owner, std::uint32_t columns,
                                                    const ProgramPoint& point) {
  check_request(owner, columns, point);
  const std::uint32_t first = next_fit(0, columns);
  if (first + columns > kTensorColumns) return std::nullopt;
  take(owner, first, columns);
  return first;
}

std::optional<std::uint32_t> TensorMemory::common_fit(const TensorMemory& a, const TensorMemory& b,
                                                      std::uint32_t columns) {
  std::uint32_t first = 0;
  while (first + columns <= kTensorColumns) {
    const std::uint32_t next = b.next_fit(a.next_fit(first, columns), columns);
    if (next == first) return first;
    first = next;
  }
  return std::nullopt;
}

void TensorMemory::take(Owner owner, std::uint32_t first, std::uint32_t columns) {
  const auto next = std::find_if(allocations_.begin(), allocations_.end(),
                                 [&](const Allocation& a) { return a.first_column > first; });
  allocations_.insert(next, {owner, first, columns});
  holder(owner).last_columns = columns;
  for (std::uint32_t lane = 0; lane < kTensorLanes; ++lane) {
    std::fill_n(this->lane(lane) + first, columns, 0xffffffff);  // a NaN in every float type
  }
  for (std::uint32_t block = 0; block < kTensorBlocks; ++block) {
    std::fill_n(&initialised_[block * kTensorColumns + first], columns, std::uint16_t{0});
  }
}

void TensorMemory::check_allocation(Owner owner, TensorAddress address, std::uint32_t columns,
                                    const ProgramPoint& point) const {
  const bool found = std::any_of(allocations_.begin(), allocations_.end(), [&](const Allocation& a) {
    return a.owner == owner && a.first_column == address.column && a.columns == columns;
  });
  if (address.lane == 0 && found) return;
  fail_at(ErrorKind::kTensorMemory, point, address.bits(),
          fmt::format("tcgen05.dealloc of {} columns at {:#010x}, which this CTA did not allocate", columns,
                      address.bits()),
          describe_allocations());
}

void TensorMemory::give_back(Owner owner, std::uint32_t first_column) {
  std::erase_if(allocations_,
                [&](const Allocation& a) { return a.owner == owner && a.first_column == first_column; });
}

void TensorMemory::begin_giving_back(Owner owner, std::uint32_t first_column, const ProgramPoint& by) {
  for (Allocation& a : allocations_)
    if (a.owner == owner && a.first_column == first_column && !a.given_back_by) a.given_back_by = by;
}

void TensorMemory::relinquish(Owner owner) { holder(owner).relinquished = true; }

void TensorMemory::release(Owner owner, const ProgramPoint& point) {
  for (const Allocation& a : allocations_) {
    if (a.owner != owner || !checks_) continue;
    fail(ErrorKind::kTensorMemory, point,
         fmt::format("the CTA exits without tcgen05.dealloc of its {} columns at column {}", a.columns,
                     a.first_column));
  }
  std::erase_if(allocations_, [&](const Allocation& a) { return a.owner == owner; });
  std::erase_if(holders_, [&](const Holder& h) { return h.owner == owner; });
}

void TensorMemory::check_allocated(Owner owner, const TensorRegion& region, const char* what,
                                   const ProgramPoint& point) const {
  std::uint32_t column = region.first_column;
  for (const Allocation& a : allocations_) {
    if (a.owner != owner || a.first_column > column || a.first_column + a.columns <= column) continue;
    if (a.given_back_by && checks_)
      fail_at(ErrorKind::kTensorMemory, point, column,
              fmt::format("{} touches tensor memory {}, and the pair of CTAs is giving column {} back", what,
                          region.describe(), column),
              fmt::format("  the first to do so: {}", a.given_back_by->describe()));
    column = a.first_column + a.columns;
  }
  if (column >= region.end_column && region.end_column <= kTensorColumns) return;
  fail_at(ErrorKind::kTensorMemory, point, column,
          fmt::format("{} touches tensor memory {}, of which column {} is not allocated by this CTA", what,
                      region.describe(), column),
          describe_allocations());
}

void TensorMemory::set_initialised(const TensorRegion& region) {
  for (std::uint32_t block = 0; block < kTensorBlocks; ++block) {
    if ((region.blocks >> block & 1) == 0) continue;
    std::fill_n(&initialised_[block * kTensorColumns + region.first_column],
                region.end_column - region.first_column, std::uint16_t{0xffff});
  }
}

void TensorMemory::shift_initialised(std::uint32_t first_block, std::uint32_t column) {
  constexpr std::uint32_t kLastLane = 1u << 31;
  std::uint16_t& low = initialised_[first_block * kTensorColumns + column];
  std::uint16_t& high = initialised_[(first_block + 1) * kTensorColumns + column];
  const std::uint32_t lanes = std::uint32_t{high} << kTensorBlockLanes | low;
  const std::uint32_t shifted = lanes >> 1 | (lanes & kLastLane);
  low = static_cast<std::uint16_t>(shifted);
  high = static_cast<std::uint16_t>(shifted >> kTensorBlockLanes);
}

void TensorMemory::check_initialised(const TensorRegion& region, const char* what,
                                     const ProgramPoint& point) const {
  if (!checks_) return;
  for (std::uint32_t block = 0; block < kTensorBlocks; ++block) {
    if ((region.blocks >> block & 1) == 0) continue;
    if (all_lanes(&initialised_[block * kTensorColumns + region.first_column],
                  region.end_column - region.first_column))
      continue;
    for (std::uint32_t column = region.first_column; column < region.end_column; ++column) {
      const std::uint32_t missing =
          static_cast<std::uint16_t>(~initialised_[block * kTensorColumns + column]);
      if (missing == 0) continue;
      const std::uint32_t lane =
          block * kTensorBlockLanes + static_cast<std::uint32_t>(std::countr_zero(missing));
      fail_at(ErrorKind::kUninitialised, point, TensorAddress(lane, column).bits(),
              fmt::format(
                  "{} reads tensor memory lane {} column {}, which nothing has written since its allocation",
                  what, lane, column));
    }
  }
}

}  // namespace jfa::simulator
