#include "simulator/campaign/mutation.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "simulator/decode/instruction_table.h"
#include "simulator/ptx/ptx.h"

namespace jfa::simulator {
namespace {

bool begins_with_words(std::string_view opcode, std::string_view words) {
  return opcode.starts_with(words) && (opcode.size() == words.size() || opcode[words.size()] == '.');
}

bool has_modifier(std::string_view opcode, std::string_view modifier) {
  for (std::size_t dot = opcode.find('.'); dot != std::string_view::npos; dot = opcode.find('.', dot + 1))
    if (begins_with_words(opcode.substr(dot + 1), modifier)) return true;
  return false;
}

// A statement as written, to be written again with one thing changed.
class Writer {
 public:
  explicit Writer(const Statement& statement) : statement_(statement) {
    const std::string_view text = statement.text;
    const std::size_t opcode = text.find(statement.opcode);
    guard_ = text.substr(0, opcode);
    std::string_view rest = text.substr(opcode + statement.opcode.size());
    rest.remove_suffix(1);  // the semicolon
    int depth = 0;
    std::size_t from = 0;
    for (std::size_t i = 0; i <= rest.size(); ++i) {
      const char c = i < rest.size() ? rest[i] : ',';
      depth += (c == '[' || c == '{') - (c == ']' || c == '}');
      if (c != ',' || depth != 0) continue;
      operands_.emplace_back(rest.substr(from, i - from));
      from = i + 1;
    }
  }

  int count() const { return static_cast<int>(statement_.operands.size()); }
  const Operand& operand(int index) const { return statement_.operands[static_cast<std::size_t>(index)]; }

  /// Another instruction under the same guard.
  std::string guarded(std::string_view instruction) const {
    return fmt::format("{}{};", guard_, instruction);
  }

  /// Without the instruction; what it would have written is as if nobody had to wait.
  std::string deleted() const {
    if (count() == 0 || operand(0).kind != Operand::Kind::kRegister) return "";
    const Operand& result = operand(0);
    if (statement_.opcode.find("_wait") != std::string::npos)
      return guarded(fmt::format("setp.eq.u32 {}, 0, 0", result.name));
    if (statement_.opcode.starts_with("mbarrier.arrive"))
      return guarded(fmt::format("mov.b64 {}, 0", result.name));
    return "";
  }

  /// An arrival that releases, as one that does not.
  std::string relaxed() const {
    constexpr std::string_view kArrive = ".arrive", kRelease = ".release";
    std::string opcode = statement_.opcode;
    if (const std::size_t at = opcode.find(kRelease); at != std::string::npos)
      opcode.erase(at, kRelease.size());
    opcode.insert(opcode.find(kArrive) + kArrive.size(), ".relaxed");
    return guarded(opcode);
  }

  /// The operand put through `operation`, a two-operand instruction on .b32: "add.s32", 16.
  std::string changed(int index, std::string_view operation, std::int64_t by) const {
    const Operand& old = operand(index);
    if (old.kind == Operand::Kind::kInteger) {
      const auto step = static_cast<std::uint64_t>(by);
      const std::uint64_t value = operation == "xor.b32" ? old.value ^ step : old.value + step;
      return with_operand(index, std::to_string(static_cast<std::int64_t>(value)));
    }
    return fmt::format("{{ .reg .b32 %mutant; {} %mutant, {}, {}; {} }}", operation, old.name, by,
                       with_operand(index, "%mutant"));
  }

  std::string with_operand(int index, const std::string& text) const {
    std::string operands;
    const int total = std::max(count(), index + 1);
    for (int i = 0; i < total; ++i) {
      if (i > 0) operands += ",";
      const auto place = static_cast<std::size_t>(i);  // a text that does not load may lack operands
      operands += i == index ? " " + text : place < operands_.size() ? operands_[place] : " _";
    }
    return guarded(statement_.opcode + operands);
  }

