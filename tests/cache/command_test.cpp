// jfa cache, jfa bundle and jfa precompile -o, with real kernels. Needs NVRTC, and hides it where it must not
// be needed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cache/entry.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "jfa/version.h"
#include "runtime/compile.h"
#include "tests/command_runner.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

CommandResult jfa_command(std::vector<std::string> arguments,
                          const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), JFA_TOOL);
  return run_command(arguments, environment);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> paths;
  if (!fs::exists(directory + "/v2")) return paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory + "/v2")) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  return paths;
}

// Two small kernels, compiled once for all cases of this file.
struct Precompiled {
  TemporaryDirectory directory;
  std::string cache = directory / "cache";
  std::string bundle = directory / "kernels.jfab";

  Precompiled() {
    const CommandResult result = precompile({"--cache-dir", cache, "-o", bundle});
    INFO(result.error);
    REQUIRE(result.exit_code == 0);
    REQUIRE(has(result.output, bundle + ": 2 kernels"));
  }
  static CommandResult precompile(std::vector<std::string> options) {
    options.insert(options.begin(), {"precompile", "--head-dim", "16", "--window", "none", "0"});
    return jfa_command(options);
  }
};

Precompiled& precompiled() {
  static Precompiled made;
  return made;
}

// The environment of a machine without NVRTC that has the bundle.
std::vector<std::string> without_nvrtc(const std::string& empty_folder) {
  return {"JFA_NVRTC=" + empty_folder, "JFA_CACHE=off", "JFA_COMPILE=never",
          "JFA_BUNDLES=" + precompiled().bundle};
}

TEST_CASE("shards made elsewhere merge into the very same bundle, and a bundle can come from a cache") {
  const TemporaryDirectory directory;
  std::vector<std::string> merge{"bundle", "merge", "-o", directory / "merged.jfab"};
  for (const char* shard : {"0/2", "1/2"}) {
    const std::string name = directory / std::string("shard") + shard[0];
    const CommandResult result =
        Precompiled::precompile({"--cache-dir", name + " cache", "-o", name + ".jfab", "--shard", shard});
    CAPTURE(result.error);
    CHECK(result.exit_code == 0);
    merge.push_back(name + ".jfab");
  }
  CHECK(jfa_command(merge).exit_code == 0);
  CHECK(read_text(directory / "merged.jfab") == read_text(precompiled().bundle));

  CHECK(
      jfa_command({"bundle", "create", "-o", directory / "packed.jfab", "--from-cache", precompiled().cache})
          .exit_code == 0);
  CHECK(read_text(directory / "packed.jfab") == read_text(precompiled().bundle));
  const CommandResult none = jfa_command({"bundle", "create", "-o", directory / "none.jfab", "--from-cache",
                                          precompiled().cache, "--target", "sm_103a"});
  CHECK(has(none.output, "0 kernels"));
  CHECK(jfa_command({"bundle", "verify", directory / "merged.jfab"}).exit_code == 0);
  CHECK(Precompiled::precompile({"--shard", "2/2"}).exit_code == 2);
}

TEST_CASE("without NVRTC a bundle serves every kernel in it: zero compiles") {
  const TemporaryDirectory empty;
  for (const char* window : {"none", "0"}) {
    const std::vector<std::string> emit{"emit", "--head-dim", "16", "--window", window, "--format", "cubin"};
    const CommandResult served = jfa_command(emit, without_nvrtc(empty.path()));
    CAPTURE(served.error);
    CHECK(served.exit_code == 0);
    CHECK(served.output == jfa_command(emit, {"JFA_CACHE_DIR=" + precompiled().cache}).output);
  }
  // The same through the library, where there is a counter.
  ::setenv("JFA_NVRTC", empty.path().c_str(), 1);
  CacheOptions options;
  options.bundles = {precompiled().bundle};
  KernelCache cache(options);
  for (const std::optional<std::int64_t> window :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
    Configuration configuration;
    configuration.head_dim = 16;
    configuration.window = window;
    const KernelSpec spec = specialize(configuration).value();
    const auto image = compile(cache, source_of(spec).value());
    CAPTURE(image.status().message());
    CHECK(image.ok());
  }
  ::unsetenv("JFA_NVRTC");
  CHECK(cache.stats().bundle_hits == 2);
  CHECK(cache.stats().compiles == 0);
}

