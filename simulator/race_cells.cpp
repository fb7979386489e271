#include "simulator/race_cells.h"

namespace jfa::simulator {

RaceCells::RaceCells(std::uint32_t size_bytes)
    : first_line_((size_bytes / kLineBytes + 1) * (kLineBytes / kCellBytes)),
      blocks_(size_bytes / kBlockBytes + 1) {
  const std::size_t cells = std::size_t{first_line_} + size_bytes / kLineBytes + 1;
  writes_.reset(static_cast<Record*>(std::calloc(cells, sizeof(Record))));
  others_.reset(static_cast<Others*>(std::calloc(cells, sizeof(Others))));
}

void RaceCells::add_other(Cell cell, const Record& record, std::uint32_t synced) {
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
    const bool implied = old.lanes == record.lanes || old.tick <= synced;
    if (!implied || (old.bytes & ~record.bytes) != 0) return false;
    old = record;
    return true;
  };
  writes_[cell].has_others = true;
  Others& others = others_[cell];
  if (others.more == 0) {
    if (merge(others.first)) return;
    others.more = take_more();
    more_others_[others.more - 1].push_back(others.first);
  }
  std::vector<Record>& more = more_others_[others.more - 1];
  for (Record& old : more)
    if (merge(old)) return;
  more.push_back(record);
}

// Index + 1 of an empty list.
std::uint32_t RaceCells::take_more() {
  if (free_more_.empty()) {
    more_others_.emplace_back();
    return static_cast<std::uint32_t>(more_others_.size());
  }
  const std::uint32_t taken = free_more_.back();
  free_more_.pop_back();
  return taken;
}

void RaceCells::forget_others(Cell cell) {
  if (!writes_[cell].has_others) return;
  writes_[cell].has_others = false;
  Others& others = others_[cell];
  others.first = {};
  if (others.more == 0) return;
  more_others_[others.more - 1].clear();
  free_more_.push_back(others.more);
  others.more = 0;
}

void RaceCells::forget_cell(Cell cell) {
  forget_others(cell);
  writes_[cell] = {};
}

// The cells of the line take over what it has.
void RaceCells::split(std::uint32_t offset) {
  Block& lines = block(offset);
  if (is_split(lines, offset)) return;
  lines.split |= line_bit(offset);
  const Cell line = line_cell(offset), first = offset / kLineBytes * (kLineBytes / kCellBytes);
  if (writes_[line].tick == 0 && !writes_[line].has_others) return;
  for (Cell c = first; c < first + kLineBytes / kCellBytes; ++c) {
    writes_[c] = writes_[line];
    others_[c].first = others_[line].first;
    if (others_[line].more == 0) continue;
    others_[c].more = take_more();
    more_others_[others_[c].more - 1] = more_others_[others_[line].more - 1];
  }
  forget_cell(line);
}

void RaceCells::join_lines(std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t at = (offset + kLineBytes - 1) / kLineBytes * kLineBytes; at + kLineBytes <= end;
       at += kLineBytes) {
    if (!is_split(block(at), at)) continue;
    Record* const cells = &writes_[at / kCellBytes];  // which have the same, and no others
    writes_[line_cell(at)] = *cells;
    std::fill_n(cells, kLineBytes / kCellBytes, Record{});
    block(at).split &= static_cast<std::uint16_t>(~line_bit(at));
  }
}

void RaceCells::forget(std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t end = offset + bytes;
  for (const std::uint32_t edge : {offset, end})
    if (edge % kLineBytes != 0) split(edge);
  for_each_used(offset, bytes, [&](Cell cell, std::uint8_t mask, std::uint32_t) {
    if (mask == kWholeCell) forget_cell(cell);
    return true;
  });
  for (std::uint32_t b = (offset + kBlockBytes - 1) / kBlockBytes; b < end / kBlockBytes; ++b)
    blocks_[b] = {};
}

}  // namespace jfa::simulator
