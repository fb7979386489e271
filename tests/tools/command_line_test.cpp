// What all our programs have in common: help, versions, completions, and what is said of arguments that do
// not fit.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "tests/command_runner.h"
#include "tools/completion.h"
#include "tools/number_text.h"
#include "tools/progress.h"

namespace jfa::test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

CommandResult call(const char* program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  return run_command(arguments);
}
CommandResult jfa_command(std::vector<std::string> arguments) { return call(JFA_TOOL, std::move(arguments)); }

// Exit status 2, nothing on standard output, and this one line.
void check_refused(const char* program, const std::vector<std::string>& arguments, const std::string& line) {
  const CommandResult result = call(program, arguments);
  CHECK(result.exit_code == 2);
  CHECK(result.output.empty());
  CHECK(result.error == line + "\n");
}

TEST_CASE("every program has help, version, and prints its help when it is called alone") {
  for (const char* program : {JFA_TOOL, JFA_SIM_TOOL}) {
    CAPTURE(program);
    const CommandResult help = call(program, {"--help"});
    CHECK(help.exit_code == 0);
    CHECK(has(help.output, "Subcommands:"));
    CHECK(call(program, {"help"}).output == help.output);
    const CommandResult alone = call(program, {});
    CHECK(alone.exit_code == 2);
    CHECK(alone.error == help.output);
    const CommandResult version = call(program, {"--version"});
    CHECK(version.exit_code == 0);
    CHECK(has(version.output, "jfa"));
    for (const char* other : {"-V", "version"}) CHECK(call(program, {other}).output == version.output);
    CHECK(call(program, {"help", "run"}).output == call(program, {"run", "--help"}).output);
  }
  CHECK(jfa_command({"help", "cache", "list"}).output == jfa_command({"cache", "list", "--help"}).output);
  CHECK(has(jfa_command({"help", "conformance"}).output, "Usage: jfa conformance"));
  const CommandResult cache = jfa_command({"cache"});
  CHECK(cache.exit_code == 2);
  CHECK(cache.error == jfa_command({"cache", "--help"}).output);
}

TEST_CASE("arguments that do not fit are named, whatever else is missing") {
  check_refused(JFA_TOOL, {"--bogus"}, "jfa: unknown option '--bogus'; jfa --help lists them");
  check_refused(JFA_TOOL, {"--bogus=3", "run"}, "jfa: unknown option '--bogus'; jfa --help lists them");
  check_refused(JFA_SIM_TOOL, {"--bogus"}, "jfa-sim: unknown option '--bogus'; jfa-sim --help lists them");
  check_refused(JFA_TOOL, {"--window", "3", "run", "x"},
                "jfa: '--window' is an option of jfa run: it goes behind 'run'");
  check_refused(JFA_TOOL, {"run", "--bogus"}, "jfa run: unknown option '--bogus'; jfa run --help lists them");
  check_refused(JFA_TOOL, {"cache", "list", "--bogus"},
                "jfa cache list: unknown option '--bogus'; jfa cache list --help lists them");
  check_refused(JFA_TOOL, {"run", "a", "b"}, "jfa run: unexpected argument 'b'");
  check_refused(JFA_TOOL, {"bundle", "list", "a", "b"}, "jfa bundle list: unexpected argument 'b'");
  check_refused(JFA_TOOL, {"cache", "fly"},
                "jfa cache: 'fly' is not a command; there are list, stats, verify, trim, clear, explain");
  for (const std::vector<std::string>& unknown :
       {std::vector<std::string>{"fly"}, {"fly", "--help"}, {"help", "fly"}}) {
    const CommandResult result = jfa_command(unknown);
    CHECK(result.exit_code == 2);
    CHECK(has(result.error, "jfa: 'fly' is not a command; there are run, emit, "));
  }
  check_refused(JFA_TOOL, {"run"}, "jfa run: FILE is required");
  check_refused(JFA_TOOL, {"emit", "--head-dim"}, "jfa emit: --head-dim needs a value");
  check_refused(JFA_TOOL, {"emit", "--head-dim", "64", "--head-dim", "32"},
                "jfa emit: --head-dim is given too often");
  check_refused(JFA_TOOL, {"run", "x", "--check=maybe"}, "jfa run: --check takes no value");
}

