#include "simulator/global_race_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kCellBytes = 4;
constexpr std::uint32_t kPageCells = 1024;
constexpr std::uint64_t kPageBytes = kCellBytes * kPageCells;
constexpr std::uint8_t kWholeCell = 0xf;

const char* verb(RaceShadow::Access access) {
  return access == RaceShadow::Access::kRead ? "reads" : "writes";
}

constexpr MemoryOrder kWeak{};
constexpr MemoryOrder kReduction{.strong = true, .updates = true};

}  // namespace

/// Accesses of some lanes of a warp in one tick; or of an operation.
struct GlobalRaceShadow::Record {
  std::uint32_t tick = 0;  // 0: none. Of an operation: its id
  LaneMask lanes = 0;      // 0: an operation
  std::uint32_t pc = 0;
  ClusterId cluster = 0;
  Strand strand = 0;       // of the thread, also of an operation's
  std::uint8_t bytes = 0;  // of the four, a bit each
  bool strong : 1 = false;
  bool wrote : 1 = false;
  bool operation : 1 = false;
  MemoryScope scope : 2 = MemoryScope::kGpu;
};

struct GlobalRaceShadow::Cell {
  Record write;
  Record read;               // the only other one …
  std::uint32_t others = 0;  // … or index + 1 into others_
};

struct GlobalRaceShadow::Page {
  std::array<Cell, kPageCells> cells;
};

/// Who accesses now.
struct GlobalRaceShadow::Accessor {
  HappensBefore* order = nullptr;
  WarpClock* clock = nullptr;
  int lane = 0;
  LaneMask live = 0;
  const Instruction* instruction = nullptr;
  LaneMask bit() const { return LaneMask{1} << lane; }
};

GlobalRaceShadow::GlobalRaceShadow(Machine& machine) : machine_(machine) {}
GlobalRaceShadow::~GlobalRaceShadow() = default;

void GlobalRaceShadow::add_cluster(std::shared_ptr<HappensBefore> order) {
  order->set_cluster(static_cast<ClusterId>(clusters_.size()));
  clusters_.push_back(std::move(order));
}

// --- Cells

GlobalRaceShadow::Page* GlobalRaceShadow::page(std::uint64_t address, bool make) {
  const std::uint64_t number = address / kPageBytes;
  if (number == last_number_ && (last_page_ != nullptr || !make)) return last_page_;
  last_number_ = number;
  if (make) {
    std::unique_ptr<Page>& made = pages_[number];
    if (made == nullptr) made = std::make_unique<Page>();
    return last_page_ = made.get();
  }
  const auto found = pages_.find(number);
  return last_page_ = found == pages_.end() ? nullptr : found->second.get();
}

template <class Visit>
void GlobalRaceShadow::for_each_cell(std::uint64_t address, std::uint32_t bytes, bool make, Visit visit) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    Page* const cells = page(at, make);
    if (cells == nullptr) {
      at = page_end;
      continue;
    }
    while (at < page_end) {
      const std::uint64_t cell = at / kCellBytes * kCellBytes;
      const std::uint64_t last = std::min(page_end, cell + kCellBytes);
      const auto mask = static_cast<std::uint8_t>((1u << (last - cell)) - (1u << (at - cell)));
      visit(cells->cells[cell % kPageBytes / kCellBytes], mask, at);
      at = last;
    }
  }
}

GlobalRaceShadow::Accessor GlobalRaceShadow::accessor_of(const ProgramPoint& point) const {
  const Warp& warp = point.cta->warp(point.warp);
  return {&point.cta->cluster().order, warp.clock, std::max(point.lane, 0), warp.live(), point.instruction};
}

GlobalRaceShadow::Record GlobalRaceShadow::record_of(const Accessor& accessor,
                                                     const MemoryOrder& order) const {
  Record record;
  record.tick = accessor.clock->now();
  record.lanes = accessor.bit();
  if (accessor.instruction != nullptr)
    record.pc = static_cast<std::uint32_t>(accessor.instruction - machine_.entry().code.data());
  record.cluster = accessor.order->cluster();
  record.strand = accessor.clock->strand();
  record.strong = order.strong;
  record.scope = order.scope;
  return record;
}

