#include "simulator/race_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kCellBytes = 4;
constexpr std::uint32_t kBlockBytes = 256;  // what used_ tells apart
constexpr std::uint8_t kWholeCell = 0xf;

// The part of [offset, offset + bytes) that lies in a cell.
std::uint8_t bytes_in(std::uint32_t cell, std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t begin = std::max(offset, cell * kCellBytes) - cell * kCellBytes;
  const std::uint32_t end = std::min(offset + bytes, (cell + 1) * kCellBytes) - cell * kCellBytes;
  return static_cast<std::uint8_t>((1u << end) - (1u << begin));
}

const char* verb(RaceShadow::Access access) {
  return access == RaceShadow::Access::kRead ? "reads" : "writes";
}

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

RaceShadow::RaceShadow(const Cta& cta, HappensBefore& order, std::uint32_t size_bytes)
    : cta_(cta), order_(order), used_(size_bytes / kBlockBytes + 1) {
  const std::size_t cells = std::size_t{size_bytes} / kCellBytes + 1;
  writes_.reset(static_cast<Record*>(std::calloc(cells, sizeof(Record))));
  others_.reset(static_cast<Others*>(std::calloc(cells, sizeof(Others))));
}

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

// --- Threads

void RaceShadow::read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, bool strong) {
  WarpClock& clock = clock_of(point);
  const int lane = std::max(point.lane, 0);
  used_[offset / kBlockBytes] = 1;
  Record record = record_of(point, clock, lane, strong);
  Accessor accessor{Access::kRead, strong, clock, lane};
  for (std::uint32_t c = offset / kCellBytes; c <= (offset + bytes - 1) / kCellBytes; ++c) {
    record.bytes = bytes_in(c, offset, bytes);
    if (const Record* other = unordered(c, record.bytes, accessor))
      refuse(Access::kRead, c * kCellBytes, nullptr, *other, point);
    add(c, record, clock);
    if (strong) order_strong(c, point, clock, lane);
  }
}

void RaceShadow::write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, bool strong) {
  WarpClock& clock = clock_of(point);
  const int lane = std::max(point.lane, 0);
  used_[offset / kBlockBytes] = 1;
  clock.note_write(lane);
  Record record = record_of(point, clock, lane, strong);
  record.wrote = true;
  Accessor accessor{Access::kWrite, strong, clock, lane};
  const bool whole = offset % kCellBytes == 0 && bytes % kCellBytes == 0;
  for (std::uint32_t c = offset / kCellBytes; c <= (offset + bytes - 1) / kCellBytes; ++c) {
    Record& write = writes_[c];
    record.bytes = whole ? kWholeCell : bytes_in(c, offset, bytes);
    // The usual case: after all there was, nothing of which remains.
    if (whole && !strong && !write.has_others && (write.tick == 0 || ordered(write, accessor))) {
      write = record;
      continue;
    }
    // Lanes may write the same place in one instruction: one of them wins.
    const bool together = write.strand == record.strand && write.tick == record.tick && write.pc == record.pc;
    const Record* other = unordered(c, record.bytes, accessor, together);
    const bool same_value =
        other == &write && write.generic && write.pc == record.pc && shares_constant(point);
    if (other != nullptr && !same_value) refuse(Access::kWrite, c * kCellBytes, nullptr, *other, point);
    const Record last = write;
    write = record;
    write.has_others = last.has_others;
    if (record.bytes == kWholeCell)
      forget_others(c);
    else if (last.strand == record.strand && last.lanes == record.lanes && last.tick == record.tick)
      write.bytes = record.bytes | last.bytes;
    else if (last.tick != 0 && (last.bytes & ~record.bytes) != 0)
      add(c, last, clock);
    if (strong) order_strong(c, point, clock, lane);
  }
}

// Threads that meet at a strong access are ordered by it, in the order in which they came.
void RaceShadow::order_strong(std::uint32_t cell, const ProgramPoint& point, WarpClock& clock, int lane) {
  VectorClock& meeting = strong_[cell];
  const LaneMask lanes = LaneMask{1} << lane, live = point.cta->warp(point.warp).live();
  order_.acquire(clock, lanes, live, meeting);
  order_.release(clock, lanes, live, meeting);
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
  if (write.tick == 0 || (write.bytes & bytes) == 0 || !write.generic) return true;
  const Epoch event = write.event();
  if (event == accessor.fenced) return true;
  if (!order_.fenced(event, accessor.clock, accessor.lane, FencedSpace::kShared)) return false;
  accessor.fenced = event;
  return true;
}

