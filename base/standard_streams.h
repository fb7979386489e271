// The three standard streams of a program, any of which may be closed, full or a broken pipe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace jfa::tools {

/// The whole of a main(): runs `body` and returns its exit status, or 2 if it throws or something printed on
/// stdout could not be written; then a message says so. `program` begins messages; `body` may change it.
///
/// Descriptors 0 to 2 that are closed are opened in a way that their use fails, so that no file that is
/// opened later gets their numbers. Writing to a pipe that nobody reads, or beyond the limit of a file's size
/// (ulimit -f), is an error of that write and no longer ends the process.
int run_program(const std::string& program, const std::function<int()>& body);

/// Text on stderr. If it cannot be written it is lost: a message never stops the work.
void say(std::string_view text);

/// What a command tells beside the file that it was asked for: on stdout, where failing to write throws; on
/// stderr as say() does it once stdout is that file.
void tell(std::string_view text);

/// From now on stdout is for the file that was asked for. False if it is so already.
bool claim_standard_output();

}  // namespace jfa::tools