Epoch GlobalRaceShadow::event_of(const Record& record) const {
  return record.operation ? operations_[record.tick - 1].completion
                          : Epoch{record.strand, record.tick, record.lanes};
}

// --- Order

// Strong accesses do not race if each is in the other's scope.
bool GlobalRaceShadow::strong_together(const Record& record, const Accessor& accessor,
                                       const MemoryOrder& order) const {
  if (!order.strong || !record.strong) return false;
  const MemoryScope scope = std::min(record.scope, order.scope);
  if (scope == MemoryScope::kGpu) return true;
  if (record.cluster != accessor.order->cluster()) return false;
  return scope == MemoryScope::kCluster || accessor.order->same_cta(record.strand, accessor.clock->strand());
}

bool GlobalRaceShadow::ordered(const Record& record, const Accessor& accessor, Access access) const {
  const Epoch event = event_of(record);
  if (event.tick == 0) return false;
  if (record.cluster == accessor.order->cluster())
    return accessor.order->ordered(event, *accessor.clock, accessor.lane, access == Access::kWrite);
  const RemoteClock::Pointer& remote = accessor.clock->known(accessor.lane).remote();
  return clusters_[record.cluster]->ordered(event, remote ? remote->of(record.cluster) : nullptr);
}

bool GlobalRaceShadow::fenced(const Record& record, const Accessor& accessor) const {
  const Epoch event = event_of(record);
  if (record.cluster == accessor.order->cluster())
    return accessor.order->fenced(event, *accessor.clock, accessor.lane, FencedSpace::kGlobal);
  const RemoteClock::Pointer& remote = accessor.clock->known(accessor.lane).remote();
  return clusters_[record.cluster]->fenced(event, remote ? remote->of(record.cluster) : nullptr,
                                           FencedSpace::kGlobal);
}

// The first record of the cell that conflicts with the access and is not ordered before it, or null.
const GlobalRaceShadow::Record* GlobalRaceShadow::conflict(const Cell& cell, std::uint8_t bytes,
                                                           Access access, const Accessor& accessor,
                                                           const MemoryOrder& order) const {
  const bool reads = access == Access::kRead;
  const auto conflicts = [&](const Record& r) {
    return r.tick != 0 && (r.bytes & bytes) != 0 && (r.wrote || !reads) &&
           !strong_together(r, accessor, order) && !ordered(r, accessor, access);
  };
  if (conflicts(cell.write)) return &cell.write;
  if (cell.others == 0) return conflicts(cell.read) ? &cell.read : nullptr;
  for (const Record& r : others_[cell.others - 1])
    if (conflicts(r)) return &r;
  return nullptr;
}

// A reader, or a writer that is not the last. Takes the place of one that it is at least as hard to be
// ordered after as.
void GlobalRaceShadow::add_other(Cell& cell, const Record& record, const Accessor& accessor) {
  const auto merge = [&](Record& old) {
    if (old.tick == 0) {
      old = record;
      return true;
    }
    if (old.cluster != record.cluster || old.strand != record.strand || old.operation != record.operation ||
        old.strong != record.strong || old.wrote != record.wrote || old.scope != record.scope)
      return false;
    if (old.tick == record.tick && (old.lanes == record.lanes || old.bytes == record.bytes)) {
      old.lanes |= record.lanes;
      old.bytes |= record.bytes;
      return true;
    }
    const bool implied =
        !record.operation && (old.lanes == record.lanes || old.tick <= accessor.clock->synced());
    if (!implied || (old.bytes & ~record.bytes) != 0) return false;
    old = record;
    return true;
  };
  if (cell.others == 0) {
    if (merge(cell.read)) return;
    if (free_others_.empty()) {
      others_.emplace_back();
      free_others_.push_back(static_cast<std::uint32_t>(others_.size()));
    }
    cell.others = free_others_.back();
    free_others_.pop_back();
    others_[cell.others - 1].push_back(cell.read);
  }
  std::vector<Record>& others = others_[cell.others - 1];
  for (Record& old : others)
    if (merge(old)) return;
  others.push_back(record);
}

