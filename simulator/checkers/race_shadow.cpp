#include "simulator/checkers/race_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

// Whether the instruction is a store of an immediate that other warps may execute, too
// (RunOptions::constant_races).
bool shares_constant(const ProgramPoint& point) {
  if (point.instruction == nullptr || point.cta->machine().config().options.constant_races) return false;
  const std::string& text = point.cta->machine().entry().statements[point.instruction->statement].text;
  const std::size_t comma = text.rfind(',');
  if (text.find("st.") == std::string::npos || comma == std::string::npos) return false;
  const std::size_t value = text.find_first_not_of(" \t", comma + 1);
  return value != std::string::npos && (text[value] == '-' || (text[value] >= '0' && text[value] <= '9'));
}

WarpClock& clock_of(const ProgramPoint& point) { return *point.cta->warp(point.warp).clock; }

}  // namespace

const char* verb(RaceShadow::Access access) {
  return access == RaceShadow::Access::kRead ? "reads" : "writes";
}

RaceShadow::RaceShadow(const Cta& cta, HappensBefore& order, std::uint32_t size_bytes)
    : cta_(cta), order_(order), cells_(size_bytes) {}

RaceShadow::Record RaceShadow::record_of(const ProgramPoint& point, const WarpClock& clock, int lane,
                                         bool strong) const {
  Record record;
  record.tick = clock.now();
  record.lanes = LaneMask{1} << lane;
  if (point.instruction != nullptr)
    record.pc = static_cast<std::uint32_t>(point.instruction - cta_.machine().entry().code.data());
  record.strand = clock.strand();
  record.strong = strong;
  return record;
}

RaceShadow::Record RaceShadow::record_of(Access access, const ProgramPoint& point, const Epoch& event,
                                         bool generic) const {
  Record record;
  record.tick = event.tick;
  record.lanes = event.lanes;
  if (point.instruction != nullptr)
    record.pc = static_cast<std::uint32_t>(point.instruction - cta_.machine().entry().code.data());
  record.strand = event.strand;
  record.generic = generic;
  record.wrote = access == Access::kWrite;
  return record;
}

// --- Threads

void RaceShadow::read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                      const MemoryOrder& order) {
  WarpClock& clock = clock_of(point);
  const int lane = std::max(point.lane, 0);
  Record record = record_of(point, clock, lane, order.strong);
  Accessor accessor{Access::kRead, order.strong, clock, lane};
  cells_.for_each(offset, bytes, order.strong, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t at) {
    record.bytes = mask;
    if (const Record* other = unordered(c, mask, accessor)) refuse(Access::kRead, at, nullptr, *other, point);
    if (!order.updates) cells_.add_other(c, record, clock.synced());
  });
  if (order.strong) meetings_.read(offset, bytes, accessor_of(point), order);
}

void RaceShadow::write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                       const MemoryOrder& order) {
  WarpClock& clock = clock_of(point);
  const int lane = std::max(point.lane, 0);
  clock.note_write(lane);
  ++writes_so_far_;
  Record record = record_of(point, clock, lane, order.strong);
  record.wrote = true;
  Accessor accessor{Access::kWrite, order.strong, clock, lane};
  cells_.for_each(offset, bytes, order.strong, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t) {
    record.bytes = mask;
    Record& write = cells_.last_write(c);
    // The usual case: after all there was, nothing of which remains.
    if (mask == RaceCells::kWholeCell && !order.strong && !write.has_others &&
        (write.tick == 0 || ordered(write, accessor)))
      write = record;
    else
      write_cell(c, record, accessor, point);
  });
  if (order.strong)
    meetings_.write(offset, bytes, accessor_of(point), order);
  else
    cells_.join_lines(offset, bytes);
}

