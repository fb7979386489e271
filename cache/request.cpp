#include "cache/request.h"

#include <algorithm>
#include <string_view>

#include "cache/byte_order.h"

namespace jfa {
namespace {

// Raised when the meaning of a key's fields changes; entries under old keys are then never found again.
constexpr std::uint32_t kSchemaVersion = 1;

// Every field is its type, its length and its bytes, so no two lists of fields give the same text.
void append_field(std::string& text, char type, std::string_view bytes) {
  text += type;
  append_u64(text, bytes.size());
  text += bytes;
}

std::string_view trim_left(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\f\v");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

bool includes_something(std::string_view line) {
  line = trim_left(line);
  if (!line.starts_with('#')) return false;
  line = trim_left(line.substr(1));
  return line.starts_with("include") || line.starts_with("import");
}

bool reads_files(std::string_view option) {
  static constexpr std::string_view kPrefixes[] = {
      "-I",           "--include-path", "-include",  "--pre-include",  "-pch", "--pch",
      "--create-pch", "--use-pch",      "--pch-dir", "-opt-info-file", "@",    "--options-file"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return option.starts_with(prefix); });
}

}  // namespace

Status check_self_contained(const CompileRequest& request) {
  for (const std::string& option : request.options) {
    if (reads_files(option)) {
      return Status::invalid_argument("options: '" + option +
                                      "' makes the result depend on files that the cache key does not cover");
    }
  }
  std::string_view rest = request.source;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (includes_something(line)) {
      return Status::invalid_argument("source of '" + request.name + "', line " + std::to_string(number) +
                                      ": '" + std::string(line) +
                                      "' makes it depend on a file that the cache key does not cover");
    }
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return {};
}

RequestFields fields_of(const CompileRequest& request) {
  return {sha256(request.source), request.target, request.options};
}

Digest request_key(const RequestFields& fields) {
  std::string text;
  std::string version;
  append_u32(version, kSchemaVersion);
  append_field(text, 'V', version);
  append_field(text, 'S', fields.source.view());
  append_field(text, 'T', fields.target);
  for (const std::string& option : fields.options) append_field(text, 'O', option);
  return sha256(text);
}

Digest request_key(const CompileRequest& request) { return request_key(fields_of(request)); }

Explanation explain(const CompileRequest& request, const std::string& compiler) {
  return explain(fields_of(request), request.source.size(), request.name, compiler);
}

Explanation explain(const RequestFields& fields, std::uint64_t source_bytes, const std::string& name,
                    const std::string& compiler) {
  Explanation lines = {
      {"name", name},
      {"request", request_key(fields).hex()},
      {"schema", std::to_string(kSchemaVersion)},
      {"source_sha256", fields.source.hex()},
      {"source_bytes", std::to_string(source_bytes)},
      {"target", fields.target},
  };
  for (std::size_t i = 0; i < fields.options.size(); ++i) {
    lines.emplace_back("option[" + std::to_string(i) + "]", fields.options[i]);
  }
  lines.emplace_back("compiler", compiler.empty() ? "none at hand" : compiler);
  return lines;
}

std::string to_text(const Explanation& explanation) {
  std::string text;
  for (const auto& [field, value] : explanation) text += field + ": " + value + "\n";
  return text;
}

std::vector<std::string> difference(const Explanation& left, const Explanation& right) {
  const auto find = [](const Explanation& lines, const std::string& field) {
    const auto found =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == field; });
    return found == lines.end() ? std::string("(absent)") : found->second;
  };
  std::vector<std::string> lines;
  for (const auto& [field, value] : left) {
    const std::string other = find(right, field);
    if (value != other) lines.push_back(field + ": " + value + " -> " + other);
  }
  for (const auto& [field, value] : right) {
    if (find(left, field) == "(absent)") lines.push_back(field + ": (absent) -> " + value);
  }
  return lines;
}

}  // namespace jfa
