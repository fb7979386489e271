// A file that a command was asked to write, as `-o FILE` names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace jfa::tools {

/// Where the bytes go hangs on what is there. A regular file, or one that does not exist yet, is replaced by
/// a rename in commit(), so that no reader sees half a file and a failure leaves the old one: links are
/// followed, and the mode and, if we may, the owner of the old file stay. What cannot be replaced is written
/// through: devices, FIFOs, open descriptors (/dev/stdout, /dev/fd/N, /proc/self/fd/N), and files that are
/// mount points or whose directory lets them be written, but not replaced.
///
/// Errors are kUnavailable and name the file: "out.npy: cannot write: No space left on device". Two at a time
/// for one file, or for standard output, are kInvalidArgument.
class OutputFile {
 public:
  /// Refuses what cannot be written; meant to be called before the work. "-" is standard output, which then
  /// is this file's alone (see tell()); a file of that name is "./-". Waits for the reader of a FIFO.
  static Result<OutputFile> open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  ///< without commit() nothing is left behind

  Status append(std::string_view bytes);
  /// Puts the file in its place. Nothing may be appended afterwards.
  Status commit();
  /// append() and commit().
  Status write(std::string_view bytes);

  bool is_standard_output() const { return standard_output_; }
  /// As messages call it: the path as it was given, or "standard output".
  const std::string& name() const { return name_; }

 private:
  // What is there already, of a file that will be replaced.
  struct Replaced {
    std::uint32_t owner = 0;
    std::uint32_t group = 0;
    std::uint32_t mode = 0;
  };

  explicit OutputFile(std::string name) : name_(std::move(name)) {}
  bool claim_target();
  Status open_standard_output();
  Status open_path(std::string path);
  Status open_existing(const std::string& path);
  Status open_own_descriptor(int descriptor);
  // 0, or the error's number.
  int try_temporary();
  int create_temporary();
  void drop_temporary();
  Status begin();
  Status replace_contents(int rename_error);
  Status failed(int error) const;

  std::string name_;
  bool standard_output_ = false;
  int descriptor_ = -1;
  bool truncate_ = false;  // before the first byte: written through into a regular file
  std::string target_;     // empty: written through
  std::string claimed_;    // the target without links, ours as long as this lives
  std::string temporary_;  // while there is one
  std::optional<Replaced> replaced_;
};

/// OutputFile::open() for an option that may not have been given.
Result<std::optional<OutputFile>> open_if_given(const std::optional<std::string>& path);

}  // namespace jfa::tools
