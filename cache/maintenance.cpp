#include "cache/maintenance.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace jfa {
namespace {

constexpr std::int64_t kStaleTemporary_s = 3600;    // no write of ours takes an hour
constexpr std::int64_t kKeepDamaged_s = 7 * 86400;  // long enough for somebody to look at them
constexpr std::size_t kMostDamaged = 16;
constexpr std::int64_t kKeepOlderFormats_s = 30 * 86400;  // a library that reads them may still run
constexpr std::int64_t kCountInterval_s = 600;
constexpr std::uint64_t kMaxUsageBytes = 64;

std::string folder_name(int index) {
  static constexpr char kDigits[] = "0123456789abcdef";
  return {kDigits[index >> 4], kDigits[index & 15]};
}

// Names in a folder of the directory. A symbolic link is not followed: what it leads to is not ours.
std::vector<std::string> names_in(EntryDirectory& directory, const std::string& folder) {
  const std::string path = directory.root() + folder;
  FileInfo info;
  std::vector<std::string> names;
  if (directory.files().info(path, info) || info.type != FileType::kDirectory) return names;
  if (directory.files().list(path, names)) names.clear();
  return names;
}

// Removes the files of a folder with a name of ours that were last written more than `age_s` ago, or as far
// in the future (a clock was set back): one of the two says that nobody writes them now.
std::uint64_t sweep(EntryDirectory& directory, const std::string& folder, bool (*is_ours)(std::string_view),
                    std::int64_t age_s) {
  std::uint64_t swept = 0;
  FileSystem& files = directory.files();
  for (const std::string& name : names_in(directory, folder)) {
    const std::string path = directory.root() + folder + "/" + name;
    FileInfo info;
    if (!is_ours(name) || files.info(path, info)) continue;
    if (std::llabs(files.now_s() - info.modified_s) <= age_s) continue;
    if (!files.remove(path)) ++swept;
  }
  return swept;
}

// The newest few damaged files stay for some days; they are not under the cap.
std::uint64_t sweep_damaged(EntryDirectory& directory) {
  std::uint64_t swept = sweep(directory, "/damaged", is_moved_aside, kKeepDamaged_s);
  FileSystem& files = directory.files();
  std::vector<std::pair<std::int64_t, std::string>> newest_first;
  for (const std::string& name : names_in(directory, "/damaged")) {
    FileInfo info;
    const std::string path = directory.root() + "/damaged/" + name;
    if (is_moved_aside(name) && !files.info(path, info)) newest_first.emplace_back(-info.modified_s, path);
  }
  std::sort(newest_first.begin(), newest_first.end());
  for (std::size_t i = kMostDamaged; i < newest_first.size(); ++i) {
    if (!files.remove(newest_first[i].second)) ++swept;
  }
  return swept;
}

std::string trim_lock_path(EntryDirectory& directory) {
  return directory.root() + "/locks/" + std::string(kTrimLock);
}

// Lock files of killed processes. Taking and releasing the lock removes the file, and cannot take it away
// from somebody who holds it.
std::uint64_t sweep_locks(EntryDirectory& directory) {
  std::uint64_t swept = 0;
  for (const std::string& name : names_in(directory, "/locks")) {
    if (!is_lock(name) || name == kTrimLock) continue;
    std::unique_ptr<FileLock> lock;
    if (!directory.files().try_lock(directory.root() + "/locks/" + name, "", lock)) ++swept;
  }
  return swept;
}

// Entries of earlier format versions, which no cap of ours counts.
std::uint64_t sweep_older_formats(EntryDirectory& directory, std::int64_t age_s) {
  std::uint64_t swept = 0;
  for (std::uint32_t version = 1; version < kEntryVersion; ++version) {
    const std::string parent = "/v" + std::to_string(version);
    for (const std::string& folder : names_in(directory, parent)) {
      if (is_entry_folder(folder)) swept += sweep(directory, parent + "/" + folder, is_entry_file, age_s);
    }
  }
  return swept;
}

std::uint64_t count_names(EntryDirectory& directory, const std::string& folder,
                          bool (*is_ours)(std::string_view)) {
  const auto names = names_in(directory, folder);
  return static_cast<std::uint64_t>(std::count_if(names.begin(), names.end(), is_ours));
}

std::string usage_path(EntryDirectory& directory) { return directory.root() + "/usage"; }

// EEXIST: somebody else's file of that name.
std::error_code read_usage(EntryDirectory& directory, std::string& text, FileInfo& info) {
  const auto error = read_file(directory.files(), usage_path(directory), kMaxUsageBytes, text, &info);
  return error || is_usage(text) ? error : std::make_error_code(std::errc::file_exists);
}

void write_usage(EntryDirectory& directory, std::uint64_t bytes) {
  FileSystem& files = directory.files();
  std::string text;
  FileInfo info;
  if (files.info(directory.entries_path(), info)) return;  // nothing of ours is here to be counted
  if (const auto error = read_usage(directory, text, info); error && !is_missing(error)) return;
  // A count that is lost or torn is counted again; so this file needs neither lock nor sync.
  (void)files.remove(usage_path(directory));
  std::unique_ptr<WritableFile> file;
  if (!files.create(usage_path(directory), 0600, file)) (void)file->append(std::to_string(bytes));
}

}  // namespace

