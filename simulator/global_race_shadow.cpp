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
constexpr std::size_t kMostLogged = std::size_t{1} << 23;

const char* verb(RaceShadow::Access access) {
  return access == RaceShadow::Access::kRead ? "reads" : "writes";
}

// Calls visit(address, mask) for the part of [begin, end) in each cell: a bit of the mask for each byte.
template <class Visit>
void for_each_piece(std::uint64_t begin, std::uint64_t end, Visit visit) {
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t cell = at / kCellBytes * kCellBytes;
    const std::uint64_t last = std::min(end, cell + kCellBytes);
    visit(at, static_cast<std::uint8_t>((1u << (last - cell)) - (1u << (at - cell))));
    at = last;
  }
}

constexpr MemoryOrder kWeak{};
constexpr MemoryOrder kReduction{.strong = true, .updates = true};

}  // namespace

struct GlobalRaceShadow::Cell {
  Record write;              // the last one
  Record other;              // the only other access …
  std::uint32_t others = 0;  // … or index + 1 into others_
};

struct GlobalRaceShadow::Page {
  std::unique_ptr<std::array<Cell, kPageCells>> cells;  // null until the grid writes it
  GlobalReadLog reads;                                  // until then
};

GlobalRaceShadow::GlobalRaceShadow(Machine& machine) : machine_(machine) {}
GlobalRaceShadow::~GlobalRaceShadow() = default;

void GlobalRaceShadow::add_cluster(std::shared_ptr<HappensBefore> order) {
  order->set_cluster(static_cast<ClusterId>(clusters_.size()));
  clusters_.push_back(std::move(order));
}

// --- Cells

GlobalRaceShadow::Page& GlobalRaceShadow::page(std::uint64_t address) {
  const std::uint64_t number = address / kPageBytes;
  if (last_page_ == nullptr || number != last_number_) {
    last_number_ = number;
    last_page_ = &pages_[number];
  }
  return *last_page_;
}

void GlobalRaceShadow::make_cells(Page& page) {
  page.cells = std::make_unique<std::array<Cell, kPageCells>>();
  logged_ -= page.reads.size();
  page.reads.take([&](std::uint32_t offset, std::uint32_t bytes, Record record) {
    for_each_piece(offset, offset + bytes, [&](std::uint64_t at, std::uint8_t mask) {
      record.bytes = mask;
      add_other((*page.cells)[at / kCellBytes], record, /*synced=*/0);
    });
  });
}

void GlobalRaceShadow::log_read(Page& page, std::uint64_t address, std::uint32_t bytes,
                                const Record& record) {
  if (logged_ >= kMostLogged) return;
  logged_ -= page.reads.size();
  page.reads.add(static_cast<std::uint32_t>(address % kPageBytes), bytes, record);
  logged_ += page.reads.size();
}

template <class Visit>
void GlobalRaceShadow::for_each_cell(std::uint64_t address, std::uint32_t bytes, const Record* logged,
                                     Visit visit) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    Page& p = page(at);
    if (p.cells == nullptr && logged == nullptr) make_cells(p);
    if (p.cells == nullptr)
      log_read(p, at, static_cast<std::uint32_t>(page_end - at), *logged);
    else
      for_each_piece(at, page_end, [&](std::uint64_t piece, std::uint8_t mask) {
        visit((*p.cells)[piece % kPageBytes / kCellBytes], mask, piece);
      });
    at = page_end;
  }
}

GlobalAccessor GlobalRaceShadow::accessor_of(const ProgramPoint& point) const {
  const Warp& warp = point.cta->warp(point.warp);
  return {&point.cta->cluster().order, warp.clock, std::max(point.lane, 0), warp.live()};
}

GlobalRaceShadow::Record GlobalRaceShadow::record_of(const Accessor& accessor, const ProgramPoint& point,
                                                     const MemoryOrder& order) const {
  Record record;
  record.tick = accessor.clock->now();
  record.lanes = accessor.bit();
  if (point.instruction != nullptr)
    record.pc = static_cast<std::uint32_t>(point.instruction - machine_.entry().code.data());
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
  if (cell.others == 0) return conflicts(cell.other) ? &cell.other : nullptr;
  for (const Record& r : others_[cell.others - 1])
    if (conflicts(r)) return &r;
  return nullptr;
}

// Whether whatever races with the older access also races with the new one, a write that races with nothing.
bool GlobalRaceShadow::stands_for(const Record& record, const Record& older, const Accessor& accessor) const {
  if ((older.bytes & ~record.bytes) != 0) return false;
  if (!record.strong) return true;
  return older.strong && older.scope >= record.scope && ordered(older, accessor, Access::kRead);
}