void RaceShadow::write_cell(RaceCells::Cell cell, Record record, Accessor& accessor,
                            const ProgramPoint& point) {
  Record& write = cells_.last_write(cell);
  // Lanes may write the same place in one instruction: one of them wins.
  const bool together = write.strand == record.strand && write.tick == record.tick && write.pc == record.pc;
  const Record* other = unordered(cell, record.bytes, accessor, together);
  const bool same_value = other == &write && write.generic && write.pc == record.pc && shares_constant(point);
  if (other != nullptr && !same_value) refuse(Access::kWrite, cells_.offset_of(cell), nullptr, *other, point);
  Record last = write;
  write = record;
  write.has_others = last.has_others;
  const bool joins_last = last.strand == record.strand && last.lanes == record.lanes &&
                          last.tick == record.tick && last.strong == record.strong;
  if (joins_last && record.bytes != RaceCells::kWholeCell) write.bytes = record.bytes | last.bytes;
  if (record.bytes == RaceCells::kWholeCell && !record.strong) return cells_.forget_others(cell);
  cells_.cut_others(cell, record.bytes, [&](const Record& old) {
    return !(record.strong && old.strong) && stands_for(record, old, accessor);
  });
  if (stands_for(record, last, accessor)) last.bytes &= ~record.bytes;
  if (!joins_last && last.tick != 0 && last.bytes != 0) cells_.add_other(cell, last, accessor.clock.synced());
}

// Whether who is ordered behind the write need not be asked about an earlier one of the same bytes. Whoever
// is ordered behind a weak write is behind all that it is ordered behind. Of strong ones another may come
// that is not: they leave what is before them, unless nobody could know of it by way of them.
bool RaceShadow::stands_for(const Record& write, const Record& earlier, const Accessor& accessor) const {
  if (!write.strong) return true;
  return earlier.strong != overwrites_unseen(earlier.event(), accessor.clock, accessor.lane);
}

bool RaceShadow::ordered(const Record& record, Accessor& accessor) const {
  const Epoch event = record.event();
  if (event == accessor.ordered) return true;
  if (event.strand == accessor.clock.strand() && event.tick <= accessor.clock.synced()) return true;
  if (!order_.ordered(event, accessor.clock, accessor.lane, accessor.access == Access::kWrite)) return false;
  accessor.ordered = event;
  return true;
}

// Whether the asynchronous proxy may read what the record wrote of the bytes.
bool RaceShadow::fenced(const Record& write, std::uint8_t bytes, Accessor& accessor) const {
  if (write.tick == 0 || (write.bytes & bytes) == 0 || !write.wrote || !write.generic) return true;
  const Epoch event = write.event();
  if (event == accessor.fenced) return true;
  if (!order_.fenced(event, accessor.clock, accessor.lane, FencedSpace::kShared)) return false;
  accessor.fenced = event;
  return true;
}

const RaceShadow::Record* RaceShadow::unfenced(RaceCells::Cell cell, std::uint8_t bytes,
                                               Accessor& accessor) const {
  const auto lacks_fence = [&](const Record& r) { return !fenced(r, bytes, accessor); };
  const Record& write = cells_.last_write(cell);
  return lacks_fence(write) ? &write : cells_.find_other(cell, lacks_fence);
}

const RaceShadow::Record* RaceShadow::unordered(RaceCells::Cell cell, std::uint8_t bytes, Accessor& accessor,
                                                bool but_write) const {
  const auto conflicts = [&](const Record& r) {
    return r.tick != 0 && (r.bytes & bytes) != 0 && !(accessor.strong && r.strong) && !ordered(r, accessor);
  };
  const Record& write = cells_.last_write(cell);
  if (!but_write && conflicts(write)) return &write;
  const bool reads = accessor.access == Access::kRead;
  return cells_.find_other(cell, [&](const Record& r) { return (r.wrote || !reads) && conflicts(r); });
}

void RaceShadow::check_engines(Access access, std::uint32_t offset, std::uint32_t bytes,
                               const ProgramPoint& point) {
  if (const Interval* i = unordered_interval(access, offset, bytes, clock_of(point), std::max(point.lane, 0)))
    refuse(access, offset, nullptr, i->access, i->point, i->what, point);
}

// Another strong write may come that is not ordered behind this one: to find that out, what the thread has
// seen stays. What it has not could not be known to a reader of what it writes.
bool RaceShadow::replaces_engines(std::uint32_t offset, std::uint32_t bytes,
                                  const ProgramPoint& point) const {
  const WarpClock& clock = clock_of(point);
  return std::any_of(intervals_.begin(), intervals_.end(), [&](const Interval& i) {
    return i.access == Access::kWrite && i.overlaps(offset, offset + bytes) && remains(i, offset, bytes) &&
           overwrites_unseen(i.event, clock, std::max(point.lane, 0));
  });
}

