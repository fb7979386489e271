// Tuning records on disk: a directory with one file a problem class and device, or one file with many, as an
// export is. Files appear whole or not at all, so that databases merge by copying.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/file_system.h"
#include "tuning/record.h"

namespace jfa {

struct ReadDatabase {
  std::vector<TuningRecord> records;    // ascending by name
  std::vector<std::string> complaints;  // of files that are left out: "<file>: <why>"
};

/// All records of a directory or of a file. kUnavailable: there is no such thing, or it cannot be read. A
/// damaged record of a directory is left out; a damaged file is kInvalidArgument.
Result<ReadDatabase> read_database(FileSystem& files, const std::string& path);

/// Writes one record under its name into the directory, which is made if need be; takes the place of an
/// earlier one. kUnavailable names the file.
Status write_record(FileSystem& files, const std::string& directory, const TuningRecord& record);

/// The record's file in a database's directory.
std::string record_file(const std::string& directory, const TuningRecord& record);

}  // namespace jfa
