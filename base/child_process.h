// A child process whose output is read line by line under a deadline, and which is killed with all that it
// started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace jfa::tools {

class ChildProcess {
 public:
  /// arguments[0] is the program, searched for in PATH if it has no slash; environment: "NAME=value" on top
  /// of this process's. Both its output and its errors are read. Errors: kUnavailable, it cannot be started.
  static Result<ChildProcess> start(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& environment = {});
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // kills it

  enum class Read { kLine, kEnd, kTimeout };
  /// The next line, without its end. kEnd: there are no more. kTimeout: none came in time.
  Read read_line(std::string& line, std::chrono::milliseconds timeout);

  /// "exit status 3", "signal 11 (Segmentation fault)"; "does not die" if it cannot be reaped even after a
  /// kill, as when a driver holds it. Kills it if it is still running.
  std::string finish();
  /// The exit status, once finished by itself.
  std::optional<int> exit_status() const { return exit_status_; }

 private:
  ChildProcess(pid_t pid, int output) : pid_(pid), output_(output) {}
  bool reap(std::chrono::milliseconds timeout);

  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffer_;
  std::optional<int> wait_status_;
  std::optional<int> exit_status_;
};

}  // namespace jfa::tools
