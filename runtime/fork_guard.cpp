#include "runtime/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace jfa {
namespace {

std::atomic<unsigned> generation{0};

// A handler rather than getpid(), which is a system call that every launch would pay for.
void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

unsigned fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace jfa
