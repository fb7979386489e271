#include "tuning/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cache/entry_names.h"

namespace jfa {
namespace {

constexpr std::string_view kExtension = ".json";
constexpr std::uint64_t kMostBytes = 256ull << 20;

Status cannot(const char* what, const std::string& path, std::error_code error) {
  return Status::unavailable(
      fmt::format("{}: cannot {}: {}", path.empty() ? "''" : path, what, reason(error)));
}

// Fails for a name of nothing, and in a folder that is gone.
std::error_code make_absolute(const std::string& given, std::string& path) {
  std::error_code error;
  path = std::filesystem::absolute(given, error).string();
  return error;
}

// A file that is not there any more was replaced or deleted meanwhile.
std::error_code read_into(FileSystem& files, const std::string& path, ReadDatabase& database) {
  std::string text;
  if (const auto error = read_file(files, path, kMostBytes, text)) return error;
  Result<TuningRecord> record = parse_record(text);
  if (record) {
    database.records.push_back(*std::move(record));
  } else {
    database.complaints.push_back(path + ": " + record.status().message());
  }
  return {};
}

Status read_directory(FileSystem& files, const std::string& path, ReadDatabase& database) {
  std::vector<std::string> names;
  if (const auto error = files.list(path, names)) return cannot("list", path, error);
  std::ranges::sort(names);
  for (const std::string& file : names) {
    if (!file.ends_with(kExtension) || file.starts_with('.')) continue;
    const std::string full = path + "/" + file;
    const auto error = read_into(files, full, database);
    if (error && !is_missing(error)) database.complaints.push_back(full + ": " + reason(error));
  }
  return {};
}

}  // namespace

Result<ReadDatabase> read_database(FileSystem& files, const std::string& given) {
  ReadDatabase database;
  std::string path, resolved;
  if (const auto error = make_absolute(given, path)) return cannot("read", given, error);
  if (const auto error = files.resolve(path, resolved)) return cannot("read", given, error);
  FileInfo info;
  if (const auto error = files.info(resolved, info)) return cannot("read", given, error);
  if (info.type == FileType::kDirectory) {
    if (Status status = read_directory(files, resolved, database); !status.ok()) return status;
  } else {
    std::string text;
    if (const auto error = read_file(files, resolved, kMostBytes, text)) return cannot("read", given, error);
    Result<std::vector<TuningRecord>> records = parse_records(text);
    if (!records) return Status::invalid_argument(given + ": " + records.status().message());
    database.records = *std::move(records);
  }
  std::ranges::sort(database.records, {}, [](const TuningRecord& record) { return name(record); });
  return database;
}

std::string record_file(const std::string& directory, const TuningRecord& record) {
  return directory + "/" + name(record) + std::string(kExtension);
}

Status write_record(FileSystem& files, const std::string& given, const TuningRecord& record) {
  std::string directory;
  if (const auto error = make_absolute(given, directory)) return cannot("make", given, error);
  if (const auto error = make_directories(files, directory)) return cannot("make", given, error);
  const std::string path = record_file(directory, record);
  const std::string temporary = directory + "/." + temporary_name();
  std::error_code error = write_file(files, temporary, 0666, to_text(record));
  if (!error) error = files.rename(temporary, path);
  if (!error) return {};
  (void)files.remove(temporary);
  return cannot("write", path, error);
}

}  // namespace jfa
