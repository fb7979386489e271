#include "simulator/global_race_cells.h"

namespace jfa::simulator {

// --- Cells

void GlobalRaceCells::add_other(Cell& cell, const Record& record, std::uint32_t synced) {
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
    // Of operations: what one thread stores in bulk ends in order.
    const bool implied = record.operation ? record.wrote && old.lanes == record.lanes
                                          : old.lanes == record.lanes || old.tick <= synced;
    if (!implied || (old.bytes & ~record.bytes) != 0) return false;
    old = record;
    return true;
  };
  if (cell.others == 0) {
    if (merge(cell.other)) return;
    take_list(cell);
    list(cell).push_back(cell.other);
  }
  for (Record& old : list(cell))
    if (merge(old)) return;
  list(cell).push_back(record);
}

// Gives the cell an empty list.
void GlobalRaceCells::take_list(Cell& cell) {
  if (free_others_.empty()) {
    others_.emplace_back();
    free_others_.push_back(static_cast<std::uint32_t>(others_.size()));
  }
  cell.others = free_others_.back();
  free_others_.pop_back();
}

void GlobalRaceCells::forget_others(Cell& cell) {
  cell.other = Record{};
  if (cell.others == 0) return;
  list(cell).clear();
  free_others_.push_back(std::exchange(cell.others, 0));
}

// --- Places

GlobalRaceCells::Page& GlobalRaceCells::page(std::uint64_t address) {
  const std::uint64_t number = address / kPageBytes;
  if (last_page_ == nullptr || number != last_number_) {
    last_number_ = number;
    last_page_ = &pages_[number];
  }
  return *last_page_;
}

void GlobalRaceCells::make_lines(Page& page) {
  page.lines = std::make_unique<Lines>();
  logged_ -= page.reads.size();
  page.reads.take([&](std::uint32_t offset, std::uint32_t bytes, Record record) {
    for_each_in(page, offset, offset + bytes, [&](Cell& cell, std::uint8_t mask, std::uint64_t) {
      record.bytes = mask;
      add_other(cell, record, /*synced=*/0);
    });
  });
}

void GlobalRaceCells::log_read(Page& page, std::uint64_t address, std::uint32_t bytes, const Record& record) {
  if (logged_ >= kMostLogged) return;
  logged_ -= page.reads.size();
  page.reads.add(static_cast<std::uint32_t>(address % kPageBytes), bytes, record);
  logged_ += page.reads.size();
}

// The cells of the line take over what it has.
void GlobalRaceCells::split(Line& line) {
  if (line.parts != nullptr) return;
  line.parts = std::make_unique<Parts>();
  for (Cell& part : *line.parts) {
    part.write = line.whole.write;
    part.other = line.whole.other;
    if (line.whole.others == 0) continue;
    take_list(part);
    list(part) = list(line.whole);
  }
  forget_others(line.whole);
  line.whole = Cell{};
}

void GlobalRaceCells::join_lines(std::uint64_t address, std::uint32_t bytes) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = (address + kLineBytes - 1) / kLineBytes * kLineBytes; at + kLineBytes <= end;
       at += kLineBytes) {
    Line& line = page(at).line(at);
    if (line.parts == nullptr) continue;
    line.whole.write = line.parts->front().write;  // that of all of them, and none has others
    line.parts.reset();
  }
}

}  // namespace jfa::simulator
