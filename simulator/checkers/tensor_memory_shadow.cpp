#include "simulator/checkers/tensor_memory_shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/machine/vector_clones.h"

namespace jfa::simulator {
namespace {

const char* participle(TensorMemoryShadow::Access access) {
  return access == TensorMemoryShadow::Access::kRead ? "read" : "written";
}

JFA_VECTOR_CLONES bool all_equal(const std::uint32_t* cells, std::uint32_t count, std::uint32_t value) {
  std::uint32_t different = 0;
  for (std::uint32_t i = 0; i < count; ++i) different |= cells[i] ^ value;
  return different == 0;
}

// Calls function(index, record) where in the region a record begins that is not the one before it: the cells
// of one operation share theirs. 0, which is none, is left out.
template <class Function>
void for_each_record(const std::vector<std::uint32_t>& cells, const TensorRegion& region, Function function) {
  std::uint32_t last = 0;
  for (std::uint32_t block = 0; block < kTensorBlocks; ++block) {
    if ((region.blocks >> block & 1) == 0) continue;
    const std::uint32_t first = block * kTensorColumns + region.first_column;
    const std::uint32_t end = block * kTensorColumns + region.end_column;
    if (all_equal(&cells[first], end - first, last)) continue;
    for (std::uint32_t index = first; index < end; ++index)
      if (cells[index] != last) {
        last = cells[index];
        if (last != 0) function(index, last);
      }
  }
}

void set_all(std::vector<std::uint32_t>& cells, const TensorRegion& region, std::uint32_t value) {
  for (std::uint32_t block = 0; block < kTensorBlocks; ++block)
    if ((region.blocks >> block & 1) != 0)
      std::fill_n(&cells[block * kTensorColumns + region.first_column],
                  region.end_column - region.first_column, value);
}

// Of the warp, if there is one that keeps a clock.
const WarpClock* kept_clock_of(const ProgramPoint& point) {
  return point.cta == nullptr || point.warp < 0 ? nullptr : point.cta->warp(point.warp).clock;
}

// What the thread does now, or a whole warp.
Epoch issue_of(const ProgramPoint& point) {
  if (kept_clock_of(point) == nullptr) return {};
  return point.cta->warp(point.warp).event(point.lane < 0 ? kAllLanes : LaneMask{1} << point.lane);
}

Epoch tensor_issue_of(const ProgramPoint& point, TensorMemoryShadow::Order order) {
  if (order == 0 || point.lane < 0 || kept_clock_of(point) == nullptr) return {};
  const Warp& warp = point.cta->warp(point.warp);
  return point.cta->cluster().order.issue_tensor(*warp.clock, point.lane);
}

bool is_copy(TensorMemoryShadow::Order order) {
  return order == kTensorCopyOrder || order == kTensorRefreshOrder;
}

// Whether writes of the order run in the order in which they are issued.
bool in_order_of_issue(TensorMemoryShadow::Order order) { return order != 0 && order != kTensorShiftOrder; }

bool is_product(TensorOrder order) { return order > kTensorShiftOrder; }

}  // namespace

bool TensorMemoryShadow::pipelined(Order earlier, Access access, Order later) const {
  if (earlier == 0 || later == 0) return false;  // not of the tensor core
  if (is_product(earlier) && is_product(later)) return !product_waits_;
  if (is_copy(earlier)) return later != kTensorShiftOrder;
  if (earlier == kTensorShiftOrder) return later != kTensorShiftOrder && later != kTensorCopyOrder;
  return later == kTensorShiftOrder || (is_copy(later) && access == Access::kRead);
}

std::string TensorMemoryShadow::describe(const Flight& flight) {
  return fmt::format("tensor memory {} is being {} by {}, issued at {}", flight.region.describe(),
                     participle(flight.access), flight.accessor.what, flight.accessor.point.describe());
}

std::uint32_t TensorMemoryShadow::intern(const Accessor& accessor) {
  std::vector<std::uint32_t>& known = accessors_by_instruction_[accessor.point.instruction];
  for (const std::uint32_t index : known) {
    const Accessor& other = accessors_[index];
    if (other.strand == accessor.strand && other.order == accessor.order &&
        other.point.cta == accessor.point.cta) {
      return index;
    }
  }
  known.push_back(static_cast<std::uint32_t>(accessors_.size()));
  accessors_.push_back(accessor);
  return known.back();
}

std::optional<TensorMemoryShadow::IssueFault> TensorMemoryShadow::issue_fault(
    const Issue& earlier, const TensorStrand& earlier_strand, const Accessor& accessor) const {
  const ProgramPoint& point = accessor.point;
  const WarpClock* clock = kept_clock_of(point);
  const HappensBefore* order = clock == nullptr ? nullptr : &point.cta->cluster().order;
  if (clock != nullptr && earlier.event.tick != 0 &&
      !order->ordered(earlier.event, *clock, point.lane, false) &&
      !order->ordered(earlier.tensor_event, *clock, point.lane, false))
    return IssueFault{ErrorKind::kRace, "and nothing orders the threads that issue the two"};
  if (&earlier_strand == accessor.strand || !fences_) return std::nullopt;
  if (earlier_strand.before_thread_sync < earlier.time)
    return IssueFault{ErrorKind::kMissingFence,
                      "which another warp issued without tcgen05.fence::before_thread_sync since"};
  if (accessor.strand->after_thread_sync < earlier.time)
    return IssueFault{ErrorKind::kMissingFence,
                      "which another warp issued, without tcgen05.fence::after_thread_sync in between"};
  return std::nullopt;
}

void TensorMemoryShadow::refuse_issue(const IssueFault& fault, Access access, std::uint32_t column,
                                      const Accessor& accessor, const Accessor& earlier) {
  fail_at(fault.kind, accessor.point, TensorAddress(0, column).bits(),
          fmt::format("{} {} tensor memory behind {}, {}", accessor.what,
                      access == Access::kRead ? "reads" : "writes", earlier.what, fault.lacking),
          fmt::format("the other: {}", earlier.point.describe()));
}

void TensorMemoryShadow::issue(FlightId id, Access access, const TensorRegion& region, const char* what,
                               const TensorStrand& strand, Order order, const ProgramPoint& point) {
  const Accessor accessor{what, &strand, order, point};
  for (const Flight& flight : flights_) {
    if (!flight.region.overlaps(region)) continue;
    if (access == Access::kRead && flight.access == Access::kRead) continue;
    const bool writes_in_order = access == Access::kWrite && flight.access == Access::kWrite &&
                                 in_order_of_issue(order) && flight.accessor.order == order;
    if (writes_in_order || pipelined(flight.accessor.order, flight.access, order)) {
      if (const auto fault = issue_fault(flight.issue, *flight.accessor.strand, accessor))
        refuse_issue(*fault, access, flight.region.first_column, accessor, flight.accessor);
      continue;
    }
    fail_at(
        ErrorKind::kInFlight, point,
        TensorAddress(0, std::max(region.first_column, flight.region.first_column)).bits(),
        fmt::format("{} {} tensor memory {} while {} is still in flight there", what,
                    access == Access::kRead ? "reads" : "writes", region.describe(), flight.accessor.what),
        describe(flight));
  }
  const Allowed asked{access, region, &strand, order, point.lane, ends_so_far_};
  if (allowed_ != asked) {
    check_fences(written_, Access::kWrite, access, region, accessor);
    if (access == Access::kWrite) check_fences(read_, Access::kRead, access, region, accessor);
    allowed_ = asked;
  }
  flights_.push_back(
      {id, region, access, accessor, {++time_, issue_of(point), tensor_issue_of(point, order)}});
}

void TensorMemoryShadow::fence_after(TensorStrand& strand, const Warp* warp, LaneMask lanes) {
  strand.after_thread_sync = ++time_;
  if (warp == nullptr || warp->clock == nullptr) return;
  warp->cta().cluster().order.fence_tensor(*warp->clock, lanes, warp->live());
  warp->clock->tell(lanes, strand.acquired);
}

bool TensorMemoryShadow::ordered(const Record& record, Access access, const Accessor& accessor) {
  const ProgramPoint& point = accessor.point;
  const WarpClock* clock = kept_clock_of(point);
  return record.event.tick == 0 || clock == nullptr ||
         point.cta->cluster().order.ordered(record.event, *clock, point.lane, access == Access::kWrite);
}

void TensorMemoryShadow::refuse_unordered(const Accessor& other, Access earlier, Access access,
                                          std::uint32_t index, const Accessor& accessor) {
  const std::uint32_t column = index % kTensorColumns;
  const std::uint32_t lane = index / kTensorColumns * kTensorBlockLanes;
  fail_at(ErrorKind::kRace, accessor.point, TensorAddress(lane, column).bits(),
          fmt::format("{} {} tensor memory lane {} column {}, which {} {} too, and nothing orders the two",
                      accessor.what, access == Access::kRead ? "reads" : "writes", lane, column, other.what,
                      earlier == Access::kRead ? "reads" : "writes"),
          fmt::format("the other access: {}", other.point.describe()));
}

bool TensorMemoryShadow::acquired(const Record& record, Access access, const Accessor& accessor) {
  const ProgramPoint& point = accessor.point;
  if (record.event.tick == 0 || point.cta == nullptr)
    return accessor.strand->after_thread_sync >= record.time;
  return point.cta->cluster().order.ordered(record.event, &accessor.strand->acquired,
                                            access == Access::kWrite);
}

void TensorMemoryShadow::check_fences(const CellRecords& records, Access earlier, Access access,
                                      const TensorRegion& region, const Accessor& accessor,
                                      bool synchronous) const {
  for_each_record(records, region, [&](std::uint32_t index, std::uint32_t number) {
    const Record& record = records_[number];
    const Accessor& other = accessors_[record.accessor];
    const bool engine = other.order != 0;
    const bool same_strand = other.strand == accessor.strand;
    if (!engine && same_strand) return;  // ordered without fences
    const bool same_order = other.order == accessor.order && in_order_of_issue(accessor.order);
    const bool in_order = engine && (same_order || pipelined(other.order, earlier, accessor.order));
    const auto fault = in_order ? issue_fault(record.issue, *other.strand, accessor) : std::nullopt;
    if (in_order && !fault) return;
    if (!ordered(record, access, accessor)) {
      if (fault) refuse_issue(*fault, access, index % kTensorColumns, accessor, other);
      refuse_unordered(other, earlier, access, index, accessor);
    }
    if (!fences_ || (in_order && same_strand)) return;
    const bool released = engine || other.strand->before_thread_sync >= record.time;
    if (released && (synchronous || acquired(record, access, accessor))) return;
    const std::uint32_t column = index % kTensorColumns;
    const std::uint32_t lane = index / kTensorColumns * kTensorBlockLanes;
    fail_at(ErrorKind::kMissingFence, accessor.point, TensorAddress(lane, column).bits(),
            fmt::format("{} {} tensor memory lane {} column {}, last {} by {}, without {} in between",
                        accessor.what, access == Access::kRead ? "reads" : "writes", lane, column,
                        participle(earlier), other.what,
                        released ? "tcgen05.fence::after_thread_sync by this thread"
                                 : "tcgen05.fence::before_thread_sync by the thread that did"),
            fmt::format("it was {} at {}", participle(earlier), other.point.describe()));
  });
}

std::uint32_t TensorMemoryShadow::add_record(const Record& record) {
  if (records_.size() >= kMostRecords) drop_unused_records();
  records_.push_back(record);
  return static_cast<std::uint32_t>(records_.size() - 1);
}

void TensorMemoryShadow::drop_unused_records() {
  std::vector<Record> kept(1);
  std::vector<std::uint32_t> renumbered(records_.size());  // 0: not yet
  for (CellRecords* cells : {&written_, &read_}) {
    for (std::uint32_t& cell : *cells) {
      if (cell == 0) continue;
      if (renumbered[cell] == 0) {
        renumbered[cell] = static_cast<std::uint32_t>(kept.size());
        kept.push_back(records_[cell]);
      }
      cell = renumbered[cell];
    }
  }
  records_ = std::move(kept);
}

void TensorMemoryShadow::end_flight(FlightId id, const Epoch& event) {
  const auto found =
      std::find_if(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.id == id; });
  if (found == flights_.end()) return;
  const std::uint32_t record = add_record({++time_, intern(found->accessor), event, found->issue});
  set_all(found->access == Access::kRead ? read_ : written_, found->region, record);
  flights_.erase(found);
  ++ends_so_far_;
}

bool TensorMemoryShadow::in_flight(FlightId id) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.id == id; });
}

void TensorMemoryShadow::check_idle(const TensorRegion& region, const char* what,
                                    const ProgramPoint& point) const {
  for (const Flight& flight : flights_) {
    if (!flight.region.overlaps(region)) continue;
    fail_at(ErrorKind::kInFlight, point, TensorAddress(0, region.first_column).bits(),
            fmt::format("{} of tensor memory {} while {} is still in flight there", what, region.describe(),
                        flight.accessor.what),
            describe(flight));
  }
}

void TensorMemoryShadow::free(const TensorRegion& region, const char* what, const TensorStrand& strand,
                              const ProgramPoint& point) const {
  check_idle(region, what, point);
  const Accessor accessor{what, &strand, 0, point};
  check_fences(written_, Access::kWrite, Access::kWrite, region, accessor, true);
  check_fences(read_, Access::kRead, Access::kWrite, region, accessor, true);
}

void TensorMemoryShadow::allocate(const TensorRegion& region) {
  set_all(written_, region, 0);
  set_all(read_, region, 0);
}

}  // namespace jfa::simulator
