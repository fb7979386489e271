// jfa doctor as a health check: what makes its exit status 1, and what its JSON says.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/bundle.h"
#include "generator/emit.h"
#include "tests/command_runner.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Doctor {
  int exit_code = -1;
  json report;
  std::string problems;  // one a line
  std::string warnings;
};

// On a machine without NVRTC, home or Python; `environment` comes on top.
Doctor doctor(std::vector<std::string> environment, const std::vector<std::string>& options = {},
              const std::string& program = JFA_TOOL) {
  environment.insert(environment.end(), {"JFA_IGNORE_TOOLKIT=1", "PATH=/nonexistent", "HOME=/nonexistent",
                                         "CONDA_PREFIX=", "VIRTUAL_ENV="});
  for (const char* variable : {"JFA_NVRTC", "JFA_CACHE_DIR", "JFA_COMPILE", "XDG_CACHE_HOME"}) {
    const std::string assignment = std::string(variable) + "=";
    bool given = false;
    for (const std::string& change : environment) given = given || change.starts_with(assignment);
    if (!given) environment.push_back(assignment);
  }
  std::vector<std::string> arguments{program, "doctor", "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const CommandResult result = run_command(arguments, environment);
  CAPTURE(result.error);
  Doctor doctor;
  doctor.exit_code = result.exit_code;
  doctor.report = json::parse(result.output);
  CHECK(doctor.report.at("healthy") == (result.exit_code == 0));
  for (const json& line : doctor.report.at("problems")) doctor.problems += line.get<std::string>() + "\n";
  for (const json& line : doctor.report.at("warnings")) doctor.warnings += line.get<std::string>() + "\n";
  CAPTURE(doctor.report.dump(1));
  return doctor;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A bundle of kernels, compiled by nobody: doctor does not look into the images.
void write_bundle(const std::string& path, const std::vector<Configuration>& configurations,
                  const std::string& more_source = {}, const Tuning& tuning = {}, bool line_info = false) {
  std::map<Digest, Entry> entries;
  for (const Configuration& configuration : configurations) {
    const KernelSpec spec = specialize(configuration).value();
    const KernelSource source = source_of(spec, tuning, line_info).value();
    Entry entry;
    entry.fields = {sha256(source.text + more_source), source.target, source.options};
    entry.source_bytes = source.text.size();
    entry.image.name = source.name;
    entry.image.target = source.target;
    entry.image.compiler = "nobody";
    entry.image.cubin =
        "\x7f"
        "ELF";
    entry.image.ptx = ".version 9.0\n";
    entries[request_key(entry.fields)] = entry;
  }
  std::ofstream file(path, std::ios::binary);
  BundleWriter writer([&](std::string_view bytes) {
    file << bytes;
    return Status();
  });
  for (const auto& entry : entries) REQUIRE(writer.add(entry.second).ok());
  REQUIRE(writer.finish().ok());
}

Configuration configuration(std::int64_t head_dim, const char* target) {
  Configuration result;
  result.head_dim = head_dim;
  result.target = target;
  return result;
}

const std::vector<Configuration> kThree{configuration(64, "sm_100f"), configuration(128, "sm_100f"),
                                        configuration(64, "sm_90a")};

TEST_CASE("a right image without a compiler is healthy, and its kernels are counted by target") {
  const TemporaryDirectory directory;
  const std::string bundle = directory / "kernels.jfab";
  write_bundle(bundle, kThree);
  const Doctor never = doctor({"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + bundle});
  CHECK(never.exit_code == 0);
  CHECK(never.problems.empty());
  CHECK(never.warnings.empty());
  CHECK(never.report["compile"] == "never");
  CHECK(never.report["nvrtc"]["available"] == false);
  REQUIRE(never.report["stores"].size() == 1);
  const json& store = never.report["stores"][0];
  CHECK(store["kind"] == "bundle");
  CHECK(store["path"] == bundle);
  CHECK(store["usable"] == true);
  CHECK(store["kernels"] == json{{"sm_100f", 2}, {"sm_90a", 1}});
  CHECK(store["other_version"] == 0);
  CHECK(store["damaged"].empty());
  CHECK(never.report["environment"]["JFA_BUNDLES"] == bundle);
  // Nobody said that nothing is to be compiled; it just cannot be.
  const Doctor automatic = doctor({"JFA_CACHE=off", "JFA_BUNDLES=" + bundle});
  CHECK(automatic.exit_code == 0);
  CHECK(has(automatic.warnings, "only kernels that are at hand can run"));
  // In words.
  const CommandResult words =
      run_command({JFA_TOOL, "doctor"}, {"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + bundle});
  CHECK(words.exit_code == 0);
  CHECK(has(words.output, "bundle: " + bundle + ": 3 kernels (2 sm_100f, 1 sm_90a), "));
  CHECK(has(words.output, "health       good\n"));
}

TEST_CASE("what was named and cannot be used is a problem, each by its name") {
  const TemporaryDirectory directory;
  const std::string bundle = directory / "kernels.jfab";
  write_bundle(bundle, kThree);
  const std::vector<std::string> base{"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + bundle};
  const auto with = [&](const std::string& change) {
    std::vector<std::string> environment = base;
    std::erase_if(environment, [&](const std::string& text) {
      return text.starts_with(change.substr(0, change.find('=') + 1));
    });
    environment.push_back(change);
    const Doctor result = doctor(environment);
    CHECK(result.exit_code == 1);
    CHECK(result.report["problems"].size() == 1);
    return result;
  };
  const Doctor missing = with("JFA_BUNDLES=" + bundle + ":" + (directory / "gone.jfab"));
  CHECK(missing.problems == (directory / "gone.jfab") + " cannot be used: No such file or directory\n");
  CHECK(missing.report["stores"][0]["usable"] == true);
  CHECK(missing.report["stores"][1]["usable"] == false);
  CHECK(missing.report["stores"][1]["message"] == "No such file or directory");
  CHECK(has(with("JFA_CACHE_READ_ONLY_DIRS=" + (directory / "gone")).problems, "gone cannot be used: "));
  CHECK(has(with("JFA_CACHE=perhaps").problems, "JFA_CACHE='perhaps'"));
  CHECK(has(with("JFA_CHECK_OFFSETS=2").problems, "JFA_CHECK_OFFSETS is '2'"));
  // One flipped bit in one kernel.
  std::string bytes = read_text(bundle);
  bytes[100] ^= 1;  // of the first one
  std::ofstream(directory / "damaged.jfab", std::ios::binary) << bytes;
  const Doctor damaged = with("JFA_BUNDLES=" + (directory / "damaged.jfab"));
  CHECK(has(damaged.problems, "damaged.jfab: 1 damaged kernels"));
  CHECK(damaged.report["stores"][0]["damaged"].size() == 1);
  // Somebody else's directory for the cache.
  fs::create_directory(directory / "photos");
  std::ofstream(directory / "photos/1.jpg") << "x";
  std::vector<std::string> foreign{"JFA_COMPILE=never", "JFA_BUNDLES=" + bundle,
                                   "JFA_CACHE_DIR=" + (directory / "photos")};
  CHECK(has(doctor(foreign).problems, "JFA_CACHE_DIR: "));
}

TEST_CASE("kernels of another version are never asked for, so they are no kernels") {
  const TemporaryDirectory directory;
  const std::string bundle = directory / "old.jfab";
  write_bundle(bundle, kThree, "// of another version\n");
  const Doctor old = doctor({"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + bundle});
  CHECK(old.exit_code == 1);
  CHECK(old.problems == "nothing can be compiled here, as JFA_COMPILE=never, and no kernel is at hand\n");
  CHECK(has(old.warnings, "old.jfab: 3 kernels are never asked for: of another version of this library"));
  CHECK(old.report["stores"][0]["other_version"] == 3);
  CHECK(old.report["stores"][0]["kernels"].empty());
}

TEST_CASE("tuned kernels are no kernels, nor are those whose line information is not what is asked for") {
  const TemporaryDirectory directory;
  const auto judged = [&](const Tuning& tuning, bool line_info, std::vector<std::string> environment) {
    write_bundle(directory / "it.jfab", kThree, {}, tuning, line_info);
    environment.insert(environment.end(),
                       {"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + (directory / "it.jfab")});
    const Doctor result = doctor(std::move(environment));
    CHECK(result.report["stores"][0]["other_version"] == (result.exit_code == 0 ? 0 : 3));
    return result.exit_code;
  };
  CHECK(judged({}, false, {"JFA_LINE_INFO=0"}) == 0);
  CHECK(judged({}, true, {"JFA_LINE_INFO=1"}) == 0);
  CHECK(judged({}, false, {"JFA_LINE_INFO=1"}) == 1);
  CHECK(judged({}, true, {"JFA_LINE_INFO=0"}) == 1);
  CHECK(judged({{{"split_parts", 128}}}, false, {"JFA_LINE_INFO=0"}) == 1);
}

TEST_CASE("with neither compiler nor kernels nothing is well, and a GPU may be asked for") {
  const Doctor nothing = doctor({"JFA_CACHE=off"});
  CHECK(nothing.exit_code == 1);
  CHECK(nothing.problems == "nothing can be compiled here, as there is no NVRTC, and no kernel is at hand\n");
  CHECK(nothing.report["nvrtc"]["searched"].size() > 0);
  const TemporaryDirectory directory;
  const std::string bundle = directory / "kernels.jfab";
  write_bundle(bundle, kThree);
  const Doctor gpu =
      doctor({"JFA_COMPILE=never", "JFA_CACHE=off", "JFA_BUNDLES=" + bundle}, {"--require-gpu"});
  CHECK(gpu.exit_code == (gpu.report["device"] == "cuda:0" ? 0 : 1));
  CHECK(has(gpu.problems, "no GPU") == (gpu.exit_code == 1));
}

TEST_CASE("NVRTC is found in the packages of the interpreter that runs us, which nobody activated") {
  const TemporaryDirectory directory;
  const fs::path packages = directory.path() / "venv/lib/python3.12/site-packages/nvidia/cu13/lib";
  fs::create_directories(packages);
  fs::create_directories(directory.path() / "venv/bin");
  fs::copy_file(JFA_FAKE_NVRTC_OLD, packages / "libnvrtc.so.13");
  fs::create_symlink(JFA_TOOL, directory / "venv/bin/python");
  const Doctor found = doctor({"JFA_CACHE=off"}, {}, directory / "venv/bin/python");
  CHECK(found.report["nvrtc"]["path"] == (packages / "libnvrtc.so.13").string());
  CHECK(found.report["nvrtc"]["origin"] == "the packages of this program's Python");
  // That one is too old for Blackwell, and has no companion.
  CHECK(found.exit_code == 1);
  CHECK(has(found.problems, "nothing can be compiled here, as NVRTC"));
}

}  // namespace
}  // namespace jfa::test
