// Where NVRTC is looked for: folders of Python packages that nobody activated.
#include "runtime/nvrtc_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/own_process.h"
#include "tests/command_runner.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWheel = "nvidia/cu13/lib/libnvrtc.so.13";

// A tree of empty files.
class Tree {
 public:
  std::string touch(const std::string& name, const std::string& text = {}) const {
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  std::string operator/(const std::string& name) const { return directory_ / name; }

 private:
  TemporaryDirectory directory_;
};

NvrtcSearch search_without_toolkit() {
  NvrtcSearch search;
  search.ignore_toolkit = true;
  return search;
}

std::vector<std::string> found_by(const NvrtcSearch& search) {
  std::vector<std::string> paths;
  for (const NvrtcCandidate& candidate : nvrtc_candidates(search)) paths.push_back(candidate.path);
  return paths;
}

TEST_CASE("an interpreter that is started by its path, without its environment, has NVRTC in its packages") {
  const Tree tree;
  const std::string wheel = tree.touch(std::string("venv/lib/python3.12/site-packages/") + kWheel);
  const std::string settings = "home = " + (tree / "base/bin") + "\ninclude-system-site-packages = ";
  tree.touch("venv/pyvenv.cfg", settings + "false\n");
  const std::string base_wheel = tree.touch(std::string("base/lib/python3.12/site-packages/") + kWheel);
  tree.touch("base/bin/python3.12");
  fs::create_directories(tree / "venv/bin");
  fs::create_symlink(tree / "base/bin/python3.12", tree / "venv/bin/python");
  NvrtcSearch search = search_without_toolkit();
  search.programs = {tree / "venv/bin/python"};
  CHECK(found_by(search) == std::vector{wheel});
  CHECK(nvrtc_candidates(search).front().origin == "the packages of this program's Python");
  // A program beside it, such as /venv/bin/uvicorn, is in the same environment.
  search.programs = {tree / "venv/bin/uvicorn"};
  CHECK(found_by(search) == std::vector{wheel});
  // One that takes its base's packages too.
  tree.touch("venv/pyvenv.cfg", settings + "true\r\n");
  CHECK(found_by(search) == std::vector{wheel, base_wheel});
  // Without an environment the resolved name is all that there is.
  search.programs = {tree / "base/bin/python3.12"};
  CHECK(found_by(search) == std::vector{base_wheel});
  // A server beside some packages is no interpreter's.
  search.programs = {tree / "venv/server"};
  CHECK(found_by(search).empty());
}

TEST_CASE("a conda environment's interpreter has the environment's own libraries") {
  const Tree tree;
  tree.touch("env/conda-meta/history");
  const std::string library = tree.touch("env/lib/libnvrtc.so.12");
  NvrtcSearch search = search_without_toolkit();
  search.programs = {tree / "env/bin/python3"};
  CHECK(found_by(search) == std::vector{library});
}

TEST_CASE("libraries that the process has loaded tell which packages it uses") {
  const Tree tree;
  const std::string wheel = tree.touch(std::string("app/lib64/python3.11/site-packages/") + kWheel);
  const std::string old_wheel =
      tree.touch("app/lib64/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  const std::string debian = tree.touch(std::string("usr/local/lib/python3.11/dist-packages/") + kWheel);
  const std::string beside = tree.touch("opt/lib/libnvrtc.so.13");
  const std::string target = tree.touch(std::string("target/") + kWheel);
  const auto found = [&](const std::string& library) {
    NvrtcSearch search = search_without_toolkit();
    search.libraries = {library};
    return found_by(search);
  };
  CHECK(found(tree / "app/lib64/python3.11/site-packages/numpy/core/x.so") == std::vector{wheel, old_wheel});
  CHECK(found(tree / "app/lib64/python3.11/site-packages/jfa/libjfa.so") == std::vector{wheel, old_wheel});
  // An embedded interpreter: its library, or a module of its own.
  CHECK(found(tree / "usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0") == std::vector{debian});
  CHECK(found(tree / "usr/lib/python3.11/lib-dynload/_ctypes.so") == std::vector{debian});
  CHECK(found(tree / "opt/lib/libjfa.so.0") == std::vector{beside});
  CHECK(found(tree / "target/jfa/libjfa.so") == std::vector{target});  // pip install --target
  CHECK(found(tree / "opt/lib/libother.so").empty());
}

TEST_CASE("what is loaded already comes first, and no file is tried twice") {
  const Tree tree;
  const std::string packages = "venv/lib/python3.12/site-packages/";
  const std::string wheel = tree.touch(packages + kWheel);
  NvrtcSearch search;
  search.libraries = {wheel};
  search.virtual_env = tree / "venv";
  search.programs = {tree / "venv/bin/python"};
  const std::vector<NvrtcCandidate> candidates = nvrtc_candidates(search);
  CHECK(candidates.front().path == wheel);
  CHECK(candidates.front().origin == "loaded already");
  search.ignore_toolkit = true;
  CHECK(found_by(search) == std::vector{wheel});
}

TEST_CASE("the places that were looked at are told, also where there is nothing") {
  const Tree tree;
  NvrtcSearch search = search_without_toolkit();
  search.programs = {tree / "venv/bin/python"};
  search.home = tree / "home";
  std::vector<std::string> places;
  for (const NvrtcPlace& place : nvrtc_places(search)) {
    CHECK(place.libraries.empty());
    places.push_back(place.where);
  }
  CHECK(places ==
        std::vector{tree / "venv/lib/python3*/*-packages", tree / "home/.local/lib/python3*/*-packages"});
}

TEST_CASE("this process knows its program and what it has loaded") {
  const std::vector<std::string> programs = program_paths();
  REQUIRE_FALSE(programs.empty());
  CHECK(fs::equivalent(programs.front(), "/proc/self/exe"));
  const std::vector<std::string> libraries = loaded_libraries();
  CHECK(std::any_of(libraries.begin(), libraries.end(),
                    [](const std::string& path) { return path.find("/libc.so.6") != std::string::npos; }));
}

}  // namespace
}  // namespace jfa::test
