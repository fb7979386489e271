// Says something if a piece of work takes long, while it does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace jfa {

class SlowNotice {
 public:
  /// Calls `notice` once, on a thread of its own, unless this is destroyed within `patience`.
  SlowNotice(std::chrono::milliseconds patience, std::function<void()> notice)
      : thread_([this, patience, notice = std::move(notice)] {
          std::unique_lock lock(mutex_);
          if (!done_.wait_for(lock, patience, [this] { return is_done_; })) {
            lock.unlock();
            notice();
          }
        }) {}

  ~SlowNotice() {
    {
      const std::lock_guard lock(mutex_);
      is_done_ = true;
    }
    done_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace jfa
