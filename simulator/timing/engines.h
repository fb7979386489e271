// What works beside the warps of an SM: its tensor core, the copies of the TMA, and the port of shared memory
// that they share with the threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "simulator/timing/constants.h"
#include "simulator/timing/tensor_pipe.h"

namespace jfa::simulator::timing {

struct CopyIn {
  double begin = 0, complete = 0;
  bool waited_for_bandwidth = false;
  std::uint32_t last = 0xffffffffu;  // the copy in front of it
};

struct CopyOut {
  double begin = 0, read = 0, complete = 0;
  std::uint32_t node = 0xffffffffu;
};

class Engines {
 public:
  explicit Engines(const Constants& constants) : c_(constants) {}

  /// Threads come first at the port: theirs is not delayed by engines, whose turn comes later by as much.
  /// Returns when the bytes are through.
  double thread_access(double time, double bytes) {
    const double cycles = bytes / c_.shared_bytes;
    thread_free_ = std::max(time, thread_free_) + cycles;
    port_free_ = std::max(time, port_free_) + cycles;
    shared_busy_ += cycles;
    return thread_free_;
  }

  /// When the tensor core can take a product; which it had last.
  double product_ready() const { return tensor_free_; }
  std::uint32_t last_product() const { return last_product_; }
  /// Returns when the pipe is free again.
  double multiply(double begin, double issued, const ProductTime& time, std::uint32_t node) {
    last_product_ = node;
    const double read = engine_access(begin, time.shared_bytes);
    tensor_free_ = std::max({begin + time.interval, read, issued + c_.product_issue});
    tensor_busy_ += tensor_free_ - begin;
    return tensor_free_;
  }

  CopyIn copy_in(double time, double bytes, bool out_of_hbm) {
    CopyIn copy;
    copy.begin = std::max(time, copy_issue_free_);
    copy_issue_free_ = copy.begin + c_.copy_issue;
    copy.last = last_copy_;
    const double first = copy.begin + (out_of_hbm ? c_.hbm_latency : c_.copy_latency);
    copy.waited_for_bandwidth = memory_free_ > first;
    const double transfer = bytes / (out_of_hbm ? c_.hbm_bytes : c_.copy_bytes);
    memory_free_ = std::max(first, memory_free_) + transfer;
    copy_busy_ += transfer;
    // Its bytes come to shared memory piece by piece.
    constexpr double kPieceBytes = 1024;
    for (double done = 0; done < bytes; done += kPieceBytes)
      later_.push({memory_free_ - transfer * (1 - done / bytes), std::min(kPieceBytes, bytes - done)});
    copy.complete = memory_free_;
    return copy;
  }
  void note_copy(std::uint32_t node) { last_copy_ = node; }

  CopyOut copy_out(double time, double bytes) {
    CopyOut copy;
    copy.begin = std::max(time, copy_issue_free_);
    copy_issue_free_ = copy.begin + c_.copy_issue;
    copy.read = engine_access(copy.begin, bytes);
    const double transfer = bytes / c_.hbm_bytes;
    memory_free_ = std::max(copy.read, memory_free_) + transfer;
    copy_busy_ += transfer;
    copy.complete = memory_free_ + c_.store_latency;
    return copy;
  }

  double tensor_busy() const { return tensor_busy_; }
  double shared_busy() const { return shared_busy_; }
  double copy_busy() const { return copy_busy_; }

 private:
  // Engines share the port in the order in which they ask.
  double engine_access(double time, double bytes) {
    while (!later_.empty() && later_.top().first <= time) {
      const auto [when, piece] = later_.top();
      later_.pop();
      take_port(when, piece);
    }
    return take_port(time, bytes);
  }

  double take_port(double time, double bytes) {
    const double cycles = bytes / c_.shared_bytes;
    port_free_ = std::max(time, port_free_) + cycles;
    shared_busy_ += cycles;
    return port_free_;
  }

  const Constants& c_;
  double port_free_ = 0, thread_free_ = 0, tensor_free_ = 0, copy_issue_free_ = 0, memory_free_ = 0;
  using Piece = std::pair<double, double>;                                     // when, bytes
  std::priority_queue<Piece, std::vector<Piece>, std::greater<Piece>> later_;  // of copies on their way
  double tensor_busy_ = 0, shared_busy_ = 0, copy_busy_ = 0;
  std::uint32_t last_product_ = 0xffffffffu, last_copy_ = 0xffffffffu;
};

}  // namespace jfa::simulator::timing
