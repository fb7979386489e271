// NVTX ranges in a domain of our own, "jfa": what a profiler shows beside the kernels. Without a profiler
// there is no domain, and nothing is called.
#pragma once

namespace jfa {

/// Makes the domain, once, and with it watches calls if a tool takes part. Before that no range is seen.
void open_ranges();

/// From its construction to its end, on one thread; for nobody unless kRangeWatcher is set.
class Range {
 public:
  /// name: ends with a NUL; copied by the tool.
  Range(bool watched, const char* name) : pushed_(watched) {
    if (watched) push(name);
  }
  ~Range() {
    if (pushed_) pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  static void push(const char* name);
  static void pop();

  const bool pushed_;
};

}  // namespace jfa