TEST_CASE("numbers are taken as they are written or not at all") {
  check_refused(JFA_TOOL, {"emit", "--head-dim", "64x"}, "jfa emit: --head-dim: '64x' is not a whole number");
  check_refused(JFA_TOOL, {"run", "x", "--window", "99999999999999999999"},
                "jfa run: --window: window '99999999999999999999' is above 9223372036854775807");
  check_refused(JFA_TOOL, {"emit", "--head-dim", "64", "--window", "99999999999999999999"},
                "jfa emit: window '99999999999999999999' is above 9223372036854775807");
  check_refused(JFA_TOOL, {"precompile", "--head-dim", "64", "--jobs", "-3"},
                "jfa precompile: --jobs: '-3' is below 0");
  check_refused(JFA_TOOL, {"run", "x", "--scale", "1e999"},
                "jfa run: --scale: '1e999' is not a finite number");
  using namespace tools;
  for (const char* text : {"0", "-7", "9223372036854775807"}) CHECK(not_whole<std::int64_t>(text) == "");
  for (const char* text : {"", "-", "+1", "0x10", "010", "1.5", " 1", "1 "}) {
    CAPTURE(text);
    CHECK(has(not_whole<std::int64_t>(text), "is not a whole number"));
  }
  CHECK(not_whole<int>("0", 1, 9) == "'0' is below 1");
  CHECK(not_whole<int>("10", 1, 9) == "'10' is above 9");
  CHECK(not_whole<unsigned>("-0") == "");
  CHECK(not_finite("-1.5e3") == "");
  CHECK(not_finite("0", 0) == "'0' is not above 0");
  CHECK(not_finite("nan") == "'nan' is not a finite number");
  CHECK(not_finite("1,5") == "'1,5' is not a number");
}

TEST_CASE("values may have blanks or commas between them, wherever there may be several") {
  const auto names = [](const std::vector<std::string>& values) {
    std::vector<std::string> arguments{"precompile", "--list", "--head-dim", "64"};
    arguments.insert(arguments.end(), values.begin(), values.end());
    const CommandResult result = jfa_command(arguments);
    CAPTURE(result.error);
    CHECK(result.exit_code == 0);
    return result.output;
  };
  struct Values {
    const char* option;
    std::string first, second;
  };
  for (const Values& values :
       {Values{"--head-dim", "32", "128"}, Values{"--window", "none", "7"}, Values{"--groups", "1", "4"},
        Values{"--dtype", "bf16", "fp16"}, Values{"--pass", "forward", "backward"},
        Values{"--target", "sm_100f", "sm_90a"}}) {
    CAPTURE(values.option);
    const std::string together = names({values.option, values.first + "," + values.second});
    CHECK(std::count(together.begin(), together.end(), '\n') >= 2);
    CHECK(names({values.option, values.first, values.second}) == together);
    CHECK(names({values.option, values.first + ",", values.second}) == together);
    CHECK(names({values.option, values.first, values.option, values.second}) == together);
  }
}

TEST_CASE("commands that need a GPU, or find nothing to do, say just that") {
  check_refused(JFA_TOOL, {"conformance", "--device", "cuda:x"},
                "jfa conformance: device cuda:x: not cuda:N");
  check_refused(JFA_TOOL, {"conformance", "--golden", "no/file"},
                "jfa conformance: no/file: No such file or directory");
  check_refused(JFA_TOOL, {"conformance", "--suite", "no/file"},
                "jfa conformance: --suite no/file: No such file or directory");
  for (const char* more : {"--no-suites", "--list"})
    check_refused(
        JFA_TOOL, {"conformance", "--only", "zzz", more},
        "jfa conformance: --only zzz: no item has that in its name or group; --list prints them all");
  check_refused(JFA_TOOL, {"conformance", "--timeout", "-1"},
                "jfa conformance: --timeout: '-1' is not above 0");
  check_refused(JFA_TOOL, {"bench", "--shapes", "no/file"}, "jfa bench: no/file: No such file or directory");
  const TemporaryDirectory directory;
  const std::string shapes = directory / "shapes.json";
  std::ofstream(shapes) << "{\"shapes\": [\n  {\"name\": \"a\", \"kind\": \"self\", \"batch\": 0}]}";
  check_refused(JFA_TOOL, {"bench", "--shapes", shapes},
                "jfa bench: " + shapes +
                    ": line 2, column 33: shape 0 'a' has batch 0: not a whole number "
                    "from 1 to 2^28");
}

