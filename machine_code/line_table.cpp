#include "machine_code/line_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "machine_code/instruction.h"

namespace jfa::machine_code {
namespace {

// Standard opcodes of DWARF 2, and the extended ones that matter.
enum Standard : std::uint8_t {
  kCopy = 1,
  kAdvanceAddress = 2,
  kAdvanceLine = 3,
  kConstantAddress = 8,
  kFixedAddress = 9,
};
enum Extended : std::uint8_t { kEndSequence = 1, kSetAddress = 2 };
constexpr std::size_t kHeaderBytes = 10;  // length, version, length of the rest
constexpr std::uint8_t kSpecialByConvention = 255;

// Bytes of the section, which says where it ends.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ >= bytes_.size(); }
  bool failed() const { return failed_; }
  std::size_t at() const { return at_; }
  void move_to(std::size_t at) { failed_ |= at > bytes_.size(), at_ = std::min(at, bytes_.size()); }

  template <class Value>
  Value take() {
    Value value{};
    if (bytes_.size() - at_ < sizeof(Value)) {
      failed_ = true;
      at_ = bytes_.size();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::uint64_t take_unsigned() { return take_leb(false); }
  std::int64_t take_signed() { return static_cast<std::int64_t>(take_leb(true)); }

 private:
  std::uint64_t take_leb(bool is_signed) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) != 0) continue;
      if (is_signed && (byte & 0x40) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return value;
    }
    failed_ = true;
    return value;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

struct Prologue {
  std::uint8_t least_bytes = 1;
  std::int8_t line_base = 0;
  std::uint8_t line_range = 1;
  std::uint8_t opcode_base = 1;
  std::vector<std::uint8_t> operands;  // of the standard opcodes
};

class Program {
 public:
  Program(Cursor& cursor, const Prologue& prologue) : cursor_(cursor), prologue_(prologue) {}

  void run(std::size_t end, std::vector<LineSequence>& sequences) {
    while (cursor_.at() < end && !cursor_.failed()) {
      const auto opcode = cursor_.take<std::uint8_t>();
      if (opcode >= prologue_.opcode_base)
        special(opcode);
      else if (opcode == 0)
        extended(sequences);
      else
        standard(opcode);
    }
  }

 private:
  void advance_address(std::uint64_t by) {
    address_ += static_cast<std::uint32_t>(by) * prologue_.least_bytes;
  }
  void append() { sequence_.rows.push_back({address_, line_}); }

  void special(std::uint8_t opcode) {
    const int adjusted = opcode - prologue_.opcode_base;
    advance_address(static_cast<std::uint64_t>(adjusted / prologue_.line_range));
    line_ += prologue_.line_base + adjusted % prologue_.line_range;
    append();
  }

  void standard(std::uint8_t opcode) {
    switch (opcode) {
      case kCopy:
        return append();
      case kAdvanceAddress:
        return advance_address(cursor_.take_unsigned());
      case kAdvanceLine:
        line_ += static_cast<int>(cursor_.take_signed());
        return;
      case kConstantAddress:
        return advance_address(static_cast<std::uint64_t>((kSpecialByConvention - prologue_.opcode_base) /
                                                          prologue_.line_range));
      case kFixedAddress:
        address_ += cursor_.take<std::uint16_t>();
        return;
      default:  // it says nothing of lines or addresses
        for (int i = 0; i < prologue_.operands[opcode - 1u]; ++i) cursor_.take_unsigned();
    }
  }

  void extended(std::vector<LineSequence>& sequences) {
    const std::uint64_t size = cursor_.take_unsigned();
    const std::size_t begin = cursor_.at();
    const auto opcode = cursor_.take<std::uint8_t>();
    if (opcode == kSetAddress) {
      sequence_.relocated_at = cursor_.at();
      address_ = static_cast<std::uint32_t>(cursor_.take<std::uint64_t>());
    } else if (opcode == kEndSequence) {
      std::stable_sort(sequence_.rows.begin(), sequence_.rows.end(),
                       [](const LineRow& a, const LineRow& b) { return a.address < b.address; });
      sequences.push_back(std::move(sequence_));
      sequence_ = {};
      address_ = 0;
      line_ = 1;
    }
    cursor_.move_to(begin + size);
  }

  Cursor& cursor_;
  const Prologue& prologue_;
  LineSequence sequence_;
  std::uint32_t address_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<LineSequence>> read_line_program(std::string_view section) {
  std::vector<LineSequence> sequences;
  Cursor cursor(section);
  while (!cursor.done()) {
    const std::size_t begin = cursor.at();
    const auto error = [&](std::string_view what) {
      return Status::invalid_argument(fmt::format("line program at {}: {}", begin, what));
    };
    const auto length = cursor.take<std::uint32_t>();
    const auto version = cursor.take<std::uint16_t>();
    const auto prologue_length = cursor.take<std::uint32_t>();
    const std::size_t end = begin + sizeof(length) + length;
    if (cursor.failed() || version != 2 || end > section.size()) return error("not one of DWARF 2");
    Prologue prologue;
    prologue.least_bytes = cursor.take<std::uint8_t>();
    cursor.take<std::uint8_t>();  // whether rows begin statements
    prologue.line_base = cursor.take<std::int8_t>();
    prologue.line_range = cursor.take<std::uint8_t>();
    prologue.opcode_base = cursor.take<std::uint8_t>();
    if (prologue.line_range == 0 || prologue.opcode_base == 0) return error("a prologue of zeros");
    for (int i = 1; i < prologue.opcode_base; ++i) prologue.operands.push_back(cursor.take<std::uint8_t>());
    cursor.move_to(begin + kHeaderBytes + prologue_length);
    Program(cursor, prologue).run(end, sequences);
    if (cursor.failed()) return error("it ends in an operand");
    cursor.move_to(end);
  }
  return sequences;
}

std::vector<int> lines_of(const LineSequence& sequence, std::size_t count) {
  std::vector<int> lines(count);
  for (std::size_t row = 0; row < sequence.rows.size(); ++row) {
    const std::size_t first = sequence.rows[row].address / kInstructionBytes;
    const std::size_t last =
        row + 1 < sequence.rows.size() ? sequence.rows[row + 1].address / kInstructionBytes : count;
    for (std::size_t i = first; i < std::min(last, count); ++i) lines[i] = sequence.rows[row].line;
  }
  return lines;
}

}  // namespace jfa::machine_code
