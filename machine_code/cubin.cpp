#include "machine_code/cubin.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "machine_code/instruction.h"
#include "machine_code/line_table.h"

namespace jfa::machine_code {
namespace {

// ELF of 64 bits, little endian, as far as it is needed here.
constexpr std::string_view kMagic{"\177ELF\2\1\1", 7};
constexpr std::size_t kMachineAt = 0x12, kSectionsAt = 0x28, kFlagsAt = 0x30, kSectionBytesAt = 0x3a;
constexpr std::uint16_t kCudaMachine = 190;
constexpr std::size_t kSectionBytes = 64;
constexpr std::string_view kTextPrefix = ".text.";
constexpr std::string_view kInfoPrefix = ".nv.info.";
constexpr std::uint32_t kNoBits = 8;

// Lines of the PTX: the program, and the relocations that say which entry a sequence of it is about.
constexpr std::string_view kLinesName = ".nv_debug_line_sass";
constexpr std::string_view kLineRelocationsName = ".rela.nv_debug_line_sass";
constexpr std::string_view kSymbolsName = ".symtab";
constexpr std::size_t kRelocationBytes = 24, kSymbolBytes = 24, kSymbolSectionAt = 6;

// Attributes of an entry: a format, a number and a size or a value, then as many bytes as the size says.
constexpr std::uint8_t kSizedAttribute = 4;
constexpr std::uint8_t kIndirectBranches = 0x34;

struct Section {
  std::string_view name;
  std::string_view bytes;
  std::size_t offset = 0;
};

// Bytes of a file, which says where it ends.
class Reader {
 public:
  Reader(std::string_view where, std::string_view bytes) : where_(where), bytes_(bytes) {}

  Status error(std::size_t offset, std::string_view what) const {
    return Status::invalid_argument(fmt::format("{}: offset {}: {}", where_, offset, what));
  }

  Result<std::string_view> range(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      return error(offset, fmt::format("{} of {} bytes, the file ends after {}", what, size, bytes_.size()));
    return bytes_.substr(offset, size);
  }