TEST_CASE("a simulated device takes a bundle of its own target's kernels, and names it where it has none") {
  const TemporaryDirectory directory;
  const std::string sentences = JFA_SAMPLES "/sentences.safetensors";
  const auto run = [&](const std::string& bundles) {
    return jfa_command({"run", sentences, "--device", "sim:sm_90a"},
                       {"JFA_NVRTC=" + directory.path().string(), "JFA_CACHE=off", "JFA_COMPILE=never",
                        "JFA_BUNDLES=" + bundles});
  };
  const std::vector<std::string> precompile{"precompile",        "--head-dim",  "32",
                                            "--target",          "compute_90a", "--cache-dir",
                                            directory / "cache", "-o",          directory / "simulated.jfab"};
  REQUIRE(jfa_command(precompile).exit_code == 0);
  const CommandResult served = run(directory / "simulated.jfab");
  CAPTURE(served.error);
  CHECK(served.exit_code == 0);
  const json list =
      json::parse(jfa_command({"bundle", "list", directory / "simulated.jfab", "--json"}).output);
  CHECK(list.at(0).at("target") == "compute_90a");
  const CommandResult refused = run("");
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.error, "no cached kernel for 'forward-bf16-d32-compute_90a' (target compute_90a"));
  CHECK(has(refused.error, "make it with: jfa precompile --target compute_90a --pass forward --head-dim 32"));
}

