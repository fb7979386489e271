#include "simulator/checkers/global_race_cells.h"

namespace jfa::simulator {

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
    others_.copy(line.whole.others, part.others);
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
