// Runs a program and keeps what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace jfa::test {

struct CommandResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string output;
  std::string error;
};

/// arguments[0] is the program. environment: "NAME=value" on top of this process's.
CommandResult run_command(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// A folder of its own that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::string& path);
/// A file that can be executed.
void write_script(const std::string& path, const std::string& text);

}  // namespace jfa::test