const RaceShadow::Record* RaceShadow::unordered(std::uint32_t cell, std::uint8_t bytes, Accessor& accessor,
                                                bool but_write) const {
  const auto conflicts = [&](const Record& r) {
    return r.tick != 0 && (r.bytes & bytes) != 0 && !(accessor.strong && r.strong) && !ordered(r, accessor);
  };
  const Record& write = writes_[cell];
  if (!but_write && conflicts(write)) return &write;
  if (!write.has_others) return nullptr;
  const bool reads = accessor.access == Access::kRead;
  const Others& others = others_[cell];
  if (others.more == 0)
    return !(reads && !others.first.wrote) && conflicts(others.first) ? &others.first : nullptr;
  for (const Record& r : more_others_[others.more - 1])
    if (!(reads && !r.wrote) && conflicts(r)) return &r;
  return nullptr;
}

// A reader, or a writer that is not the last. Merges with what the same warp has read, as far as the new
// access is at least as hard to be ordered after.
void RaceShadow::add(std::uint32_t cell, const Record& record, const WarpClock& clock) {
  const auto merge = [&](Record& old) {
    if (old.tick == 0) {
      old = record;
      return true;
    }
    if (old.strand != record.strand || old.strong != record.strong || old.wrote != record.wrote) return false;
    if (old.tick == record.tick && (old.lanes == record.lanes || old.bytes == record.bytes)) {
      old.lanes |= record.lanes;
      old.bytes |= record.bytes;
      return true;
    }
    const bool implied = old.lanes == record.lanes || old.tick <= clock.synced();
    if (!implied || (old.bytes & ~record.bytes) != 0) return false;
    old = record;
    return true;
  };
  writes_[cell].has_others = true;
  Others& others = others_[cell];
  if (others.more == 0) {
    if (merge(others.first)) return;
    if (free_more_.empty()) {
      more_others_.emplace_back();
      free_more_.push_back(static_cast<std::uint32_t>(more_others_.size()));
    }
    others.more = free_more_.back();
    free_more_.pop_back();
    more_others_[others.more - 1].push_back(others.first);
  }
  std::vector<Record>& more = more_others_[others.more - 1];
  for (Record& old : more)
    if (merge(old)) return;
  more.push_back(record);
}

void RaceShadow::forget_others(std::uint32_t cell) {
  if (!writes_[cell].has_others) return;
  writes_[cell].has_others = false;
  Others& others = others_[cell];
  others.first = {};
  if (others.more == 0) return;
  more_others_[others.more - 1].clear();
  free_more_.push_back(others.more);
  others.more = 0;
}

void RaceShadow::check_engines(Access access, std::uint32_t offset, std::uint32_t bytes,
                               const ProgramPoint& point) {
  if (const Interval* i = unordered_interval(access, offset, bytes, clock_of(point), std::max(point.lane, 0)))
    refuse(access, offset, nullptr, i->access, i->point, i->what, point);
}

void RaceShadow::check_initialised(std::uint32_t offset, const ProgramPoint& point) const {
  if (point.cta == nullptr || point.warp < 0) return;
  const Record& init = writes_[offset / kCellBytes];
  if (init.tick == 0 || ordered(init, clock_of(point), point.lane, Access::kRead)) return;
  fail_at(ErrorKind::kRace, point, offset,
          fmt::format("the mbarrier at shared {:#x} {} is used, and its mbarrier.init is not ordered before",
                      offset, cta_.shared_symbol(offset)),
          fmt::format("it was initialised by {}", point_of(init).describe()));
}

// --- Engines

template <class Visit>
bool RaceShadow::for_each_used_cell(std::uint32_t offset, std::uint32_t bytes, Visit visit) const {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t at = offset; at < end; at = (at / kBlockBytes + 1) * kBlockBytes) {
    if (used_[at / kBlockBytes] == 0) continue;
    const std::uint32_t last = std::min(end, (at / kBlockBytes + 1) * kBlockBytes);
    for (std::uint32_t c = at / kCellBytes; c <= (last - 1) / kCellBytes; ++c)
      if (!visit(c, bytes_in(c, offset, bytes))) return false;
  }
  return true;
}