void GlobalRaceShadow::set_writer(Cell& cell, const Record& record, const Accessor& accessor) {
  const Record last = cell.write;
  cell.write = record;
  const bool same = last.cluster == record.cluster && last.strand == record.strand &&
                    last.lanes == record.lanes && last.tick == record.tick;
  if (same)
    cell.write.bytes |= last.bytes;
  else if (last.tick != 0 && (last.bytes & ~record.bytes) != 0)
    add_other(cell, last, accessor);
  if (record.bytes != kWholeCell || record.strong) return;
  // Whoever is ordered behind this write is behind all that it is ordered behind.
  cell.read = Record{};
  if (cell.others == 0) return;
  others_[cell.others - 1].clear();
  free_others_.push_back(std::exchange(cell.others, 0));
}

// --- Threads

void GlobalRaceShadow::read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                            const MemoryOrder& order) {
  if (page(address, order.strong) == nullptr) return;
  const Accessor accessor = accessor_of(point);
  Record record = record_of(accessor, order);
  for_each_cell(address, bytes, order.strong, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    if (const Record* other = conflict(cell, mask, Access::kRead, accessor, order))
      refuse(Access::kRead, at, nullptr, *other, point);
    if (!order.updates) add_other(cell, record, accessor);
  });
  if (order.strong) synchronise_read(address, accessor, order);
}

void GlobalRaceShadow::write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                             const MemoryOrder& order) {
  const Accessor accessor = accessor_of(point);
  accessor.clock->note_write(accessor.lane, FencedSpace::kGlobal);
  Record record = record_of(accessor, order);
  record.wrote = true;
  for_each_cell(address, bytes, true, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    const Record& w = cell.write;
    // Lanes may write the same place in one instruction: one of them wins.
    const bool together = w.cluster == record.cluster && w.strand == record.strand && w.tick == record.tick &&
                          w.pc == record.pc && !w.operation;
    const Record* other = together ? nullptr : conflict(cell, mask, Access::kWrite, accessor, order);
    if (other != nullptr) refuse(Access::kWrite, at, nullptr, *other, point);
    set_writer(cell, record, accessor);
  });
  if (order.strong) synchronise_write(address, accessor, order);
}

// What writers have left at the place is acquired, at once or by the next fence.
void GlobalRaceShadow::synchronise_read(std::uint64_t address, const Accessor& accessor,
                                        const MemoryOrder& order) {
  const auto found = meetings_.find(address / kCellBytes);
  if (found == meetings_.end()) return;
  const WarpClock::Published& meeting = found->second;
  const bool wide = order.scope == MemoryScope::kGpu;
  if (order.acquires) {
    accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, meeting.narrow, false);
    if (wide) accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, meeting.wide, true);
    return;
  }
  WarpClock::Published& observed = accessor.clock->observed(accessor.lane);
  observed.narrow = RemoteClock::join(observed.narrow, meeting.narrow);
  if (wide) observed.wide = RemoteClock::join(observed.wide, meeting.wide);
}

// A release, or a relaxed write behind a fence, leaves what its thread has published. An atomic adds to what
// it has found; any other write takes its place.
void GlobalRaceShadow::synchronise_write(std::uint64_t address, const Accessor& accessor,
                                         const MemoryOrder& order) {
  WarpClock::Published own = accessor.clock->released(accessor.lane);
  if (order.releases)
    own.wide = own.narrow = accessor.order->publish(*accessor.clock, accessor.bit(), accessor.live);
  if (order.scope != MemoryScope::kGpu) own.wide = nullptr;
  const std::uint64_t key = address / kCellBytes;
  const auto found = meetings_.find(key);
  if (found == meetings_.end()) {
    if (own.narrow != nullptr) meetings_.emplace(key, std::move(own));
  } else if (order.updates) {
    found->second.wide = RemoteClock::join(found->second.wide, own.wide);
    found->second.narrow = RemoteClock::join(found->second.narrow, own.narrow);
  } else {
    found->second = std::move(own);
  }
}

