#include "runtime/nvrtc_log.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <optional>

namespace jfa {
namespace {

// Calls visit(line) for every line, without its newline.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

// The number right before `unit`, as in "400 bytes stack frame".
std::optional<int> number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t blank = line.find_last_not_of("0123456789", at == 0 ? 0 : at - 1);
  const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
  int number = 0;
  const auto [end, error] = std::from_chars(line.data() + begin, line.data() + at, number);
  if (error != std::errc() || end != line.data() + at) return std::nullopt;
  return number;
}

}  // namespace

std::map<std::string, EntryFacts> parse_facts(std::string_view log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  constexpr std::string_view kSerialized = "wgmma.mma_async instructions are serialized";
  constexpr std::string_view kFunction = "function '";
  std::map<std::string, EntryFacts> facts;
  EntryFacts* entry = nullptr;
  for_each_line(log, [&](std::string_view line) {
    if (const std::size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      entry = &facts[std::string(rest.substr(0, rest.find('\'')))];
    }
    if (line.find(kSerialized) != std::string_view::npos) {
      const std::string_view rest =
          line.substr(std::min(line.find(kFunction), line.size() - kFunction.size()));
      const std::string_view name = rest.substr(kFunction.size());
      facts[std::string(name.substr(0, name.find('\'')))].serialized_products = 1;
      return;
    }
    if (!entry) return;
    if (auto bytes = number_before(line, " bytes stack frame")) entry->stack_bytes = *bytes;
    if (auto bytes = number_before(line, " bytes spill stores")) entry->spill_store_bytes = *bytes;
    if (auto bytes = number_before(line, " bytes spill loads")) entry->spill_load_bytes = *bytes;
    if (auto count = number_before(line, " registers")) entry->registers = *count;
    if (auto bytes = number_before(line, " bytes smem")) entry->static_shared_bytes = *bytes;
  });
  return facts;
}

std::string first_error(std::string_view log) {
  std::string_view first, error;
  for_each_line(log, [&](std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (first.empty()) first = line;
    const bool reports =
        line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos;
    if (error.empty() && reports) error = line;
  });
  return std::string(error.empty() ? first : error);
}

std::string numbered(std::string_view source) {
  std::string text;
  text.reserve(source.size() + source.size() / 4);
  int line_number = 0;
  for_each_line(source, [&](std::string_view line) {
    fmt::format_to(std::back_inserter(text), "{:5}  {}\n", ++line_number, line);
  });
  return text;
}

}  // namespace jfa
