// Writes whose failure is an error value, and no signal.
#pragma once

#include <signal.h>

namespace jfa {

/// While it lives, a write of this thread past the limit of file sizes (RLIMIT_FSIZE) fails with EFBIG, and
/// one to a pipe that nobody reads with EPIPE, where SIGXFSZ or SIGPIPE would otherwise end the process. What
/// the process has set up for these signals stays as it is, and so does a signal that was pending before.
class WriteSignalBlock {
 public:
  WriteSignalBlock();
  ~WriteSignalBlock();
  WriteSignalBlock(const WriteSignalBlock&) = delete;
  WriteSignalBlock& operator=(const WriteSignalBlock&) = delete;

 private:
  sigset_t ours_;  // those of the two that were not pending before
  sigset_t old_mask_;
};

}  // namespace jfa
