#include "tests/lint/code.h"

#include <algorithm>
#include <cstring>

namespace jfa::test {
namespace {

constexpr std::uint64_t kAlways = 7;
constexpr std::uint64_t kNobody = 7;  // no scoreboard

template <class Value>
void append(std::string& bytes, Value value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_section(std::string& table, std::uint32_t name, std::uint32_t type, std::size_t offset,
                    std::size_t size) {
  append(table, name);
  append(table, type);
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{offset}, std::uint64_t{size}})
    append(table, value);
  table.append(24, '\0');
}

}  // namespace

Bits instruction(unsigned opcode, unsigned stall) {
  return {opcode | kAlways << 12, kAlways << 23 | std::uint64_t{stall} << 41 | kNobody << 46 | kNobody << 49};
}

Bits guarded(Bits bits, unsigned predicate) {
  bits.low = (bits.low & ~(kAlways << 12)) | std::uint64_t{predicate} << 12;
  return bits;
}

Bits writes(Bits bits, unsigned scoreboard) {
  bits.high = (bits.high & ~(kNobody << 46)) | std::uint64_t{scoreboard} << 46;
  return bits;
}

Bits waits_for(Bits bits, unsigned scoreboard) {
  bits.high |= std::uint64_t{1} << (52 + scoreboard);
  return bits;
}

Bits branch(int from, int to) {
  const auto words = static_cast<std::uint64_t>(std::int64_t{to - from - 1} * 4);  // of 4 bytes
  Bits bits = instruction(0x947);
  bits.low |= (words & 0xff) << 16 | words >> 8 << 34;
  bits.high |= words >> 8 >> 30 & 0x3ffff;
  return bits;
}

Bits exponential() {
  Bits bits = instruction(0x308, 8);
  bits.high |= std::uint64_t{2} << 10;
  return bits;
}

std::string cubin_of(const std::vector<CodeEntry>& entries) {
  std::string names(1, '\0');
  std::string contents;
  std::string table;
  const std::size_t header_bytes = 64;
  const auto add = [&](const std::string& name, std::uint32_t type, const std::string& bytes) {
    append_section(table, static_cast<std::uint32_t>(names.size()), type, header_bytes + contents.size(),
                   bytes.size());
    names += name + '\0';
    contents += bytes;
  };
  add("", 0, "");
  for (const CodeEntry& entry : entries) {
    std::string code;
    for (const Bits& bits : entry.code) append(code, bits.low), append(code, bits.high);
    add(".text." + entry.name, 1, code);
    std::string list;
    for (const auto& [at, targets] : entry.indirect) {
      for (const std::size_t value : {std::size_t{at}, std::size_t{0}, targets.size()})
        append(list, static_cast<std::uint32_t>(value));
      for (const std::uint32_t target : targets) append(list, target);
    }
    std::string info{"\x03\x1b\xff\0", 4};  // some attribute without bytes of its own
    info += "\x04\x34";
    append(info, static_cast<std::uint16_t>(list.size()));
    add(".nv.info." + entry.name, 0x70000000, info + list);
  }
  add(".shstrtab", 3, "");
  const auto sections = static_cast<std::uint16_t>(table.size() / 64);
  // The names end the file's contents, which only now are complete.
  table.resize(table.size() - 64);
  append_section(table, static_cast<std::uint32_t>(names.size() - std::strlen(".shstrtab") - 1), 3,
                 header_bytes + contents.size(), names.size());
  contents += names;

  std::string file{"\177ELF\2\1\1\x41\x08", 9};
  file.resize(16, '\0');
  append(file, std::uint16_t{2});
  append(file, std::uint16_t{190});
  append(file, std::uint32_t{1});
  append(file, std::uint64_t{0});
  append(file, std::uint64_t{0});
  append(file, std::uint64_t{header_bytes + contents.size()});
  append(file, std::uint32_t{0x6006402});
  for (const unsigned value : {64u, 56u, 0u, 64u, unsigned{sections}, unsigned{sections} - 1})
    append(file, static_cast<std::uint16_t>(value));
  return file + contents + table;
}

}  // namespace jfa::test