const RaceShadow::Interval* RaceShadow::unordered_interval(Access access, std::uint32_t offset,
                                                           std::uint32_t bytes, const WarpClock& clock,
                                                           int lane) const {
  for (const Interval& i : intervals_) {
    if (access == Access::kRead && i.access == Access::kRead) continue;
    if (i.overlaps(offset, offset + bytes) && !order_.ordered(i.event, clock, lane, access == Access::kWrite))
      return &i;
  }
  return nullptr;
}

bool RaceShadow::engine_may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const {
  const WarpClock& clock = clock_of(point);
  if (unordered_interval(Access::kRead, offset, bytes, clock, point.lane) != nullptr) return false;
  Accessor accessor{Access::kRead, /*strong=*/false, clock, point.lane};
  return for_each_used_cell(offset, bytes, [&](std::uint32_t c, std::uint8_t mask) {
    return unordered(c, mask, accessor) == nullptr && fenced(writes_[c], mask, accessor);
  });
}

void RaceShadow::check_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                              const ProgramPoint& point) {
  const WarpClock& clock = clock_of(point);
  const int lane = point.lane;
  if (const Interval* i = unordered_interval(access, offset, bytes, clock, lane))
    refuse(access, std::max(offset, i->begin), what, i->access, i->point, i->what, point);
  Accessor accessor{access, /*strong=*/false, clock, lane};
  for_each_used_cell(offset, bytes, [&](std::uint32_t c, std::uint8_t mask) {
    const Record& write = writes_[c];
    if (const Record* other = unordered(c, mask, accessor))
      refuse(access, std::max(offset, c * kCellBytes), what, *other, point);
    if (access == Access::kRead && !fenced(write, mask, accessor)) {
      const std::uint32_t at = std::max(offset, c * kCellBytes);
      const ProgramPoint writer = point_of(write);
      const std::string who =
          writer.warp < 0 ? order_.describe(write.strand)
                          : fmt::format("thread {} (warp {} lane {})", writer.warp * kWarpSize + writer.lane,
                                        writer.warp, writer.lane);
      fail_at(ErrorKind::kMissingFence, point, at,
              fmt::format("{} reads shared {:#x} {}, which {} wrote without fence.proxy.async behind it",
                          what, at, cta_.shared_symbol(at), who),
              fmt::format("it was written by {}", writer.describe()));
    }
    return true;
  });
  if (access == Access::kWrite) forget(offset, bytes);
}

void RaceShadow::forget(std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t end = offset + bytes;
  for_each_used_cell(offset, bytes, [&](std::uint32_t c, std::uint8_t mask) {
    if (mask != kWholeCell) return true;
    forget_others(c);
    writes_[c] = {};
    return true;
  });
  for (std::uint32_t block = (offset + kBlockBytes - 1) / kBlockBytes; block < end / kBlockBytes; ++block)
    used_[block] = 0;
  std::erase_if(intervals_, [&](const Interval& i) { return offset <= i.begin && i.end <= end; });
}

void RaceShadow::note_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                             const ProgramPoint& point, const Epoch& event, bool generic) {
  if (generic && event.lanes != 0) clock_of(point).note_write(std::max(point.lane, 0));
  if (bytes >= kLeastInterval) {
    std::erase_if(intervals_, [&](const Interval& i) {
      return i.access == access && i.event.strand == event.strand && offset <= i.begin &&
             i.end <= offset + bytes;
    });
    intervals_.push_back({offset, offset + bytes, access, event, what, point});
    return;
  }
  Record record;
  record.tick = event.tick;
  record.lanes = event.lanes;
  record.pc = point.instruction == nullptr
                  ? 0
                  : static_cast<std::uint32_t>(point.instruction - cta_.machine().entry().code.data());
  record.strand = event.strand;
  record.generic = generic;
  record.wrote = access == Access::kWrite;
  for (std::uint32_t c = offset / kCellBytes; c <= (offset + bytes - 1) / kCellBytes; ++c) {
    used_[c * kCellBytes / kBlockBytes] = 1;
    record.bytes = bytes_in(c, offset, bytes);
    if (record.wrote) {
      record.has_others = writes_[c].has_others;
      writes_[c] = record;
    } else {
      add(c, record, clock_of(point));
    }
  }
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
