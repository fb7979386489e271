// jfa emit, precompile and doctor: none of them needs a GPU or a driver.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/command_runner.h"

namespace jfa::test {
namespace {

CommandResult jfa_command(std::vector<std::string> arguments,
                          const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), JFA_TOOL);
  return run_command(arguments, environment);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool one_line(const CommandResult& result, const std::string& begin, const std::string& part) {
  INFO("stderr: " << result.error);
  CHECK(result.exit_code == 2);
  CHECK(std::count(result.error.begin(), result.error.end(), '\n') == 1);
  return result.error.rfind(begin, 0) == 0 && has(result.error, part);
}

std::size_t files_below(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    count += entry.is_regular_file() && entry.file_size() > 1000 ? 1 : 0;  // not locks and notes
  }
  return count;
}

TEST_CASE("emit prints each format, and the same bytes every time") {
  const TemporaryDirectory cache;
  const std::vector<std::string> environment{"JFA_CACHE_DIR=" + cache.path().string()};
  const std::vector<std::string> base{
      "emit",    "--target", "sm_100a",  "--pass", "forward",       "--head-dim", "64",
      "--dtype", "fp16",     "--window", "5",      "--broadcast-q", "--groups",   "2"};
  const auto emit = [&](const std::string& format) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--format", format});
    const CommandResult result = jfa_command(arguments, environment);
    CAPTURE(result.error);
    CHECK(result.exit_code == 0);
    return result.output;
  };
  const std::string cuda = emit("cuda");
  CHECK(has(cuda, "__global__"));
  CHECK_FALSE(has(cuda, "#include"));
  CHECK(cuda == emit("cuda"));
  CHECK(has(emit("plan"), "\"target\": \"sm_100a\""));
  const std::string ptx = emit("ptx");
  CHECK(has(ptx, ".target sm_100a"));
  CHECK(has(ptx, "tcgen05.mma"));
  CHECK(emit("cubin").substr(0, 4) ==
        "\x7f"
        "ELF");
}

TEST_CASE("emit writes files, and refuses in one line") {
  const TemporaryDirectory directory;
  CHECK(jfa_command({"emit", "--head-dim", "64", "-o", directory / "kernel.cu"}).exit_code == 0);
  CHECK(has(read_text(directory / "kernel.cu"), "__global__"));
  const auto refused = [](std::vector<std::string> options, const std::string& part) {
    options.insert(options.begin(), "emit");
    return one_line(jfa_command(options), "jfa emit: ", part);
  };
  CHECK(refused({"--head-dim", "12"}, "head_dim 12"));
  CHECK(refused({"--head-dim", "64", "--target", "sm_42"}, "'sm_42'"));
  CHECK(refused({"--head-dim", "64", "--tuning", "tea"}, "'tea' is not name=value"));
  CHECK(refused({"--head-dim", "64", "--tuning", "tea=7"}, "'tea' is no knob of forward-bf16-d64-sm_100f"));
  CHECK(refused({"--head-dim", "64", "--tuning", "query_stages=0"}, "query_stages=0 is not from 1 to 4"));
  CHECK(refused({"--head-dim", "64", "--dtype", "fp8"}, "'fp8'"));
  CHECK(refused({"--head-dim", "64", "--pass", "sideways"}, "'sideways'"));
  CHECK(refused({"--head-dim", "64", "--window", "-2"}, "window -2"));
  CHECK(refused({"--head-dim", "64", "--window", "wide"}, "'wide'"));
  CHECK(refused({"--head-dim", "64", "--groups", "0"}, "groups 0"));
  CHECK(refused({"--head-dim", "64", "--format", "elf"}, "elf"));
  CHECK(refused({}, "--head-dim"));
  CHECK(refused({"--head-dim", "64", "-o", directory / "no/such/folder"}, "cannot write"));
}

TEST_CASE("bug-pool 96: precompile needs no driver, and a second run compiles nothing") {
  const TemporaryDirectory directory;
  const std::vector<std::string> command{"precompile", "--head-dim", "16",          "--window",
                                         "none",       "0",          "--cache-dir", directory / "cache",
                                         "--jobs",     "2"};
  const CommandResult first = jfa_command(command);
  CAPTURE(first.error);
  CHECK(first.exit_code == 0);
  CHECK(has(first.output, "2 kernels, 2 compiled now"));
  CHECK(files_below(directory / "cache") == 2);
  const CommandResult second = jfa_command(command);
  CHECK(second.exit_code == 0);
  CHECK(has(second.output, "2 kernels, 0 compiled now"));
  CHECK(has(second.output, "2 there already"));
}

