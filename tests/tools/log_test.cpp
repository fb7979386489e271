// What the command says of the library's log and of the environment.
#include <doctest/doctest.h>

#include <string>

#include "tests/command_runner.h"

namespace jfa::test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

CommandResult doctor(const std::vector<std::string>& environment) {
  return run_command({JFA_TOOL, "doctor"}, environment);
}

// Fails, since the kernel is nowhere and may not be compiled.
CommandResult emit_in_vain(const std::string& verbose) {
  return run_command({JFA_TOOL, "emit", "--head-dim", "64", "--format", "ptx"},
                     {"JFA_CACHE_DIR=/dev/null/cache", "JFA_COMPILE=never", "JFA_VERBOSE=" + verbose});
}

TEST_CASE("doctor names variables that nobody reads, and what was meant") {
  const CommandResult result = doctor({"JFA_CACHEDIR=/x", "JFA_UNHEARD_OF=1", "JFA_CHECK_OFFSETS=0"});
  CAPTURE(result.output);
  CHECK(has(result.output, "JFA_CHECK_OFFSETS=0\n"));
  CHECK(has(result.output, " JFA_CACHEDIR is not a variable of jfa; did you mean JFA_CACHE_DIR?\n"));
  CHECK(has(result.output, " JFA_UNHEARD_OF is not a variable of jfa\n"));
  CHECK_FALSE(has(result.output, "JFA_CHECK_OFFSETS is not"));
}

TEST_CASE("doctor names a value of JFA_VERBOSE that cannot be used") {
  const CommandResult result = doctor({"JFA_VERBOSE=loud"});
  CHECK(result.exit_code != 0);
  CHECK(has(result.output, "JFA_VERBOSE is 'loud', none of 0, 1 and 2"));
}

TEST_CASE("the command shows the library's warnings, and its records to those who ask for them") {
  const CommandResult plain = emit_in_vain("");
  CAPTURE(plain.error);
  CHECK(plain.error.starts_with("jfa: no cache directory: /dev/null/cache"));
  CHECK_FALSE(has(plain.error, "jfa_verbose"));
  const CommandResult verbose = emit_in_vain("1");
  CAPTURE(verbose.error);
  CHECK(verbose.error.starts_with("jfa: no cache directory: /dev/null/cache"));
  CHECK(has(verbose.error, "\njfa_verbose,1,cache,miss,forward-bf16-d64-compute_100f,"));
}

}  // namespace
}  // namespace jfa::test
