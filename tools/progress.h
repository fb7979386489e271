// Says on stderr what is going on, once it has taken a second.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace jfa::tools {

/// Lives as long as the work it reports on. On a terminal one line counts the seconds; elsewhere a line is
/// written when the work is known to be slow, then ever less often.
class Progress {
 public:
  /// `state`, if given, adds to the line ("12 of 40"); it is called from another thread.
  Progress(std::string_view command, std::string what, std::function<std::string()> state = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  double elapsed_s() const;

 private:
  void watch();
  void print(bool last);

  std::string prefix_;
  std::function<std::string()> state_;
  bool terminal_;
  bool printed_ = false;
  std::int64_t start_ns_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace jfa::tools