void RaceShadow::check_initialised(std::uint32_t offset, const Epoch& init, const ProgramPoint& point) const {
  if (point.cta == nullptr || point.warp < 0) return;
  const Record& write = cells_.last_write(cells_.cell_of(offset));
  const WarpClock& clock = clock_of(point);
  if (write.tick == 0 || ordered(write, clock, point.lane, Access::kRead) ||
      order_.ordered(init, clock, point.lane, false))
    return;
  fail_at(ErrorKind::kRace, point, offset,
          fmt::format("the mbarrier at shared {:#x} {} is used, and its mbarrier.init is not ordered before",
                      offset, cta_.shared_symbol(offset)),
          fmt::format("it was initialised by {}", point_of(write).describe()));
}

// --- Engines

const RaceShadow::Interval* RaceShadow::unordered_interval(Access access, std::uint32_t offset,
                                                           std::uint32_t bytes, const WarpClock& clock,
                                                           int lane) const {
  for (const Interval& i : intervals_) {
    if (access == Access::kRead && i.access == Access::kRead) continue;
    if (i.overlaps(offset, offset + bytes) &&
        !order_.ordered(i.event, clock, lane, access == Access::kWrite) && remains(i, offset, bytes))
      return &i;
  }
  return nullptr;
}

// Whether some of the bytes have not been written since by a thread, which was ordered behind it.
bool RaceShadow::remains(const Interval& interval, std::uint32_t offset, std::uint32_t bytes) const {
  const std::uint32_t first = std::max(offset, interval.begin);
  const std::uint32_t last = std::min(offset + bytes, interval.end);
  return cta_.shared().any_flags(
      first, last - first,
      interval.access == Access::kRead ? SharedMemory::kEngineRead : SharedMemory::kEngineWritten);
}

// An engine's write takes their place: what is left of them lies beside it. Around a write that leaves no
// interval itself the flags of the bytes say as much.
void RaceShadow::forget_intervals(std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t end = offset + bytes;
  if (bytes < kLeastInterval) {
    std::erase_if(intervals_, [&](const Interval& i) { return offset <= i.begin && i.end <= end; });
    return;
  }
  for (std::size_t i = 0; i < intervals_.size();) {
    Interval& interval = intervals_[i];
    if (!interval.overlaps(offset, end)) {
      ++i;
      continue;
    }
    Interval behind = interval;
    behind.begin = end;
    interval.end = offset;
    const bool any_before = interval.begin < interval.end, any_behind = behind.begin < behind.end;
    if (any_before) {
      ++i;
      if (any_behind) intervals_.push_back(behind);
    } else if (any_behind) {
      intervals_[i++] = behind;
    } else {
      intervals_.erase(intervals_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool RaceShadow::engine_may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) {
  const WarpClock& clock = clock_of(point);
  const AllowedRead asked{offset, bytes, clock.strand(), point.lane, writes_so_far_};
  if (std::find(allowed_.begin(), allowed_.end(), asked) != allowed_.end()) return true;
  if (unordered_interval(Access::kRead, offset, bytes, clock, point.lane) != nullptr) return false;
  Accessor accessor{Access::kRead, /*strong=*/false, clock, point.lane};
  const bool allowed =
      cells_.for_each_used(offset, bytes, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t) {
        return unordered(c, mask, accessor) == nullptr && unfenced(c, mask, accessor) == nullptr;
      });
  if (allowed) allowed_[next_allowed_++ % allowed_.size()] = asked;
  return allowed;
}

void RaceShadow::check_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                              const ProgramPoint& point) {
  const WarpClock& clock = clock_of(point);
  const int lane = point.lane;
  if (const Interval* i = unordered_interval(access, offset, bytes, clock, lane))
    refuse(access, std::max(offset, i->begin), what, i->access, i->point, i->what, point);
  Accessor accessor{access, /*strong=*/false, clock, lane};
  cells_.for_each_used(offset, bytes, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t at) {
    if (const Record* other = unordered(c, mask, accessor)) refuse(access, at, what, *other, point);
    const Record* write = access == Access::kRead ? unfenced(c, mask, accessor) : nullptr;
    if (write != nullptr) {
      const ProgramPoint writer = point_of(*write);
      const std::string who =
          writer.warp < 0 ? order_.describe(write->strand)
                          : fmt::format("thread {} (warp {} lane {})", writer.warp * kWarpSize + writer.lane,
                                        writer.warp, writer.lane);
      fail_at(ErrorKind::kMissingFence, point, at,
              fmt::format("{} reads shared {:#x} {}, which {} wrote without fence.proxy.async behind it",
                          what, at, cta_.shared_symbol(at), who),
              fmt::format("it was written by {}", writer.describe()));
    }
    return true;
  });
  if (access == Access::kRead) return;
  ++writes_so_far_;
  // The engine's write is ordered behind all of them, and whoever comes next must be behind it.
  cells_.forget(offset, bytes);
  forget_intervals(offset, bytes);
}