std::vector<StoredEntry> stored_entries(EntryDirectory& directory) {
  std::vector<StoredEntry> entries;
  FileSystem& files = directory.files();
  FileInfo parent;
  if (files.info(directory.entries_path(), parent) || parent.type != FileType::kDirectory) return entries;
  for (int index = 0; index < 256; ++index) {
    const std::string folder = folder_name(index);
    std::vector<std::string> names = names_in(directory, "/" + std::string(kEntriesFolder) + "/" + folder);
    std::sort(names.begin(), names.end());
    for (const std::string& file : names) {
      const auto name = parse_entry_name(folder, file);
      if (!name) continue;
      StoredEntry entry{*name, directory.entry_path(*name), 0, 0};
      FileInfo info;
      if (files.info(entry.path, info) || info.type != FileType::kFile) continue;
      entry.bytes = info.allocated_bytes;
      entry.last_use_s = info.modified_s;
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

Result<Entry> peek(FileSystem& files, const StoredEntry& entry) {
  constexpr std::uint64_t kEnough = 64 << 10;
  std::unique_ptr<ReadableFile> file;
  std::string start;
  auto error = files.open(entry.path, file);
  if (!error) error = file->read(0, kEnough, start);
  if (error) return Status::unavailable(entry.path + ": " + reason(error));
  return peek_entry(start);
}

TrimOutcome trim(EntryDirectory& directory, const TrimPolicy& policy) {
  TrimOutcome outcome;
  FileSystem& files = directory.files();
  std::unique_ptr<FileLock> lock;
  // A file system without locks trims as well: two trimmers only waste each other's time.
  if (files.try_lock(trim_lock_path(directory), "", lock) == std::errc::operation_would_block) {
    outcome.busy = true;
    return outcome;
  }
  const std::int64_t now_s = files.now_s();
  const std::vector<StoredEntry> entries = stored_entries(directory);
  std::vector<TrimCandidate> candidates;
  candidates.reserve(entries.size());
  for (const StoredEntry& entry : entries) {
    candidates.push_back({entry.bytes, entry.last_use_s});
    outcome.bytes += entry.bytes;
    // A clock was set back: from now on the entry ages like the others.
    if (entry.last_use_s > now_s) (void)files.set_modified(entry.path, now_s);
  }
  outcome.entries = entries.size();
  for (const std::size_t index : entries_to_evict(candidates, policy, now_s)) {
    const StoredEntry& entry = entries[index];
    FileInfo info;
    if (files.info(entry.path, info) || info.modified_s != entry.last_use_s) continue;  // used meanwhile
    if (files.remove(entry.path)) continue;
    outcome.evicted_bytes += entry.bytes;
    outcome.evicted.push_back(entry);
  }
  outcome.swept = sweep(directory, "/tmp", is_temporary, kStaleTemporary_s) + sweep_damaged(directory) +
                  sweep_locks(directory) + sweep_older_formats(directory, kKeepOlderFormats_s);
  write_usage(directory, outcome.bytes - outcome.evicted_bytes);
  return outcome;
}

bool note_published(EntryDirectory& directory, std::uint64_t bytes, std::uint64_t max_bytes) {
  FileSystem& files = directory.files();
  std::string text;
  FileInfo info;
  std::uint64_t counted = 0;
  const auto error = read_usage(directory, text, info);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), counted);
  const bool known =
      !error && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty();
  if (!known || std::llabs(files.now_s() - info.modified_s) > kCountInterval_s) return true;
  counted += bytes;
  const bool full = max_bytes != 0 && counted > max_bytes;
  if (!full) {
    write_usage(directory, counted);
    // The stamp says when the directory was last counted, not when it last grew.
    (void)files.set_modified(usage_path(directory), info.modified_s);
  }
  return full;
}

std::vector<DamagedEntry> verify(EntryDirectory& directory, bool move_aside) {
  std::vector<DamagedEntry> damaged;
  for (const StoredEntry& entry : stored_entries(directory)) {
    std::string bytes;
    FileInfo info;
    std::string damage;
    if (const auto error = read_file(directory.files(), entry.path, kMaxEntryBytes, bytes, &info)) {
      if (error == std::errc::no_such_file_or_directory) continue;  // evicted meanwhile
      damage = reason(error);
    } else if (auto decoded = decode_entry(bytes); !decoded.ok()) {
      damage = decoded.status().message();
    } else if (request_key(decoded->fields) != entry.name.request) {
      damage = "holds another request, " + request_key(decoded->fields).hex();
    } else if (entry_name(entry.name.request, decoded->image.compiler).compiler_tag !=
               entry.name.compiler_tag) {
      damage = "holds the image of another compiler, " + decoded->image.compiler;
    }
    if (damage.empty()) continue;
    damaged.push_back({entry.path, damage});
    if (move_aside) directory.move_aside(entry.path, info.inode);
  }
  return damaged;
}

ClearOutcome clear(EntryDirectory& directory) {
  ClearOutcome outcome;
  FileSystem& files = directory.files();
  for (const StoredEntry& entry : stored_entries(directory)) {
    const auto error = files.remove(entry.path);
    if (is_missing(error)) continue;  // evicted meanwhile
    if (error) {
      if (outcome.failed++ == 0) outcome.failure = entry.path + ": " + reason(error);
      continue;
    }
    ++outcome.removed;
    outcome.bytes += entry.bytes;
  }
  outcome.removed += sweep(directory, "/tmp", is_temporary, kStaleTemporary_s) +
                     sweep(directory, "/damaged", is_moved_aside, -1) + sweep_older_formats(directory, -1);
  sweep_locks(directory);
  write_usage(directory, 0);
  return outcome;
}

Leftovers leftovers(EntryDirectory& directory) {
  return {count_names(directory, "/tmp", is_temporary), count_names(directory, "/damaged", is_moved_aside)};
}

}  // namespace jfa
