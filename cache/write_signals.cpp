#include "cache/write_signals.h"

#include <cerrno>
#include <ctime>

namespace jfa {

WriteSignalBlock::WriteSignalBlock() {
  sigset_t both;
  sigset_t pending;
  sigemptyset(&both);
  sigemptyset(&pending);
  sigaddset(&both, SIGXFSZ);
  sigaddset(&both, SIGPIPE);
  sigpending(&pending);
  ours_ = both;
  if (sigismember(&pending, SIGXFSZ) == 1) sigdelset(&ours_, SIGXFSZ);
  if (sigismember(&pending, SIGPIPE) == 1) sigdelset(&ours_, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &both, &old_mask_);
}

WriteSignalBlock::~WriteSignalBlock() {
  const int error = errno;  // of the write
  // A write sends them to its own thread, so they are pending here by now.
  const timespec at_once = {0, 0};
  while (sigtimedwait(&ours_, nullptr, &at_once) >= 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  errno = error;
}

}  // namespace jfa
