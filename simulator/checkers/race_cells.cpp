#include "simulator/checkers/race_cells.h"

namespace jfa::simulator {

RaceCells::RaceCells(std::uint32_t size_bytes)
    : first_line_((size_bytes / kLineBytes + 1) * (kLineBytes / kCellBytes)),
      blocks_(size_bytes / kBlockBytes + 1) {
  const std::size_t cells = std::size_t{first_line_} + size_bytes / kLineBytes + 1;
  writes_.reset(static_cast<Record*>(std::calloc(cells, sizeof(Record))));
  using Place = OtherRecords<Record>::Place;
  places_.reset(static_cast<Place*>(std::calloc(cells, sizeof(Place))));
}

void RaceCells::forget_others(Cell cell) {
  if (!writes_[cell].has_others) return;
  writes_[cell].has_others = false;
  others_.forget(places_[cell]);
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
    others_.copy(places_[line], places_[c]);
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
