// Tensor memory of one SM: 128 lanes x 512 columns of 32-bit cells, and its allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/machine/report.h"
#include "simulator/machine/tensor_region.h"

namespace jfa::simulator {

/// Owners are the CTAs on the SM: any address that identifies one.
/// With checks off only bounds and the allocator's rules are checked.
class TensorMemory {
 public:
  using Owner = const void*;

  explicit TensorMemory(bool checks);

  // --- Allocation: whole columns, first fit from column 0. Errors are kTensorMemory.
  /// Returns the first column, or nothing while the columns are not free. Throws if `columns` is not a power
  /// of two in 32 … 512, is more than the owner's previous allocation, or follows its relinquish.
  std::optional<std::uint32_t> allocate(Owner owner, std::uint32_t columns, const ProgramPoint& point);
  /// Whether an allocation of so many columns would find room now.
  bool fits(std::uint32_t columns) const { return next_fit(0, columns) + columns <= kTensorColumns; }
  /// The same in three parts, for an allocation in two tensor memories: throws as allocate does, …
  void check_request(Owner owner, std::uint32_t columns, const ProgramPoint& point);
  /// … the first column that is free in both, or nothing, …
  static std::optional<std::uint32_t> common_fit(const TensorMemory& a, const TensorMemory& b,
                                                 std::uint32_t columns);
  /// … and the allocation of columns that are free.
  void take(Owner owner, std::uint32_t first_column, std::uint32_t columns);
  /// "allocated: columns 0..127 256..511".
  std::string describe_allocations() const;
  /// Gives an allocation back; address and columns must be those of one.
  void deallocate(Owner owner, TensorAddress address, std::uint32_t columns, const ProgramPoint& point) {
    check_allocation(owner, address, columns, point);
    give_back(owner, address.column);
  }
  /// The same in two parts: throws unless address and columns are those of an allocation, …
  void check_allocation(Owner owner, TensorAddress address, std::uint32_t columns,
                        const ProgramPoint& point) const;
  /// … which ends.
  void give_back(Owner owner, std::uint32_t first_column);
  /// One CTA of a pair gives an allocation back: check_allocated refuses accesses from here on.
  void begin_giving_back(Owner owner, std::uint32_t first_column, const ProgramPoint& by);
  /// The owner allocates no more.
  void relinquish(Owner owner);
  /// The owner exits: throws if it still holds columns. With checks off they are given back.
  void release(Owner owner, const ProgramPoint& point);
  /// Throws unless all columns of the region belong to the owner. `what` accesses it.
  void check_allocated(Owner owner, const TensorRegion& region, const char* what,
                       const ProgramPoint& point) const;

  // --- Cells.
  std::uint32_t& cell(std::uint32_t lane, std::uint32_t column) {
    return cells_[lane * kTensorColumns + column];
  }
  /// The cells of a lane, by column.
  std::uint32_t* lane(std::uint32_t lane) { return &cells_[lane * kTensorColumns]; }

  /// Marks cells as written: the lanes of `mask` in a block.
  void set_initialised(std::uint32_t block, std::uint32_t column, std::uint32_t mask = 0xffff) {
    initialised_[block * kTensorColumns + column] |= static_cast<std::uint16_t>(mask);
  }
  void set_initialised(const TensorRegion& region);
  /// Of two blocks every lane but the last becomes what the next one was.
  void shift_initialised(std::uint32_t first_block, std::uint32_t column);
  /// Throws kUninitialised if a cell of the region was not written since its allocation.
  void check_initialised(const TensorRegion& region, const char* what, const ProgramPoint& point) const;

 private:
  struct Allocation {
    Owner owner;
    std::uint32_t first_column, columns;
    std::optional<ProgramPoint> given_back_by{};  // by the first CTA of a pair
  };
  struct Holder {
    Owner owner;
    std::uint32_t last_columns = kTensorColumns;
    bool relinquished = false;
  };
  Holder& holder(Owner owner);
  std::uint32_t next_fit(std::uint32_t from, std::uint32_t columns) const;

  bool checks_;
  std::vector<std::uint32_t> cells_;
  std::vector<std::uint16_t> initialised_;  // by block and column: one bit a lane
  std::vector<Allocation> allocations_;     // by first column
  std::vector<Holder> holders_;
};

}  // namespace jfa::simulator