// --- Completions

std::string completed(const std::string& program, const std::string& words) {
  const CommandResult result =
      run_command({"/bin/bash", "-c",
                   "source <($0 completion bash) && COMP_WORDS=(" + words +
                       ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && compopt() { echo -n '(files) '; } && " +
                       (program == JFA_TOOL ? "_jfa" : "_jfa_sim") + " && echo \"${COMPREPLY[@]}\"",
                   program});
  CHECK(result.error.empty());
  return result.output;
}

TEST_CASE("bash completes commands, options and the values that there are") {
  CHECK(completed(JFA_TOOL, "jfa em") == "emit\n");
  CHECK(completed(JFA_TOOL, "jfa cache tr") == "trim\n");
  CHECK(completed(JFA_TOOL, "jfa cache trim --max") == "--max-bytes\n");
  CHECK(completed(JFA_TOOL, "jfa cache trim --cache") == "--cache-dir\n");
  CHECK(completed(JFA_TOOL, "jfa emit --format cu") == "cuda cubin\n");
  CHECK(completed(JFA_TOOL, "jfa emit --format = cu") == "cuda cubin\n");
  CHECK(completed(JFA_TOOL, "jfa precompile --target sm_9") == "sm_90a\n");
  CHECK(completed(JFA_TOOL, "jfa run samples/x --ch") == "(files) --check\n");
  CHECK(completed(JFA_TOOL, "jfa run -o x") == "(files) \n");
  CHECK(completed(JFA_TOOL, "jfa run --window 1") == "\n");
  CHECK(completed(JFA_TOOL, "jfa completion z") == "zsh\n");
  CHECK(completed(JFA_TOOL, "jfa help pre") == "precompile\n");
  CHECK(completed(JFA_SIM_TOOL, "jfa-sim run --schedule ra") == "random\n");
}

TEST_CASE("the other shells' scripts speak of the same options") {
  for (const char* program : {JFA_TOOL, JFA_SIM_TOOL}) {
    const std::string zsh = call(program, {"completion", "zsh"}).output;
    CHECK(has(zsh, "#compdef jfa"));
    CHECK(has(zsh, "run --json") == false);
    CHECK(has(zsh, "'--json:"));
    const std::string fish = call(program, {"completion", "fish"}).output;
    CHECK(has(fish, " -l json -d "));
  }
  const std::string fish = jfa_command({"completion", "fish"}).output;
  CHECK(
      has(fish,
          "complete -c jfa -n '__jfa_at jfa emit' -l format -x -a 'cuda ptx cubin plan lint lint-json' -d "));
  CHECK(has(fish, "complete -c jfa -n '__jfa_at jfa cache' -a trim -d "));
  CHECK(
      has(jfa_command({"completion", "zsh"}).output, "'jfa emit --format') compadd -- cuda ptx cubin plan"));
  // A quote in a description is none of the shell's.
  tools::CommandSyntax program{.name = "p", .description = "", .options = {}, .words = {}, .commands = {}};
  program.options.push_back({.names = {"--of"}, .description = "the caller's: all", .choices = {}});
  CHECK(has(tools::completion_script(program, "zsh"), R"('--of:the caller'\''s: all')"));
  CHECK(has(tools::completion_script(program, "fish"), R"(-l of -d 'the caller'\''s: all')"));
}

TEST_CASE("progress tells the share, the time that is left and what is under way, in one line") {
  using tools::progress_state;
  CHECK(progress_state(0, 96, 3, "a-kernel") == "0 of 96 (0 %), a-kernel");
  CHECK(progress_state(12, 96, 10, "a-kernel") == "12 of 96 (12 %), 1:10 left, a-kernel");
  CHECK(progress_state(1, 1000, 10, "") == "1 of 1000 (0 %), 2:46:30 left");
  CHECK(progress_state(96, 96, 10, "a-kernel") == "96 of 96 (100 %)");
  CHECK(progress_state(0, 0, 0, "") == "0 of 0 (100 %)");
  CHECK(tools::fit("compiling … 3 s", 11) == "compiling …");
  CHECK(tools::fit("short", 80) == "short");
}

}  // namespace
}  // namespace jfa::test
