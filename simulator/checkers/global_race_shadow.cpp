#include "simulator/checkers/global_race_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr MemoryOrder kWeak{};
constexpr MemoryOrder kReduction{.strong = true, .updates = true};

}  // namespace

GlobalRaceShadow::GlobalRaceShadow(Machine& machine) : machine_(machine) {}
GlobalRaceShadow::~GlobalRaceShadow() = default;

void GlobalRaceShadow::add_cluster(std::shared_ptr<HappensBefore> order) {
  order->set_cluster(static_cast<ClusterId>(clusters_.size()));
  clusters_.push_back(std::move(order));
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
// `but_write`: its last write aside.
const GlobalRaceShadow::Record* GlobalRaceShadow::conflict(const Cell& cell, std::uint8_t bytes,
                                                           Access access, const Accessor& accessor,
                                                           const MemoryOrder& order, bool but_write) const {
  const bool reads = access == Access::kRead;
  const auto conflicts = [&](const Record& r) {
    return r.tick != 0 && (r.bytes & bytes) != 0 && (r.wrote || !reads) &&
           !strong_together(r, accessor, order) && !ordered(r, accessor, access);
  };
  if (!but_write && conflicts(cell.write)) return &cell.write;
  return cells_.find_other(cell, conflicts);
}

// The first write of a thread among the cell's that the asynchronous proxy may not read, or null.
const GlobalRaceShadow::Record* GlobalRaceShadow::unfenced(const Cell& cell, std::uint8_t bytes,
                                                           const Accessor& accessor) const {
  const auto lacks_fence = [&](const Record& r) {
    return r.tick != 0 && (r.bytes & bytes) != 0 && r.wrote && !r.operation && !fenced(r, accessor);
  };
  return lacks_fence(cell.write) ? &cell.write : cells_.find_other(cell, lacks_fence);
}

// Whether whatever races with the older access of the same bytes also races with the new one, a write that
// races with nothing. A strong write need not be ordered behind all there is; of what is over, and it has not
// seen, nobody can know by way of it.
bool GlobalRaceShadow::stands_for(const Record& record, const Record& older, const Accessor& accessor) const {
  if (!record.strong) return true;
  const bool seen = ordered(older, accessor, Access::kRead);
  return older.strong ? seen && older.scope >= record.scope : !seen;
}

void GlobalRaceShadow::set_writer(Cell& cell, const Record& record, const Accessor& accessor) {
  Record last = cell.write;
  cell.write = record;
  // Whoever is ordered behind a weak write is behind all that it is ordered behind.
  if (record.bytes == GlobalRaceCells::kWholeCell && !record.strong) return cells_.forget_others(cell);
  // Strong ones wait for thin_others: many atomics of one place leave many.
  cells_.cut_others(cell, record.bytes, [&](const Record& old) {
    return !(record.strong && old.strong) && stands_for(record, old, accessor);
  });
  if (last.together(record) && last.lanes == record.lanes && last.strong == record.strong &&
      last.scope == record.scope) {
    cell.write.bytes |= last.bytes;
    return;
  }
  if (stands_for(record, last, accessor)) last.bytes &= ~record.bytes;
  if (last.tick == 0 || last.bytes == 0) return;
  cells_.thin_others(cell, [&](const Record& old) {
    return (old.bytes & ~record.bytes) == 0 && stands_for(record, old, accessor);
  });
  cells_.add_other(cell, last, /*synced=*/0);
}

// --- Threads

void GlobalRaceShadow::read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                            const MemoryOrder& order) {
  const Accessor accessor = accessor_of(point);
  Record record = record_of(accessor, point, order);
  const Record* const logged = order.strong ? nullptr : &record;
  cells_.for_each(address, bytes, logged, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    if (const Record* other = conflict(cell, mask, Access::kRead, accessor, order))
      refuse(Access::kRead, at, nullptr, *other, point);
    if (!order.updates) cells_.add_other(cell, record, accessor.clock->synced());
  });
  if (order.strong) meetings_.read(address, bytes, accessor, order);
}

void GlobalRaceShadow::write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                             const MemoryOrder& order) {
  const Accessor accessor = accessor_of(point);
  accessor.clock->note_write(accessor.lane, FencedSpace::kGlobal);
  Record record = record_of(accessor, point, order);
  record.wrote = true;
  cells_.for_each(address, bytes, /*logged=*/nullptr, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    // Lanes may write the same place in one instruction: one of them wins.
    const bool together = cell.write.together(record) && cell.write.pc == record.pc;
    const Record* other = conflict(cell, mask, Access::kWrite, accessor, order, together);
    if (other != nullptr) refuse(Access::kWrite, at, nullptr, *other, point);
    set_writer(cell, record, accessor);
  });
  if (order.strong)
    meetings_.write(address, bytes, accessor, order);
  else
    cells_.join_lines(address, bytes);
}

// --- Asynchronous operations

void GlobalRaceShadow::begin(FlightId id) { operations_.resize(id); }

void GlobalRaceShadow::access(FlightId operation, Access access, std::uint64_t address, std::uint32_t bytes,
                              const char* what, const ProgramPoint& point, bool reduces) {
  const bool writes = access == Access::kWrite;
  const Accessor accessor = accessor_of(point);
  const MemoryOrder& order = reduces ? kReduction : kWeak;
  operations_[operation - 1].what = what;
  Record record = record_of(accessor, point, order);
  record.tick = static_cast<std::uint32_t>(operation);
  record.operation = true;
  record.wrote = writes;
  const Record* const logged = writes ? nullptr : &record;
  cells_.for_each(address, bytes, logged, [&](Cell& cell, std::uint8_t mask, std::uint64_t at) {
    record.bytes = mask;
    if (const Record* other = conflict(cell, mask, access, accessor, order))
      refuse(access, at, what, *other, point);
    if (writes) return set_writer(cell, record, accessor);
    if (const Record* w = unfenced(cell, mask, accessor))
      fail_at(
          ErrorKind::kMissingFence, point, at,
          fmt::format("{} reads {}, which a thread of this grid wrote without fence.proxy.async behind it",
                      what, place(at)),
          fmt::format("it was written by {}", describe(*w)));
    cells_.add_other(cell, record, /*synced=*/0);
  });
  if (writes && !reduces) cells_.join_lines(address, bytes);
}

void GlobalRaceShadow::end(FlightId operation, const Epoch& event) {
  Epoch& completion = operations_[operation - 1].completion;
  if (completion.tick == 0) completion = event;
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
