#include "cache/options.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

namespace jfa {
namespace {

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

Status bad_value(std::string_view name, const std::string& value, std::string_view expected) {
  return Status::invalid_argument(std::string(name) + "='" + value + "': expected " + std::string(expected));
}

// "512M" is 512 * 2^20.
std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  int shift = 0;
  if (suffix == "K" || suffix == "KiB")
    shift = 10;
  else if (suffix == "M" || suffix == "MiB")
    shift = 20;
  else if (suffix == "G" || suffix == "GiB")
    shift = 30;
  else if (!suffix.empty())
    return std::nullopt;
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return value << shift;
}

std::optional<std::int64_t> parse_milliseconds(std::string_view text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const auto result = std::filesystem::absolute(path, error);
  return error ? path : result.lexically_normal().string();
}

// "~/x", where no shell made a path of it: a folder named "~" is not what is meant.
bool names_a_home(std::string_view path) { return path.starts_with('~'); }
constexpr std::string_view kNoTilde =
    "a path without '~', which only an unquoted word of a shell may begin with ('./~' is a file of that "
    "name)";

std::vector<std::string> split_paths(const std::string& list) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    if (!blank(path)) paths.push_back(path);
    begin = end + 1;
  }
  return paths;
}

class Environment {
 public:
  explicit Environment(const EnvironmentReader& reader) : reader_(reader) {}

  std::optional<std::string> get(const char* name) const {
    const char* value = reader_ ? reader_(name) : std::getenv(name);
    if (value == nullptr || blank(value)) return std::nullopt;
    return std::string(value);
  }

 private:
  const EnvironmentReader& reader_;
};

// As the XDG base directory specification has it: relative values are ignored.
void default_directory(const Environment& environment, CacheOptions& options) {
  const auto xdg = environment.get("XDG_CACHE_HOME");
  if (xdg && xdg->starts_with('/')) {
    options.directory = absolute(*xdg + "/jfa");
    return;
  }
  const auto home = environment.get("HOME");
  if (!home) {
    options.no_directory_reason = "HOME is not set";
  } else if (!home->starts_with('/')) {
    options.no_directory_reason = "HOME='" + *home + "' is a relative path";
  } else if (absolute(*home).find_first_not_of('/') == std::string::npos) {
    options.no_directory_reason = "HOME='" + *home + "' is the root of the file system";
  } else {
    options.directory = absolute(*home + "/.cache/jfa");
  }
}

}  // namespace

Result<CacheOptions> cache_options_from_environment(const EnvironmentReader& reader) {
  const Environment environment(reader);
  CacheOptions options;

  const std::string mode = environment.get("JFA_CACHE").value_or("on");
  if (mode != "on" && mode != "readonly" && mode != "off")
    return bad_value("JFA_CACHE", mode, "on, readonly or off");
  options.write = mode == "on";
  if (mode != "off") {
    if (const auto directory = environment.get("JFA_CACHE_DIR")) {
      if (names_a_home(*directory)) return bad_value("JFA_CACHE_DIR", *directory, kNoTilde);
      options.directory = absolute(*directory);
    } else {
      default_directory(environment, options);
    }
  }
  for (const auto& [name, paths] : {std::pair{"JFA_CACHE_READ_ONLY_DIRS", &options.read_only_directories},
                                    std::pair{"JFA_BUNDLES", &options.bundles}}) {
    for (const std::string& path : split_paths(environment.get(name).value_or(""))) {
      if (names_a_home(path)) return bad_value(name, path, kNoTilde);
      paths->push_back(absolute(path));
    }
  }
  if (const auto text = environment.get("JFA_CACHE_MAX_BYTES")) {
    const auto bytes = parse_bytes(*text);
    if (!bytes)
      return bad_value("JFA_CACHE_MAX_BYTES", *text, "a number of bytes such as 536870912, 512M or 2G");
    options.max_bytes = *bytes;
  }
  if (const auto text = environment.get("JFA_CACHE_LOCK_WAIT_MS")) {
    const auto milliseconds = parse_milliseconds(*text);
    if (!milliseconds) return bad_value("JFA_CACHE_LOCK_WAIT_MS", *text, "a number of milliseconds");
    options.lock_wait_ms = *milliseconds;
  }
  const std::string compile = environment.get("JFA_COMPILE").value_or("auto");
  if (compile != "auto" && compile != "never") return bad_value("JFA_COMPILE", compile, "auto or never");
  options.compile = compile == "never" ? CompilePolicy::kNever : CompilePolicy::kAuto;
  return options;
}

}  // namespace jfa
