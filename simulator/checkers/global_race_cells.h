// Who has accessed which bytes of global memory in one grid. Kept for lines of 64 bytes as long as every
// access is of whole ones, else for the cells of four bytes of a line; on pages that the grid has written or
// accessed strongly. Reads of others are only logged. Of these, which cost 28 bytes for a warp's load or a
// copy's rows of a page, the first eight million are remembered.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "simulator/checkers/global_access.h"
#include "simulator/checkers/global_read_log.h"
#include "simulator/checkers/other_records.h"

namespace jfa::simulator {

class GlobalRaceCells {
 public:
  using Record = GlobalAccess;
  static constexpr std::uint8_t kWholeCell = 0xf;

  /// The accesses that a later one may race with. Of a line, all are of the whole of it.
  struct Cell {
    Record write;  // the last one
    OtherRecords<Record>::Place others;
  };

  // --- A cell.
  /// The first of the others, readers and older writers, that `matches`, or null.
  template <class Matches>
  const Record* find_other(const Cell& cell, Matches matches) const {
    return others_.find(cell.others, matches);
  }
  /// A reader, or a writer that is not the last. `synced`: see OtherRecords.
  void add_other(Cell& cell, const Record& record, std::uint32_t synced) {
    others_.add(cell.others, record, synced);
  }
  /// Forgets others that match, if their list is about to grow.
  template <class Matches>
  void thin_others(Cell& cell, Matches matches) {
    others_.thin(cell.others, matches);
  }
  void forget_others(Cell& cell) { others_.forget(cell.others); }
  /// Forgets what those of the others that match did to these bytes of the cell.
  template <class Matches>
  void cut_others(Cell& cell, std::uint8_t bytes, Matches matches) {
    others_.cut(cell.others, bytes, matches);
  }

  // --- Places.
  /// Calls visit(cell, mask, address) for the cells of an access: lines, where it is of whole ones. `logged`:
  /// a weak read, which pages without cells log instead; null: they are given cells.
  template <class Visit>
  void for_each(std::uint64_t address, std::uint32_t bytes, const Record* logged, Visit visit);
  /// After a weak write: lines that it wrote as a whole are lines again.
  void join_lines(std::uint64_t address, std::uint32_t bytes);

 private:
  static constexpr std::uint32_t kCellBytes = 4;
  static constexpr std::uint32_t kLineBytes = 64;
  static constexpr std::uint32_t kPageBytes = 4096;
  static constexpr std::size_t kMostLogged = std::size_t{1} << 23;

  using Parts = std::array<Cell, kLineBytes / kCellBytes>;
  struct Line {
    Cell whole;
    std::unique_ptr<Parts> parts;  // which are used instead, if there are any
  };
  using Lines = std::array<Line, kPageBytes / kLineBytes>;
  struct Page {
    std::unique_ptr<Lines> lines;  // null until the grid writes it
    GlobalReadLog reads;           // until then
    Line& line(std::uint64_t address) { return (*lines)[address % kPageBytes / kLineBytes]; }
  };

  Page& page(std::uint64_t address);
  void make_lines(Page& page);
  void log_read(Page& page, std::uint64_t address, std::uint32_t bytes, const Record& record);
  void split(Line& line);
  template <class Visit>
  void for_each_in(Page& page, std::uint64_t begin, std::uint64_t end, Visit visit);

  std::unordered_map<std::uint64_t, Page> pages_;
  std::uint64_t last_number_ = 0;  // of the page looked for last
  Page* last_page_ = nullptr;
  std::size_t logged_ = 0;  // entries of the pages' logs
  OtherRecords<Record> others_;
};

template <class Visit>
void GlobalRaceCells::for_each_in(Page& page, std::uint64_t begin, std::uint64_t end, Visit visit) {
  for (std::uint64_t at = begin; at < end;) {
    Line& line = page.line(at);
    if (at % kLineBytes == 0 && end - at >= kLineBytes && line.parts == nullptr) {
      visit(line.whole, kWholeCell, at);
      at += kLineBytes;
      continue;
    }
    split(line);
    const std::uint64_t line_end = std::min(end, (at / kLineBytes + 1) * kLineBytes);
    while (at < line_end) {
      const std::uint64_t cell = at / kCellBytes * kCellBytes;
      const std::uint64_t last = std::min(line_end, cell + kCellBytes);
      const auto mask = static_cast<std::uint8_t>((1u << (last - cell)) - (1u << (at - cell)));
      visit((*line.parts)[cell % kLineBytes / kCellBytes], mask, at);
      at = last;
    }
  }
}

template <class Visit>
void GlobalRaceCells::for_each(std::uint64_t address, std::uint32_t bytes, const Record* logged,
                               Visit visit) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    Page& p = page(at);
    if (p.lines == nullptr && logged == nullptr) make_lines(p);
    if (p.lines == nullptr)
      log_read(p, at, static_cast<std::uint32_t>(page_end - at), *logged);
    else
      for_each_in(p, at, page_end, visit);
    at = page_end;
  }
}

}  // namespace jfa::simulator