// Of two operations: what a thread stores in bulk ends in order.
bool GlobalRaceShadow::same_thread(const Record& a, const Record& b) const {
  return operations_[a.tick - 1].lane == operations_[b.tick - 1].lane;
}

// A reader, or a writer that is not the last. Takes the place of one that it is at least as hard to be
// ordered after as. `synced`: up to there the lanes of its warp are ordered before it.
void GlobalRaceShadow::add_other(Cell& cell, const Record& record, std::uint32_t synced) {
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
    const bool implied = record.operation ? record.wrote && same_thread(old, record)
                                          : old.lanes == record.lanes || old.tick <= synced;
    if (!implied || (old.bytes & ~record.bytes) != 0) return false;
    old = record;
    return true;
  };
  if (cell.others == 0) {
    if (merge(cell.other)) return;
    if (free_others_.empty()) {
      others_.emplace_back();
      free_others_.push_back(static_cast<std::uint32_t>(others_.size()));
    }
    cell.others = free_others_.back();
    free_others_.pop_back();
    others_[cell.others - 1].push_back(cell.other);
  }
  std::vector<Record>& others = others_[cell.others - 1];
  for (Record& old : others)
    if (merge(old)) return;
  others.push_back(record);
}

// Behind a strong write, which need not be ordered behind all there is. Only where the list is about to grow.
void GlobalRaceShadow::forget_implied(Cell& cell, const Record& record, const Accessor& accessor) {
  if (cell.others == 0) return;
  std::vector<Record>& others = others_[cell.others - 1];
  if (others.size() < others.capacity()) return;
  std::erase_if(others, [&](const Record& old) { return stands_for(record, old, accessor); });
  if (others.size() > others.capacity() / 2) others.reserve(2 * others.capacity());
}

void GlobalRaceShadow::set_writer(Cell& cell, const Record& record, const Accessor& accessor) {
  const Record last = cell.write;
  cell.write = record;
  if (last.together(record) && last.lanes == record.lanes && last.strong == record.strong &&
      last.scope == record.scope) {
    cell.write.bytes |= last.bytes;
  } else if (last.tick != 0 && !stands_for(record, last, accessor)) {
    forget_implied(cell, record, accessor);
    add_other(cell, last, /*synced=*/0);
  }
  if (record.bytes != kWholeCell || record.strong) return;
  // Whoever is ordered behind this write is behind all that it is ordered behind.
  cell.other = Record{};
  if (cell.others == 0) return;
  others_[cell.others - 1].clear();
  free_others_.push_back(std::exchange(cell.others, 0));
}

// --- Threads

void GlobalRaceShadow::read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                            const MemoryOrder& order) {
  const Accessor accessor = accessor_of(point);
  Record record = record_of(accessor, point, order);
  const Record* const logged = order.strong ? nullptr : &record;
  for_each_cell(address, bytes, logged, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    if (const Record* other = conflict(cell, mask, Access::kRead, accessor, order))
      refuse(Access::kRead, at, nullptr, *other, point);
    if (!order.updates) add_other(cell, record, accessor.clock->synced());
  });
  if (order.strong) meetings_.read(address, accessor, order);
}

void GlobalRaceShadow::write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                             const MemoryOrder& order) {
  const Accessor accessor = accessor_of(point);
  accessor.clock->note_write(accessor.lane, FencedSpace::kGlobal);
  Record record = record_of(accessor, point, order);
  record.wrote = true;
  for_each_cell(address, bytes, /*logged=*/nullptr, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    // Lanes may write the same place in one instruction: one of them wins.
    const bool together = cell.write.together(record) && cell.write.pc == record.pc;
    const Record* other = together ? nullptr : conflict(cell, mask, Access::kWrite, accessor, order);
    if (other != nullptr) refuse(Access::kWrite, at, nullptr, *other, point);
    set_writer(cell, record, accessor);
  });
  if (order.strong) meetings_.write(address, accessor, order);
}

// --- Asynchronous operations

FlightOwner::FlightId GlobalRaceShadow::begin(const ProgramPoint& point) {
  operations_.push_back({{}, "", std::max(point.lane, 0)});
  return operations_.size();
}

void GlobalRaceShadow::access(FlightId operation, Access access, std::uint64_t address, std::uint32_t bytes,
                              const char* what, const ProgramPoint& point, bool reduces) {
  const bool writes = access == Access::kWrite;
  const Accessor accessor = accessor_of(point);
  const MemoryOrder& order = reduces ? kReduction : kWeak;
  operations_[operation - 1].what = what;
  Record record = record_of(accessor, point, order);
  record.tick = static_cast<std::uint32_t>(operation);
  record.lanes = 0;
  record.operation = true;
  record.wrote = writes;
  const Record* const logged = writes ? nullptr : &record;
  for_each_cell(address, bytes, logged, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
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
    add_other(cell, record, /*synced=*/0);
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
