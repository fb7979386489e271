// Who has accessed which bytes of a CTA's shared memory since they were last written. Kept for lines of 16
// bytes as long as every access is of whole ones, else for the cells of four bytes of a line: a line has a
// cell of its own, behind all the others, which is used until somebody accesses a part of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "simulator/checkers/other_records.h"
#include "simulator/machine/vector_clock.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

class RaceCells {
 public:
  using Cell = std::uint32_t;
  static constexpr std::uint8_t kWholeCell = 0xf;

  /// Accesses of some lanes of a warp in one tick; or of an engine, with no lanes.
  struct Record {
    std::uint32_t tick = 0;  // 0: none
    LaneMask lanes = 0;
    std::uint32_t pc = 0;
    Strand strand = 0;
    std::uint8_t bytes : 4 = 0;  // a bit each, or all four for a line
    bool strong : 1 = false;
    bool generic : 1 = true;
    bool wrote : 1 = false;       // among the others: a writer of bytes that the last one did not write
    bool has_others : 1 = false;  // of a cell's last write: the cell has other records
    Epoch event() const { return {strand, tick, lanes}; }
    bool same_kind(const Record& other) const {
      return strand == other.strand && strong == other.strong && wrote == other.wrote;
    }
    bool stands_for_earlier(const Record& old, std::uint32_t synced) const {
      return old.lanes == lanes || old.tick <= synced;
    }
  };

  explicit RaceCells(std::uint32_t size_bytes);

  // --- A cell.
  Record& last_write(Cell cell) { return writes_[cell]; }
  const Record& last_write(Cell cell) const { return writes_[cell]; }
  /// The first of the others, readers since and older writers of some bytes, that `matches`, or null.
  template <class Matches>
  const Record* find_other(Cell cell, Matches matches) const {
    return writes_[cell].has_others ? others_.find(places_[cell], matches) : nullptr;
  }
  /// A reader, or a writer that is not the last. `synced`: see OtherRecords.
  void add_other(Cell cell, const Record& record, std::uint32_t synced) {
    writes_[cell].has_others = true;
    others_.add(places_[cell], record, synced);
  }
  void forget_others(Cell cell);
  /// Forgets what those of the others that match did to these bytes of the cell.
  template <class Matches>
  void cut_others(Cell cell, std::uint8_t bytes, Matches matches) {
    if (writes_[cell].has_others) others_.cut(places_[cell], bytes, matches);
  }

  // --- Places.
  /// The cell that has the record of the byte.
  Cell cell_of(std::uint32_t offset) const {
    return is_split(block(offset), offset) ? offset / kCellBytes : line_cell(offset);
  }
  std::uint32_t offset_of(Cell cell) const {
    return cell < first_line_ ? cell * kCellBytes : (cell - first_line_) * kLineBytes;
  }
  /// Calls visit(cell, bytes, offset) for the cells of an access: lines, where it is of whole ones. `parts`:
  /// lines are split all the same.
  template <class Visit>
  void for_each(std::uint32_t offset, std::uint32_t bytes, bool parts, Visit visit);
  /// The same for cells that may have records, until visit returns false. Returns whether none did.
  template <class Visit>
  bool for_each_used(std::uint32_t offset, std::uint32_t bytes, Visit visit) const;
  /// After a write: lines that it wrote as a whole are lines again.
  void join_lines(std::uint32_t offset, std::uint32_t bytes);
  void forget(std::uint32_t offset, std::uint32_t bytes);

 private:
  static constexpr std::uint32_t kCellBytes = 4;
  static constexpr std::uint32_t kLineBytes = 16;
  static constexpr std::uint32_t kBlockBytes = 256;

  struct Block {
    std::uint16_t split = 0;  // a bit a line: its cells of four bytes are used
    bool used = false;        // some cell has records
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using ZeroPages = std::unique_ptr<T[], Free>;  // which cost nothing until they are used

  Block& block(std::uint32_t offset) { return blocks_[offset / kBlockBytes]; }
  const Block& block(std::uint32_t offset) const { return blocks_[offset / kBlockBytes]; }
  static std::uint16_t line_bit(std::uint32_t offset) {
    return static_cast<std::uint16_t>(1u << offset % kBlockBytes / kLineBytes);
  }
  static bool is_split(const Block& block, std::uint32_t offset) {
    return (block.split & line_bit(offset)) != 0;
  }
  Cell line_cell(std::uint32_t offset) const { return first_line_ + offset / kLineBytes; }
  /// The part of [offset, end) that lies in the four bytes from `first` on.
  static std::uint8_t bytes_in(std::uint32_t first, std::uint32_t offset, std::uint32_t end) {
    const std::uint32_t from = std::max(offset, first) - first;
    const std::uint32_t to = std::min(end, first + kCellBytes) - first;
    return static_cast<std::uint8_t>((1u << to) - (1u << from));
  }
  void split(std::uint32_t offset);
  void forget_cell(Cell cell);

  const Cell first_line_;
  // By cell. Apart, so that who only writes need not touch the others.
  ZeroPages<Record> writes_;
  ZeroPages<OtherRecords<Record>::Place> places_;
  OtherRecords<Record> others_;
  std::vector<Block> blocks_;
};

template <class Visit>
void RaceCells::for_each(std::uint32_t offset, std::uint32_t bytes, bool parts, Visit visit) {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t at = offset; at < end;) {
    Block& lines = block(at);
    lines.used = true;
    if (!parts && at % kLineBytes == 0 && end - at >= kLineBytes && !is_split(lines, at)) {
      visit(line_cell(at), kWholeCell, at);
      at += kLineBytes;
      continue;
    }
    split(at);
    const std::uint32_t first = at / kCellBytes * kCellBytes;
    visit(first / kCellBytes, bytes_in(first, offset, end), at);
    at = first + kCellBytes;
  }
}

template <class Visit>
bool RaceCells::for_each_used(std::uint32_t offset, std::uint32_t bytes, Visit visit) const {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t at = offset; at < end;) {
    const Block& lines = block(at);
    if (!lines.used) {
      at = (at / kBlockBytes + 1) * kBlockBytes;
    } else if (is_split(lines, at)) {
      const std::uint32_t first = at / kCellBytes * kCellBytes;
      if (!visit(first / kCellBytes, bytes_in(first, offset, end), at)) return false;
      at = first + kCellBytes;
    } else {
      if (!visit(line_cell(at), kWholeCell, at)) return false;
      at = (at / kLineBytes + 1) * kLineBytes;
    }
  }
  return true;
}

}  // namespace jfa::simulator
