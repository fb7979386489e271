// What the library says while it works. By itself it writes nothing, neither to stderr nor elsewhere; a
// program that wants to hear it sets a callback, an operator JFA_VERBOSE. Needs no CUDA header.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// What a message is about. Who listens at a level hears those above it too.
enum class LogLevel : std::uint8_t {
  kNothing = 0,
  kWarning =
      1,  // less is served than was asked for: a cache directory that cannot be written, a damaged entry
  kNotice = 2,  // why a call takes long: a compilation of over a second, a process that is waited for
  kInfo = 3,    // a record of every compilation, cache hit and miss, device and loaded kernel; JFA_VERBOSE=1
  kTrace = 4,   // a record of every forward() and backward(); JFA_VERBOSE=2
};

/// Gets one line without its end. Warnings and notices are sentences; records begin with "jfa_verbose,1," and
/// have the fields that docs/runtime.md lists.
/// message: valid until the callback returns. The callback may be called from any thread, also from several
/// at once. What it throws is dropped, and so is what the library would say because of calls that it makes
/// itself.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

/// Has `callback` told of everything up to `level`, or up to what JFA_VERBOSE asks for, if that is more; then
/// nothing goes to stderr. Takes the place of the callback before, which has returned for the last time when
/// this returns. An empty one ends it: JFA_VERBOSE then writes to stderr, and without it nothing is said.
/// Warnings that nobody has heard yet (the first 16 of them) are told at once.
/// Errors: kInvalidArgument within a callback.
Status set_log_callback(LogCallback callback, LogLevel level = LogLevel::kNotice);

}  // namespace jfa