// --- Asynchronous operations

FlightOwner::FlightId GlobalRaceShadow::begin(const ProgramPoint& point) {
  operations_.push_back({point.cta->cluster().order.cluster(), {}, ""});
  return operations_.size();
}

void GlobalRaceShadow::access(FlightId operation, Access access, std::uint64_t address, std::uint32_t bytes,
                              const char* what, const ProgramPoint& point, bool reduces) {
  const bool writes = access == Access::kWrite;
  const Accessor accessor = accessor_of(point);
  const MemoryOrder& order = reduces ? kReduction : kWeak;
  operations_[operation - 1].what = what;
  Record record = record_of(accessor, order);
  record.tick = static_cast<std::uint32_t>(operation);
  record.lanes = 0;
  record.operation = true;
  record.wrote = writes;
  for_each_cell(address, bytes, writes, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    if (const Record* other = conflict(cell, mask, access, accessor, order))
      refuse(access, at, what, *other, point);
    if (writes) return set_writer(cell, record, accessor);
    const Record& w = cell.write;
    if (w.tick != 0 && (w.bytes & mask) != 0 && !w.operation && !fenced(w, accessor))
      fail_at(
          ErrorKind::kMissingFence, point, at,
          fmt::format("{} reads {}, which a thread of this grid wrote without fence.proxy.async behind it",
                      what, place(at)),
          fmt::format("it was written by {}", describe(w)));
    add_other(cell, record, accessor);
  });
}

void GlobalRaceShadow::end(FlightId operation, const Epoch& event) {
  if (operation == 0) return;
  Epoch& completion = operations_[operation - 1].completion;
  if (completion.tick == 0) completion = event;
}

FlightRef GlobalRaceShadow::one_access(Access access, std::uint64_t address, std::uint32_t bytes,
                                       const char* what, const ProgramPoint& point, bool reduces) {
  GlobalRaceShadow* races = point.cta->machine().global_races();
  if (races == nullptr) return {};
  const FlightRef flight{races, races->begin(point)};
  races->access(flight.id, access, address, bytes, what, point, reduces);
  return flight;
}

// --- Reports

std::string GlobalRaceShadow::place(std::uint64_t address) const {
  const DeviceMemory::Allocation* allocation = machine_.memory().find(address);
  if (allocation == nullptr) return fmt::format("global {:#x}", address);
  return fmt::format("global {:#x} ({} bytes into {})", address, address - allocation->address,
                     allocation->name);
}

std::string GlobalRaceShadow::describe(const Record& record) const {
  const Instruction& instruction = machine_.entry().code[record.pc];
  const auto& statement = machine_.entry().statements[instruction.statement];
  return fmt::format("`{}` (PTX line {}) by {}", statement.text, statement.ptx_line,
                     clusters_[record.cluster]->describe(Epoch{record.strand, record.tick, record.lanes}));
}

void GlobalRaceShadow::refuse(Access access, std::uint64_t address, const char* what, const Record& record,
                              const ProgramPoint& point) const {
  fail_at(ErrorKind::kRace, point, address,
          fmt::format("{} {} {}, which {} {} too, and nothing orders the two",
                      what == nullptr ? "a thread" : what, verb(access), place(address),
                      record.operation ? operations_[record.tick - 1].what : "another thread",
                      verb(record.wrote ? Access::kWrite : Access::kRead)),
          fmt::format("the other access: {}", describe(record)));
}

}  // namespace jfa::simulator