TEST_CASE("bug-pool 97: every kernel exists for every target that was asked for") {
  const TemporaryDirectory directory;
  std::ofstream(directory / "sweep.json")
      << R"([{"head_dim": [8, 16], "target": ["sm_100a", "sm_103a"], "broadcast_q": [false, true]}])";
  const CommandResult result =
      jfa_command({"precompile", "--sweep", directory / "sweep.json", "--cache-dir", directory / "cache"});
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  CHECK(has(result.output, "4 kernels, 4 compiled now"));  // 8 and 16 share a kernel
  CHECK(files_below(directory / "cache") == 4);
}

TEST_CASE("--default fills in what no option says, and --list compiles nothing") {
  const auto lines = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"precompile", "--list"});
    const CommandResult result = jfa_command(options, {"JFA_NVRTC=/nonexistent"});
    CHECK(result.exit_code == 0);
    return result.output;
  };
  const auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(count(lines({"--default"})) == 96);
  CHECK(lines({"--default", "--pass", "forward", "--dtype", "fp16", "--head-dim", "64", "--groups", "1",
               "--target", "sm_90a", "--window", "7"}) ==
        "forward-fp16-d64-w7-sm_90a\nforward-fp16-d64-w7-pma-sm_90a\n");
  CHECK(count(lines({"--default", "--broadcast-q"})) == 48);
}

TEST_CASE("on a terminal precompile shows share, kernel and time in one line that it draws anew") {
  const TemporaryDirectory directory;
  // script(1) gives it a terminal. The kernel takes more than the second after which something is said.
  const std::string command = std::string(JFA_TOOL) +
                              " precompile --head-dim 128 --pass backward --groups 3 --cache-dir " +
                              (directory / "cache");
  const CommandResult result = run_command({"/usr/bin/script", "-qec", command, "/dev/null"});
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(has(result.output, "\rjfa precompile: compiling … "));
  CHECK(has(result.output, " s, 0 of 1 (0 %), backward-bf16-d128-g3-sm_100f\x1b[K"));
  CHECK(has(result.output, "1 of 1 (100 %), done"));
}

TEST_CASE("precompile refuses in one line") {
  const TemporaryDirectory directory;
  const auto refused = [](std::vector<std::string> options, const std::string& part) {
    options.insert(options.begin(), "precompile");
    return one_line(jfa_command(options), "jfa precompile: ", part);
  };
  CHECK(refused({}, "--default, --head-dim, --sweep or --tuned"));
  CHECK(refused({"--head-dim", "64", "12"}, "head_dim 12"));
  CHECK(refused({"--sweep", directory / "missing.json"}, "missing.json"));
  std::ofstream(directory / "bad.json") << R"([{"head_dim": 64}, {"head_dim": 64, "windows": 3}])";
  CHECK(refused({"--sweep", directory / "bad.json"},
                "line 1, column 37: entry 1 has the unknown field 'windows'"));
  std::ofstream(directory / "file") << "in the way";
  CHECK(refused({"--head-dim", "16", "--cache-dir", directory / "file"}, directory / "file"));
}

TEST_CASE("doctor names what is there and what would be used") {
  const TemporaryDirectory cache;
  const CommandResult result = jfa_command({"doctor"}, {"JFA_CACHE_DIR=" + cache.path().string()});
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  for (const char* part :
       {"driver", "NVRTC", "sm_100f: known", "cache", "JFA_CACHE_DIR=", "jfa run", "would use"}) {
    CHECK(has(result.output, part));
  }
  CHECK(has(result.output, cache.path().string()));
}

TEST_CASE("without NVRTC the command starts, and says what is missing") {
  const TemporaryDirectory directory;
  const std::vector<std::string> no_nvrtc{"JFA_NVRTC=" + directory.path().string(),
                                          "JFA_CACHE_DIR=" + (directory / "cache")};
  CHECK(jfa_command({"--help"}, no_nvrtc).exit_code == 0);
  CHECK(jfa_command({"emit", "--head-dim", "64"}, no_nvrtc).exit_code == 0);
  const CommandResult doctor = jfa_command({"doctor"}, no_nvrtc);
  CHECK(doctor.exit_code == 1);
  CHECK(has(doctor.output, "nothing can be compiled here"));
  CHECK(has(doctor.output, "NVRTC"));
  const CommandResult ptx = jfa_command({"emit", "--head-dim", "64", "--format", "ptx"}, no_nvrtc);
  CHECK(ptx.exit_code == 2);
  CHECK(has(ptx.error, "NVRTC"));
}

}  // namespace
}  // namespace jfa::test
