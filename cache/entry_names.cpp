#include "cache/entry_names.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

namespace jfa {
namespace {

constexpr std::string_view kEntrySuffix = ".entry";
constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::size_t kTagDigits = 16;
constexpr std::size_t kRandomDigits = 16;
constexpr std::size_t kFolderDigits = 2;
constexpr std::size_t kRequestDigits = 2 * Digest::kBytes;

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Takes `suffix` off the end of `name`; false if it does not end so.
bool take_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}

// "<hex digits>-<compiler tag>".
bool is_key(std::string_view text, std::size_t request_digits) {
  return text.size() == request_digits + 1 + kTagDigits &&
         is_hex(text.substr(0, request_digits), request_digits) && text[request_digits] == '-' &&
         is_hex(text.substr(request_digits + 1), kTagDigits);
}

bool is_unique(std::string_view text) {
  const std::size_t dash = text.find('-');
  return dash != std::string_view::npos && is_digits(text.substr(0, dash)) &&
         is_hex(text.substr(dash + 1), kRandomDigits);
}

}  // namespace

std::string EntryName::folder() const { return request.hex().substr(0, kFolderDigits); }
std::string EntryName::file() const {
  return request.hex().substr(kFolderDigits) + "-" + compiler_tag + std::string(kEntrySuffix);
}
std::string EntryName::lock_file() const {
  return request.hex() + "-" + compiler_tag + std::string(kLockSuffix);
}

EntryName entry_name(const Digest& request, const std::string& compiler) {
  return {request, sha256(compiler).hex().substr(0, kTagDigits)};
}

std::optional<EntryName> parse_entry_name(const std::string& folder, const std::string& file) {
  if (!is_entry_folder(folder) || !is_entry_file(file)) return std::nullopt;
  constexpr std::size_t kDigits = kRequestDigits - kFolderDigits;
  const auto request = parse_digest(folder + file.substr(0, kDigits));
  if (!request) return std::nullopt;
  return EntryName{*request, file.substr(kDigits + 1, kTagDigits)};
}

std::string unique_name() {
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "%d-%08x%08x", static_cast<int>(::getpid()), random(), random());
  return text;
}

std::string temporary_name() { return unique_name() + std::string(kTemporarySuffix); }

bool is_version_folder(std::string_view name) { return name.starts_with('v') && is_digits(name.substr(1)); }

bool is_entry_folder(std::string_view name) { return is_hex(name, kFolderDigits); }

bool is_entry_file(std::string_view name) {
  return take_suffix(name, kEntrySuffix) && is_key(name, kRequestDigits - kFolderDigits);
}

bool is_temporary(std::string_view name) { return take_suffix(name, kTemporarySuffix) && is_unique(name); }

bool is_lock(std::string_view name) {
  return name == kTrimLock || (take_suffix(name, kLockSuffix) && is_key(name, kRequestDigits));
}

bool is_moved_aside(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !is_unique(name.substr(dot + 1))) return false;
  return is_entry_file(name.substr(0, dot)) || is_entry_folder(name.substr(0, dot));
}

bool is_usage(std::string_view text) {
  constexpr std::size_t kMostDigits = 20;
  return text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c == '\0' || (c >= '0' && c <= '9'); });
}

}  // namespace jfa
