// Says on stderr what is going on, once it has taken a second.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace jfa::tools {

/// Lives as long as the work it reports on. On a terminal one line, no wider than that, counts the seconds;
/// elsewhere a line is written when the work is known to be slow, then ever less often.
class Progress {
 public:
  /// `state`, if given, adds to the line; it is called from another thread, with the seconds so far.
  using State = std::function<std::string(double elapsed_s)>;
  Progress(std::string_view command, std::string what, State state = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  double elapsed_s() const;

 private:
  void watch();
  void print(bool last);

  std::string prefix_;
  State state_;
  bool terminal_;
  bool printed_ = false;
  std::int64_t start_ns_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::thread thread_;
};

/// "12 of 96 (12 %), 3:05 left, forward-bf16-d64-sm_100f": of `total` equal parts; what is left is expected
/// to take as long as what is done. `current`, the part that was begun last, may be empty.
std::string progress_state(std::size_t done, std::size_t total, double elapsed_s, std::string_view current);

/// `text` in at most `columns` columns, one for each character of UTF-8.
std::string fit(std::string_view text, std::size_t columns);

}  // namespace jfa::tools
