// Work that nobody waits for, on a few threads that start when there is some.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace jfa {

class BackgroundQueue {
 public:
  explicit BackgroundQueue(std::size_t max_threads) : max_threads_(max_threads) {}
  ~BackgroundQueue();  ///< finishes what was added

  void add(std::function<void()> work);

 private:
  void run();

  const std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace jfa