void RaceShadow::note_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                             const ProgramPoint& point, const Epoch& event, bool generic) {
  if (access == Access::kWrite) ++writes_so_far_;
  if (generic && event.lanes != 0) clock_of(point).note_write(std::max(point.lane, 0));
  if (bytes >= kLeastInterval) {
    std::erase_if(intervals_, [&](const Interval& i) {
      return i.access == access && i.event.strand == event.strand && offset <= i.begin &&
             i.end <= offset + bytes;
    });
    intervals_.push_back({offset, offset + bytes, access, event, what, point});
    return;
  }
  Record record = record_of(access, point, event, generic);
  cells_.for_each(offset, bytes, false, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t) {
    record.bytes = mask;
    if (!record.wrote) return cells_.add_other(c, record, clock_of(point).synced());
    record.has_others = cells_.last_write(c).has_others;
    cells_.last_write(c) = record;
  });
}

void RaceShadow::check_reduction(std::uint32_t offset, std::uint32_t bytes, const char* what,
                                 const ProgramPoint& point) {
  const WarpClock& clock = clock_of(point);
  for (const Access access : {Access::kRead, Access::kWrite}) {
    if (const Interval* i = unordered_interval(access, offset, bytes, clock, point.lane))
      refuse(access, std::max(offset, i->begin), what, i->access, i->point, i->what, point);
    Accessor accessor{access, /*strong=*/true, clock, point.lane};
    cells_.for_each_used(offset, bytes, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t at) {
      if (const Record* other = unordered(c, mask, accessor)) refuse(access, at, what, *other, point);
      return true;
    });
  }
}

// What was there before each of them was checked against, when it was issued.
void RaceShadow::note_reduction(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                                const Epoch& event) {
  ++writes_so_far_;
  Record record = record_of(Access::kWrite, point, event, /*generic=*/false);
  record.strong = true;
  cells_.for_each(offset, bytes, /*parts=*/true, [&](RaceCells::Cell c, std::uint8_t mask, std::uint32_t) {
    const Record last = cells_.last_write(c);
    record.bytes = mask;
    record.has_others = last.has_others;
    cells_.last_write(c) = record;
    if (last.tick != 0 && last.strong) cells_.add_other(c, last, clock_of(point).synced());
  });
}

// --- Reports

ProgramPoint RaceShadow::point_of(const Record& record) const {
  ProgramPoint point = order_.warp_of(record.strand);
  point.instruction = &cta_.machine().entry().code[record.pc];
  if (point.cta == nullptr) point.cta = &cta_;
  if (record.lanes != 0) point.lane = __builtin_ctz(record.lanes);
  return point;
}

void RaceShadow::refuse(Access access, std::uint32_t offset, const char* what, Access earlier,
                        const ProgramPoint& other, const char* other_what, const ProgramPoint& point) const {
  const std::string symbol = cta_.shared_symbol(offset);
  fail_at(ErrorKind::kRace, point, offset,
          fmt::format("{} {} shared {:#x}{}{}, which {} {} too, and nothing orders the two",
                      what == nullptr ? "a thread" : what, verb(access), offset, symbol.empty() ? "" : " ",
                      symbol, other_what == nullptr ? "another thread" : other_what, verb(earlier)),
          fmt::format("the other access: {}", other.describe()));
}

void RaceShadow::refuse(Access access, std::uint32_t offset, const char* what, const Record& record,
                        const ProgramPoint& point) const {
  const bool engine = !record.generic || record.lanes == 0;
  refuse(access, offset, what, record.wrote ? Access::kWrite : Access::kRead, point_of(record),
         engine ? "an asynchronous operation" : nullptr, point);
}

}  // namespace jfa::simulator
