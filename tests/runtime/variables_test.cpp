// The table of environment variables: what the sources read, what the pages say, and names that nobody reads.
#include "runtime/variables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

using namespace jfa;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What `pattern`'s first group matches in files below a folder whose names end in one of `endings`.
void collect(const fs::path& folder, const std::vector<std::string>& endings, const std::regex& pattern,
             std::set<std::string>& names) {
  for (const auto& file : fs::recursive_directory_iterator(folder)) {
    const std::string path = file.path().string();
    if (!file.is_regular_file() || path == "runtime/variables.cpp" ||
        std::ranges::none_of(endings, [&](const std::string& ending) { return path.ends_with(ending); }))
      continue;
    const std::string text = read(file.path());
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
      names.insert((*match)[1]);
  }
}

// Names of variables that anything in the tree reads.
std::set<std::string> read_by_sources() {
  std::set<std::string> names;
  // In the library a literal that is a variable's name is one, however it is read.
  const std::regex literal("\"(JFA_[A-Z0-9_]+)\"");
  for (const char* folder : {"base", "cache", "runtime", "generator", "tuning", "simulator", "reference",
                             "formats", "conformance", "tools", "bench", "examples"})
    collect(folder, {".cpp", ".h", ".c"}, literal, names);
  // Tests also set variables that nobody may read.
  collect("tests", {".cpp", ".h", ".c"}, std::regex("getenv\\(\"(JFA_[A-Z0-9_]+)\""), names);
  for (const char* folder : {"bench", "tests", "tools"})
    collect(folder, {".py"}, std::regex("environ[^\\n]*[\"'](JFA_[A-Z0-9_]+)[\"']"), names);
  collect("python", {".py", ".toml"}, std::regex("\"(JFA_[A-Z0-9_]+)\""), names);
  collect("tools", {".sh", "quickstart", "check", "check_python", "tidy"},
          std::regex("\\$\\{?(JFA_[A-Z0-9_]+)"), names);
  return names;
}

}  // namespace

TEST_CASE("the table has every JFA_ variable that the sources read, and no other") {
  std::set<std::string> listed;
  for (const Variable& variable : variables())
    if (variable.name.starts_with("JFA_")) listed.insert(std::string(variable.name));
  CHECK(listed.size() > 10);
  CHECK(read_by_sources() == listed);
}

TEST_CASE("docs/runtime.md has the table, word for word, README.md and docs/python.md what users set") {
  std::string table = "| variable | value | default | meaning |\n|---|---|---|---|\n";
  for (const Variable& variable : variables())
    table += "| `" + std::string(variable.name) + "` | " + std::string(variable.values) + " | " +
             std::string(variable.default_value) + " | " + std::string(variable.meaning) + " |\n";
  CAPTURE(table);
  const bool as_it_stands = read("docs/runtime.md").find(table) != std::string::npos;
  CHECK(as_it_stands);
  const std::string readme = read("README.md");
  const std::string python = read("docs/python.md");
  for (const Variable& variable : variables()) {
    if (!variable.name.starts_with("JFA_") || variable.meaning.starts_with("of the tests")) continue;
    CAPTURE(std::string(variable.name));
    const std::string quoted = "`" + std::string(variable.name);
    const bool of_python = variable.meaning.starts_with("of the Python package");
    CHECK((of_python ? python.find(quoted) : readme.find("| " + quoted + "` |")) != std::string::npos);
  }
}

TEST_CASE("the operator's page of the cache has its variables, with their defaults") {
  const std::string page = read("docs/cache.md");
  for (const Variable& variable : variables()) {
    if (!variable.name.starts_with("JFA_CACHE") && variable.name != "JFA_BUNDLES" &&
        variable.name != "JFA_COMPILE")
      continue;
    CAPTURE(std::string(variable.name));
    const std::size_t row = page.find("| `" + std::string(variable.name) + "` |");
    REQUIRE(row != std::string::npos);
    std::string default_value(variable.default_value);
    std::erase(default_value, '`');
    CHECK(page.substr(row, page.find('\n', row) - row).find("| " + default_value + " |") !=
          std::string::npos);
  }
}

TEST_CASE("a name that nobody reads is named, with the one that was meant") {
  CHECK(complaint_about("JFA_CACHE_DIR").empty());
  CHECK(complaint_about("JFA_CACHEDIR") ==
        "JFA_CACHEDIR is not a variable of jfa; did you mean JFA_CACHE_DIR?");
  CHECK(complaint_about("JFA_VERBOS") == "JFA_VERBOS is not a variable of jfa; did you mean JFA_VERBOSE?");
  CHECK(complaint_about("jfa_cache") == "jfa_cache is not a variable of jfa; did you mean JFA_CACHE?");
  CHECK(complaint_about("JFA_BUNDEL") == "JFA_BUNDEL is not a variable of jfa; did you mean JFA_BUNDLES?");
  CHECK(complaint_about("JFA_SOMETHING_ELSE") == "JFA_SOMETHING_ELSE is not a variable of jfa");
  CHECK(looks_like_ours("JFA_X"));
  CHECK(looks_like_ours("jfa_cache_dir"));
  CHECK_FALSE(looks_like_ours("MY_JFA_X"));
  CHECK_FALSE(looks_like_ours("JFA"));
}
