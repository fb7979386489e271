// Who may touch which cells of tensor memory when. Cells of an operation in flight are out of bounds for
// others; cells that others produced or consumed need the tcgen05 fences in between. Both are errors on every
// schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulator/machine/machine.h"
#include "simulator/machine/observer.h"
#include "simulator/machine/tensor_region.h"

namespace jfa::simulator {

class TensorMemoryShadow final : public TensorObserver {
 public:
  using Access = MemoryAccess;
  using Order = TensorOrder;

  explicit TensorMemoryShadow(const RunOptions& options = {})
      : fences_(options.tensor_fences), product_waits_(options.product_waits) {}

  /// Puts the region in flight. Throws kInFlight if a write meets anything in flight or a read meets a write,
  /// unless the tensor core does the two in the order of issue (both are writes of one Order, for example):
  /// then kRace if nothing orders their issue, and kMissingFence without the tcgen05 fences between two warps
  /// that issue them. kRace, too, if nothing orders the region's last accesses before this one, and
  /// kMissingFence if the region's last producer or consumer is another strand and not both sides have
  /// executed their tcgen05 fence. `what`: "tcgen05.ld", for reports. The strand must live as long as the
  /// shadow.
  void issue(FlightId id, Access access, const TensorRegion& region, const char* what,
             const TensorStrand& strand, Order order, const ProgramPoint& point) override;
  void end_flight(FlightId id, const Epoch& event) override;
  bool in_flight(FlightId id) const override;

  /// The region is about to be deallocated: throws kInFlight if anything in it is in flight, kRace if nothing
  /// orders its last accesses before, kMissingFence if warps that made them have not executed
  /// fence::before_thread_sync since. No fence::after_thread_sync is asked for: dealloc is synchronous.
  void free(const TensorRegion& region, const char* what, const TensorStrand& strand,
            const ProgramPoint& point) const override;
  /// Newly allocated columns: nobody has touched them.
  void allocate(const TensorRegion& region) override;

  void fence_before(TensorStrand& strand) override { strand.before_thread_sync = ++time_; }
  void fence_after(TensorStrand& strand, const Warp* warp, LaneMask lanes) override;

 private:
  /// Who accessed, for reports and to know which fences are due.
  struct Accessor {
    const char* what = "";
    const TensorStrand* strand = nullptr;
    Order order = 0;  // not 0: the tensor core, whose commit is a fence of its own
    ProgramPoint point;
  };
  /// When a thread issued an operation. The events' ticks are 0 where nobody keeps clocks.
  struct Issue {
    std::uint64_t time = 0;
    Epoch event;         // of the thread
    Epoch tensor_event;  // the same among its tensor operations; nothing for tcgen05.ld and .st
  };
  struct IssueFault {
    ErrorKind kind;
    const char* lacking;
  };
  struct Flight {
    FlightId id;
    TensorRegion region;
    Access access;
    Accessor accessor;
    Issue issue;
  };
  /// An access that ended.
  struct Record {
    std::uint64_t time = 0;
    std::uint32_t accessor = 0;  // index into accessors_
    Epoch event;                 // by which it was over; its tick is 0 where nobody keeps clocks
    Issue issue;
  };
  /// An access that was found right. It stays so for the one that asked until an access ends, since a strand
  /// only ever learns.
  struct Allowed {
    Access access;
    TensorRegion region;
    const TensorStrand* strand;
    Order order;
    int lane;
    std::uint64_t ends_before;
    bool operator==(const Allowed&) const = default;
  };
  /// The last access of a kind that ended, by block and column: index into records_; 0: none.
  using CellRecords = std::vector<std::uint32_t>;
  static constexpr std::uint32_t kMostRecords = 65536;  // more than there are cells
  std::uint32_t intern(const Accessor& accessor);
  std::uint32_t add_record(const Record& record);
  void drop_unused_records();
  /// Whether the tensor core does an operation of one order, of which this is an access, before those of
  /// another that are issued behind it; products of one accumulator apart.
  bool pipelined(Order earlier, Access access, Order later) const;
  /// The tensor core does what was issued earlier before what is issued now, if the threads agree which is
  /// which: what lacks for that, if anything does.
  std::optional<IssueFault> issue_fault(const Issue& earlier, const TensorStrand& earlier_strand,
                                        const Accessor& accessor) const;
  [[noreturn]] static void refuse_issue(const IssueFault& fault, Access access, std::uint32_t column,
                                        const Accessor& accessor, const Accessor& earlier);
  /// Whether the access was over before what the accessor does.
  static bool ordered(const Record& record, Access access, const Accessor& accessor);
  /// Whether the accessor's fence::after_thread_sync is behind what tells it of the access.
  static bool acquired(const Record& record, Access access, const Accessor& accessor);
  void check_idle(const TensorRegion& region, const char* what, const ProgramPoint& point) const;
  [[noreturn]] static void refuse_unordered(const Accessor& other, Access earlier, Access access,
                                            std::uint32_t index, const Accessor& accessor);
  /// `synchronous`: the access is one that no fence::after_thread_sync has to precede.
  void check_fences(const CellRecords& records, Access earlier, Access access, const TensorRegion& region,
                    const Accessor& accessor, bool synchronous = false) const;
  static std::string describe(const Flight& flight);

  bool fences_, product_waits_;  // see RunOptions
  std::uint64_t time_ = 0;
  std::vector<Flight> flights_;  // some dozens at most
  std::uint64_t ends_so_far_ = 0;
  std::optional<Allowed> allowed_;  // the last: products of many steps have one accumulator
  std::vector<Accessor> accessors_;
  std::unordered_map<const Instruction*, std::vector<std::uint32_t>> accessors_by_instruction_;
  std::vector<Record> records_ = std::vector<Record>(1);
  CellRecords written_ = CellRecords(kTensorBlocks * kTensorColumns);
  CellRecords read_ = CellRecords(kTensorBlocks * kTensorColumns);
};

}  // namespace jfa::simulator