 private:
  std::string_view where_;
  std::string_view bytes_;
};

template <class Value>
Value at(std::string_view bytes, std::size_t offset) {
  static_assert(std::is_unsigned_v<Value>);
  Value value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Result<std::vector<Section>> read_sections(const Reader& file, std::string_view header) {
  const auto table_begin = at<std::uint64_t>(header, kSectionsAt);
  const auto bytes_each = at<std::uint16_t>(header, kSectionBytesAt);
  const auto count = at<std::uint16_t>(header, kSectionBytesAt + 2);
  const auto names_index = at<std::uint16_t>(header, kSectionBytesAt + 4);
  if (bytes_each != kSectionBytes)
    return file.error(kSectionBytesAt,
                      fmt::format("section headers of {} bytes, not of {}", bytes_each, kSectionBytes));
  const auto table = file.range(table_begin, count * kSectionBytes, "section headers");
  if (!table) return table.status();
  if (names_index >= count)
    return file.error(kSectionBytesAt + 4, fmt::format("no section {} for names", names_index));

  std::vector<Section> sections;
  const auto bytes_of = [&](std::size_t index) -> Result<Section> {
    const std::string_view entry = table->substr(index * kSectionBytes, kSectionBytes);
    if (at<std::uint32_t>(entry, 4) == kNoBits) return Section{};
    const auto offset = at<std::uint64_t>(entry, 24);
    const auto bytes = file.range(offset, at<std::uint64_t>(entry, 32), fmt::format("section {}", index));
    if (!bytes) return bytes.status();
    return Section{{}, *bytes, offset};
  };
  const Result<Section> names = bytes_of(names_index);
  if (!names) return names.status();
  for (std::size_t i = 0; i < count; ++i) {
    Result<Section> section = bytes_of(i);
    if (!section) return section.status();
    const auto name_begin = at<std::uint32_t>(*table, i * kSectionBytes);
    const std::size_t name_end =
        name_begin < names->bytes.size() ? names->bytes.find('\0', name_begin) : std::string_view::npos;
    if (name_end == std::string_view::npos)
      return file.error(table_begin + i * kSectionBytes, fmt::format("section {} has no name", i));
    section->name = names->bytes.substr(name_begin, name_end - name_begin);
    sections.push_back(*section);
  }
  return sections;
}

Result<IndirectTargets> read_indirect_targets(const Reader& file, const Section& info) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  IndirectTargets targets;
  std::size_t next = 0;
  while (next + kWord <= info.bytes.size()) {
    const auto format = at<std::uint8_t>(info.bytes, next);
    const auto number = at<std::uint8_t>(info.bytes, next + 1);
    const std::size_t size = format == kSizedAttribute ? at<std::uint16_t>(info.bytes, next + 2) : 0;
    next += kWord;
    if (size > info.bytes.size() - next)
      return file.error(info.offset + next, fmt::format("attribute {:#x} of {} bytes", number, size));
    if (format == kSizedAttribute && number == kIndirectBranches) {
      // A branch's address, a zero, how many targets, and those.
      const std::string_view list = info.bytes.substr(next, size);
      for (std::size_t i = 0; i + 3 * kWord <= list.size();) {
        auto& of_branch = targets[at<std::uint32_t>(list, i)];
        const std::size_t count = at<std::uint32_t>(list, i + 2 * kWord);
        i += 3 * kWord;
        if (count > (list.size() - i) / kWord)
          return file.error(info.offset + next + i - kWord, fmt::format("a branch with {} targets", count));
        for (std::size_t k = 0; k < count; ++k, i += kWord) of_branch.push_back(at<std::uint32_t>(list, i));
      }
    }
    next += size;
  }
  return targets;
}

const Section* find(const std::vector<Section>& sections, std::string_view name) {
  for (const Section& section : sections)
    if (section.name == name) return &section;
  return nullptr;
}

// The section that the relocation at an offset of the line program points into; nullptr: there is none.
const Section* relocated_section(const std::vector<Section>& sections, std::size_t offset) {
  const Section* relocations = find(sections, kLineRelocationsName);
  const Section* symbols = find(sections, kSymbolsName);
  if (relocations == nullptr || symbols == nullptr) return nullptr;
  for (std::size_t i = 0; i + kRelocationBytes <= relocations->bytes.size(); i += kRelocationBytes) {
    if (at<std::uint64_t>(relocations->bytes, i) != offset) continue;
    const std::uint64_t symbol = at<std::uint64_t>(relocations->bytes, i + 8) >> 32;
    if ((symbol + 1) * kSymbolBytes > symbols->bytes.size()) return nullptr;
    const auto index = at<std::uint16_t>(symbols->bytes, symbol * kSymbolBytes + kSymbolSectionAt);
    return index < sections.size() ? &sections[index] : nullptr;
  }
  return nullptr;
}

Status add_lines(const Reader& file, const std::vector<Section>& sections, Cubin& cubin) {
  const Section* lines = find(sections, kLinesName);
  if (lines == nullptr) return {};
  const Result<std::vector<LineSequence>> sequences = read_line_program(lines->bytes);
  if (!sequences) return file.error(lines->offset, sequences.status().message());
  for (const LineSequence& sequence : *sequences) {
    const Section* text = relocated_section(sections, sequence.relocated_at);
    for (CubinEntry& entry : cubin.entries)
      if (text != nullptr && entry.offset == text->offset)
        entry.ptx_lines = lines_of(sequence, entry.code.size() / kInstructionBytes);
  }
  return {};
}

}  // namespace

Result<Cubin> read_cubin(std::string_view where, std::string_view bytes) {
  const Reader file(where, bytes);
  if (bytes.substr(0, kMagic.size()) != kMagic) return file.error(0, "not an ELF file of 64 bits");
  const auto header = file.range(0, 64, "the ELF header");
  if (!header) return header.status();
  const auto machine = at<std::uint16_t>(*header, kMachineAt);
  if (machine != kCudaMachine)
    return file.error(kMachineAt, fmt::format("machine {}, a cubin has {}", machine, kCudaMachine));
  const Result<std::vector<Section>> sections = read_sections(file, *header);
  if (!sections) return sections.status();

  Cubin cubin;
  cubin.compute_capability = static_cast<int>(at<std::uint32_t>(*header, kFlagsAt) >> 8 & 0xff);
  for (const Section& section : *sections) {
    if (!section.name.starts_with(kTextPrefix)) continue;
    if (section.bytes.size() % kInstructionBytes != 0 ||
        section.bytes.size() > std::numeric_limits<std::uint32_t>::max())
      return file.error(section.offset, fmt::format("section '{}' of {} bytes is not made of instructions",
                                                    section.name, section.bytes.size()));
    CubinEntry entry{
        std::string(section.name.substr(kTextPrefix.size())), section.bytes, section.offset, {}, {}};
    for (const Section& info : *sections) {
      if (!info.name.starts_with(kInfoPrefix) || info.name.substr(kInfoPrefix.size()) != entry.name) continue;
      Result<IndirectTargets> targets = read_indirect_targets(file, info);
      if (!targets) return targets.status();
      entry.indirect = std::move(*targets);
    }
    cubin.entries.push_back(std::move(entry));
  }
  if (cubin.entries.empty()) return file.error(0, "a cubin without code");
  if (Status status = add_lines(file, *sections, cubin); !status.ok()) return status;
  return cubin;
}

}  // namespace jfa::machine_code