 private:
  const Statement& statement_;
  std::string guard_;
  std::vector<std::string> operands_;
};

std::string amount(const CountOperand& rule, int by) {
  const char* direction = by > 0 ? "more" : "fewer";
  return rule.bytes ? fmt::format("{} bytes {}", std::abs(by), direction) : fmt::format("count {:+}", by);
}

void add_mutants(const Statement& statement, const Synchronisation& rule, std::size_t site,
                 std::vector<Mutant>& mutants) {
  const Writer writer(statement);
  mutants.push_back({site, "deleted", writer.deleted()});
  if (has_modifier(statement.opcode, "parity") && writer.count() > 2)
    mutants.push_back({site, "parity flipped", writer.changed(2, "xor.b32", 1)});
  if (statement.opcode.starts_with("barrier.cluster.arrive") && !has_modifier(statement.opcode, "relaxed"))
    mutants.push_back({site, "relaxed", writer.relaxed()});
  const CountOperand& count = rule.count;
  if (count.operand < 0) return;
  if (count.operand >= writer.count()) {
    if (count.optional)
      mutants.push_back({site, amount(count, count.step),
                         writer.with_operand(count.operand, std::to_string(1 + count.step))});
    return;
  }
  if (count.bytes) mutants.push_back({site, "no bytes", writer.with_operand(count.operand, "0")});
  mutants.push_back({site, amount(count, count.step), writer.changed(count.operand, "add.s32", count.step)});
  if (!count.only_up)
    mutants.push_back(
        {site, amount(count, -count.step), writer.changed(count.operand, "add.s32", -count.step)});
}

// The .loc lines of a text, and where the places they name were inlined.
class Locations {
 public:
  explicit Locations(const std::string& ptx) {
    int number = 1;
    for (std::size_t from = 0; from < ptx.size(); ++number) {
      const std::size_t end = std::min(ptx.find('\n', from), ptx.size());
      read(std::string_view(ptx).substr(from, end - from), number);
      from = end + 1;
    }
  }

  std::vector<SourcePlace> chain(int ptx_line) const {
    std::vector<SourcePlace> places;
    auto location = locations_.lower_bound(ptx_line);
    while (location != locations_.begin()) {
      --location;
      const Location& here = location->second;
      if (std::get<1>(here.place) > 0) places.push_back({std::get<0>(here.place), std::get<1>(here.place)});
      if (!here.inlined_at) break;
      const Place outer = *here.inlined_at;
      while (location != locations_.begin() && std::prev(location)->second.place != outer) --location;
    }
    return places;
  }

 private:
  using Place = std::tuple<int, int, int>;  // file, line, column
  struct Location {
    Place place;
    std::optional<Place> inlined_at;
  };

  static std::optional<Place> place_in(std::string_view text) {
    std::array<int, 3> numbers{};
    for (int& number : numbers) {
      while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc()) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    return Place{numbers[0], numbers[1], numbers[2]};
  }

  void read(std::string_view line, int number) {
    constexpr std::string_view kLoc = ".loc", kInlinedAt = "inlined_at";
    const std::size_t loc = line.find(kLoc);
    if (loc == std::string_view::npos || line.find_first_not_of(" \t") != loc) return;
    const std::optional<Place> place = place_in(line.substr(loc + kLoc.size()));
    if (!place) return;
    const std::size_t inlined = line.find(kInlinedAt);
    locations_[number] = {*place, inlined == std::string_view::npos
                                      ? std::nullopt
                                      : place_in(line.substr(inlined + kInlinedAt.size()))};
  }

  std::map<int, Location> locations_;  // by PTX line
};

}  // namespace

Result<Mutations> enumerate_mutations(const std::string& ptx) {
  PtxModule module;
  try {
    module = parse_ptx(ptx);
  } catch (const PtxError& error) {
    return Status::invalid_argument(fmt::format("PTX line {}: {}", error.line, error.message));
  }
  const Locations locations(ptx);
  Mutations mutations;
  for (const Function& function : module.functions) {
    for (const Statement& statement : function.statements) {
      const Synchronisation* rule = InstructionTable::instance().find(statement.opcode).synchronisation();
      if (rule == nullptr) continue;
      add_mutants(statement, *rule, mutations.sites.size(), mutations.mutants);
      mutations.sites.push_back({function.name, std::string(rule->operation), statement.text,
                                 statement.ptx_line, locations.chain(statement.ptx_line), statement.begin,
                                 statement.end});
    }
  }
  return mutations;
}

std::string replace_statement(const std::string& ptx, const SyncSite& site, std::string_view replacement) {
  std::string result = ptx.substr(0, site.begin);
  result += replacement;
  result.append(ptx, site.end);
  return result;
}

std::string trap_at(const std::string& ptx, const SyncSite& site) {
  const std::size_t guard_end = site.text.starts_with('@') ? site.text.find(' ') + 1 : 0;
  return replace_statement(ptx, site, site.text.substr(0, guard_end) + "trap;");
}

}  // namespace jfa::simulator
