// The names of a directory of entries. Whole names are matched, so that no file of somebody else is taken for
// one of ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/digest.h"

namespace jfa {

/// Where a request's entry by one compiler lies.
struct EntryName {
  Digest request;
  std::string compiler_tag;  // 16 hex digits

  std::string folder() const;     // "ab"
  std::string file() const;       // "<62 hex>-<16 hex>.entry"
  std::string lock_file() const;  // "<64 hex>-<16 hex>.lock"
};

EntryName entry_name(const Digest& request, const std::string& compiler);
/// nullopt for names that are not of our pattern: foreign files.
std::optional<EntryName> parse_entry_name(const std::string& folder, const std::string& file);

/// The folder of the entries of this format version.
inline constexpr std::string_view kEntriesFolder = "v2";
inline constexpr std::string_view kTrimLock = "trim.lock";

/// "<pid>-<16 hex>", which nobody else has: process ids repeat across the machines that share a directory, 64
/// random bits do not.
std::string unique_name();
/// "<unique>.tmp".
std::string temporary_name();

/// "v2", and the folders of other format versions.
bool is_version_folder(std::string_view name);
/// "ab".
bool is_entry_folder(std::string_view name);
/// EntryName::file().
bool is_entry_file(std::string_view name);
/// Whether temporary_name() makes such names.
bool is_temporary(std::string_view name);
/// A lock_file(), or kTrimLock.
bool is_lock(std::string_view name);
/// "<name of an entry or of a folder of entries>.<unique>".
bool is_moved_aside(std::string_view name);
/// Whether `text` is what we write into the file `usage`: digits, or what a dying machine makes of them.
bool is_usage(std::string_view text);

}  // namespace jfa