TEST_CASE("line information of machine code: asked for by option or variable, under a key of its own") {
  const TemporaryDirectory directory;
  const std::string cache = "JFA_CACHE_DIR=" + (directory / "cache");
  const auto emit = [&](std::vector<std::string> more, std::vector<std::string> environment) {
    std::vector<std::string> arguments{"emit", "--head-dim", "16", "--target", "sm_90a", "--format", "cubin"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    environment.push_back(cache);
    return jfa_command(arguments, environment);
  };
  const CommandResult plain = emit({}, {});
  const CommandResult asked = emit({"--line-info"}, {});
  CAPTURE(asked.error);
  CHECK(asked.exit_code == 0);
  CHECK_FALSE(has(plain.output, ".debug_line"));
  CHECK(has(asked.output, ".debug_line"));
  CHECK(has(asked.output, "forward-bf16-d16-sm_90a.cu"));
  CHECK(entries_of(directory / "cache").size() == 2);
  // The second is there already, for the variable too.
  CHECK(emit({}, {"JFA_LINE_INFO=1", "JFA_COMPILE=never"}).output == asked.output);
  CHECK(emit({"--dtype", "fp16", "--line-info"}, {"JFA_COMPILE=never"}).error.find(" --line-info\n") !=
        std::string::npos);
  const CommandResult wrong = emit({}, {"JFA_LINE_INFO=yes"});
  CHECK(wrong.exit_code == 2);
  CHECK(has(wrong.error, "JFA_LINE_INFO is 'yes', neither 0 nor 1"));
  // An `a` target's PTX would serve nobody: it is in no entry, and can be had all the same.
  CHECK(decode_entry(read_text(entries_of(directory / "cache").front())).value().image.ptx.empty());
  CHECK(
      has(jfa_command({"emit", "--head-dim", "16", "--target", "sm_90a", "--format", "ptx"}, {cache}).output,
          ".target sm_90a"));
  const CommandResult no_machine_code =
      jfa_command({"emit", "--head-dim", "16", "--target", "compute_90a", "--format", "cubin"}, {cache});
  CHECK(no_machine_code.exit_code == 2);
  CHECK(has(no_machine_code.error, "target 'compute_90a' is virtual and has PTX only"));
}

TEST_CASE("JFA_COMPILE=never prints the command that makes the kernel, and that command does") {
  const TemporaryDirectory directory;
  const std::vector<std::string> environment{"JFA_CACHE_DIR=" + (directory / "cache"), "JFA_COMPILE=never"};
  const std::vector<std::string> emit{"emit", "--head-dim", "16", "--dtype",  "fp16", "--window",
                                      "3",    "--groups",   "2",  "--format", "ptx",  "--broadcast-q"};
  const CommandResult missing = jfa_command(emit, environment);
  CHECK(missing.exit_code == 2);
  const std::string marker = "make it with: jfa ";
  const std::size_t at = missing.error.find(marker);
  REQUIRE(at != std::string::npos);
  const std::string command =
      missing.error.substr(at + marker.size(), missing.error.find('\n', at) - at - marker.size());
  std::istringstream words(command);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  CAPTURE(command);
  CHECK(jfa_command(arguments, {"JFA_CACHE_DIR=" + (directory / "cache")}).exit_code == 0);
  CHECK(jfa_command(emit, environment).exit_code == 0);
}

TEST_CASE("an interrupted precompilation goes on where it was killed") {
  const TemporaryDirectory directory;
  const std::string cache = directory / "cache";
  const pid_t process = ::fork();
  if (process == 0) {
    ::execl(JFA_TOOL, JFA_TOOL, "precompile", "--head-dim", "16", "--window", "1", "2", "3", "--jobs", "1",
            "--cache-dir", cache.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (int wait = 0; wait < 60'000 && entries_of(cache).empty(); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  const std::size_t before = entries_of(cache).size();
  REQUIRE(before >= 1);
  const CommandResult result = jfa_command({"precompile", "--head-dim", "16", "--window", "1", "2", "3",
                                            "--cache-dir", cache, "-o", directory / "kernels.jfab"});
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  CHECK(has(result.output, std::to_string(before) + " there already"));
  CHECK(jfa_command({"bundle", "verify", directory / "kernels.jfab"}).output == "3 kernels, 0 damaged\n");
}

TEST_CASE("list and stats, for people and for programs") {
  const std::string& cache = precompiled().cache;
  const CommandResult list = jfa_command({"cache", "list", "--cache-dir", cache});
  CHECK(has(list.output, "forward-bf16-d16-sm_100f"));
  CHECK(has(list.output, "forward-bf16-d16-w0-sm_100f"));
  const json entries = json::parse(jfa_command({"cache", "--json", "list", "--cache-dir", cache}).output);
  REQUIRE(entries.size() == 2);
  for (const json& entry : entries) {
    CHECK(entry["target"] == "sm_100f");
    CHECK(entry["bytes"] > 1000);
    CHECK(entry["compile_ms"] > 0);
    CHECK(entry["written_by"] == version_and_commit());
    CHECK(entry["request"].get<std::string>().size() == 64);
    CHECK(fs::exists(entry["path"].get<std::string>()));
  }
  const json stats = json::parse(jfa_command({"cache", "stats", "--json", "--cache-dir", cache}).output);
  CHECK(stats["entries"] == 2);
  CHECK(stats["by_target"]["sm_100f"]["entries"] == 2);
  CHECK(stats["by_compiler"].size() == 1);
  CHECK(stats["damaged"] == 0);
  CHECK(has(jfa_command({"cache", "stats", "--cache-dir", cache}).output, "entries      2"));
  const json bundled = json::parse(jfa_command({"bundle", "list", precompiled().bundle, "--json"}).output);
  CHECK(bundled.size() == 2);
  CHECK(bundled[0]["request"] == entries[0]["request"]);
  CHECK(bundled[0]["written_by"] == version_and_commit());
  CHECK(has(jfa_command({"bundle", "list", precompiled().bundle}).output, "forward-bf16-d16-w0-sm_100f"));
}

TEST_CASE("explain: fields that can be compared, and where the kernel was looked for") {
  const std::string& cache = precompiled().cache;
  const auto explain = [&](const char* window) {
    return jfa_command({"cache", "explain", "--head-dim", "16", "--window", window, "--cache-dir", cache});
  };
  const CommandResult there = explain("0");
  CHECK(there.exit_code == 0);
  CHECK(has(there.output, "target: sm_100f\n"));
  CHECK(has(there.output, "source_sha256: "));
  CHECK(has(there.output, "compiler: build-id:"));
  CHECK(has(there.error, cache + ": found"));
  CHECK(explain("0").output == there.output);
  const CommandResult absent = explain("77");
  CHECK(absent.exit_code == 1);
  CHECK(absent.output != there.output);
  CHECK(has(absent.error, cache + ": not there"));
  const json both = json::parse(
      jfa_command({"cache", "explain", "--head-dim", "16", "--json", "--cache-dir", cache}).output);
  CHECK(both["fields"]["target"] == "sm_100f");
  CHECK(both["why"].size() >= 2);
}

TEST_CASE("verify, trim and clear") {
  const TemporaryDirectory directory;
  const std::string cache = directory / "cache";
  fs::copy(precompiled().cache, cache, fs::copy_options::recursive);
  fs::permissions(cache, fs::perms::owner_all);
  CHECK(jfa_command({"cache", "verify", "--cache-dir", cache}).output == "2 entries, 0 damaged\n");

  const std::string victim = entries_of(cache).front();
  std::ofstream(victim, std::ios::binary | std::ios::app) << "x";
  const CommandResult damaged = jfa_command({"cache", "verify", "--cache-dir", cache});
  CHECK(damaged.exit_code == 1);
  CHECK(has(damaged.output, victim + ": the file has"));
  CHECK(fs::exists(victim));
  const CommandResult moved =
      jfa_command({"cache", "verify", "--move-aside", "--json", "--cache-dir", cache});
  CHECK(json::parse(moved.output)["damaged"].size() == 1);
  CHECK_FALSE(fs::exists(victim));
  CHECK(entries_of(cache).size() == 1);

  // Too young to be evicted, whatever the cap; an hour later it goes.
  const auto trim = [&] {
    return jfa_command({"cache", "trim", "--max-bytes", "1K", "--json", "--cache-dir", cache});
  };
  CHECK(json::parse(trim().output)["evicted"] == 0);
  fs::last_write_time(entries_of(cache).front(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(json::parse(trim().output)["evicted"] == 1);
  CHECK(entries_of(cache).empty());
  CHECK(jfa_command({"cache", "trim", "--max-bytes", "lots", "--cache-dir", cache}).exit_code == 2);

  CHECK(Precompiled::precompile({"--cache-dir", cache}).exit_code == 0);
  CHECK(jfa_command({"cache", "clear", "--cache-dir", cache}).exit_code == 0);
  CHECK(entries_of(cache).empty());
  CHECK(jfa_command({"cache", "list"}, {"JFA_CACHE=off"}).exit_code == 2);
}

TEST_CASE("a directory that is no cache is refused by every subcommand, by name, and left as it is") {
  const TemporaryDirectory directory;
  const std::string theirs = directory.path();
  fs::permissions(theirs, fs::perms::owner_all);
  fs::create_directory(directory / "tmp");
  std::ofstream(directory / "tmp/report.tmp.txt") << "not ours";
  fs::last_write_time(directory / "tmp/report.tmp.txt",
                      fs::file_time_type::clock::now() - std::chrono::hours(48));
  for (const char* command : {"list", "stats", "verify", "trim", "clear"}) {
    CAPTURE(std::string(command));
    const CommandResult result = jfa_command({"cache", command, "--cache-dir", theirs});
    CHECK(result.exit_code == 2);
    CHECK(has(result.error, theirs + " is no kernel cache: it holds 'tmp/report.tmp.txt'"));
  }
  CHECK(jfa_command({"cache", "explain", "--head-dim", "16", "--cache-dir", theirs}).exit_code == 2);
  // A kernel is had all the same.
  const CommandResult emit = jfa_command({"emit", "--head-dim", "16", "--format", "cubin"},
                                         {"JFA_CACHE_DIR=" + theirs, "JFA_BUNDLES=" + precompiled().bundle});
  CHECK(emit.exit_code == 0);
  CHECK(has(emit.error, "jfa: no cache directory: "));
  CHECK(std::distance(fs::recursive_directory_iterator(theirs), {}) == 2);
}

TEST_CASE("what cannot be used is blamed on the option or variable that it came from") {
  const auto error = [](std::vector<std::string> arguments,
                        const std::vector<std::string>& environment = {}) {
    const CommandResult result = jfa_command(std::move(arguments), environment);
    CHECK(result.exit_code == 2);
    return result.error;
  };
  CHECK(has(error({"cache", "list"}, {"JFA_CACHE_DIR=~/x"}),
            "JFA_CACHE_DIR='~/x': expected a path without '~'"));
  CHECK(
      has(error({"cache", "list", "--cache-dir", "~/x"}), "--cache-dir='~/x': expected a path without '~'"));
  CHECK(has(error({"cache", "trim", "--max-bytes", "-1"}), "--max-bytes='-1': expected a number of bytes"));
  CHECK(has(error({"cache", "trim"}, {"JFA_CACHE_MAX_BYTES=-1"}), "JFA_CACHE_MAX_BYTES='-1': expected"));
}

TEST_CASE("trim keeps the kernel that a process has just used, and explaining one is no use of it") {
  const TemporaryDirectory directory;
  const std::string cache = directory / "cache";
  fs::copy(precompiled().cache, cache, fs::copy_options::recursive);
  fs::permissions(cache, fs::perms::owner_all);
  for (const std::string& entry : entries_of(cache))
    fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::minutes(10));
  const auto seconds_ago = [&](const std::string& name) {
    const json list = json::parse(jfa_command({"cache", "--json", "list", "--cache-dir", cache}).output);
    for (const json& entry : list) {
      if (entry["name"] == name) return std::time(nullptr) - entry["last_use_s"].get<std::int64_t>();
    }
    return std::int64_t{-1};
  };
  CHECK(jfa_command({"cache", "explain", "--head-dim", "16", "--cache-dir", cache}).exit_code == 0);
  CHECK(jfa_command({"emit", "--head-dim", "16", "--window", "0", "--format", "cubin"},
                    {"JFA_CACHE_DIR=" + cache})
            .exit_code == 0);
  CHECK(seconds_ago("forward-bf16-d16-sm_100f") >= 600);
  CHECK(seconds_ago("forward-bf16-d16-w0-sm_100f") <= 10);
  CHECK(jfa_command({"cache", "trim", "--max-bytes", "1K", "--cache-dir", cache}).exit_code == 0);
  CHECK(seconds_ago("forward-bf16-d16-sm_100f") == -1);
  CHECK(seconds_ago("forward-bf16-d16-w0-sm_100f") >= 0);
}

}  // namespace
}  // namespace jfa::test
