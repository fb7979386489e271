// docs/bug-pool.md and the tests' names say the same. Runs in the source directory.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/command_runner.h"

namespace jfa::test {
namespace {

constexpr std::size_t kRows = 107;

using TestsOfRow = std::map<int, std::set<std::string>>;

std::set<std::string> matches(const std::string& text, const std::regex& pattern, int group) {
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[group]);
  }
  return found;
}

// Rows of the page, and the files that each names; a row without a test must give a reason.
TestsOfRow rows_of_page() {
  static const std::regex row(R"(\| (\d+) \|[^|]*\|[^|]*\| (.*) \|)");
  static const std::regex test_file(R"(`((?:\w+/)?(?:\w+_test|test_\w+))`)");
  TestsOfRow rows;
  std::ifstream page("docs/bug-pool.md");
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    CAPTURE(line);
    const std::string last = match[2];
    const std::set<std::string> files = matches(last, test_file, 1);
    CHECK(rows.emplace(std::stoi(match[1]), files).second);
    CHECK(files.empty() == (last.rfind("none: ", 0) == 0));
  }
  return rows;
}

// Adds the rows that the tests of one kind claim in their names or, in Python, docstrings.
void add_rows(const std::string& directory, const std::string& extension, const std::regex& name,
              TestsOfRow* rows) {
  static const std::regex number(R"(\d+)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != extension) continue;
    for (const std::string& numbers : matches(read_text(entry.path()), name, 1)) {
      for (const std::string& row : matches(numbers, number, 0)) {
        (*rows)[std::stoi(row)].insert(
            std::filesystem::relative(entry.path(), directory).replace_extension());
      }
    }
  }
}

// Rows that tests claim, by file.
TestsOfRow rows_of_tests() {
  TestsOfRow rows;
  add_rows("tests", ".cpp", std::regex(R"rx(TEST_CASE\(\s*"bug-pool ((?:\d+(?:, )?)+))rx"), &rows);
  add_rows("python/tests", ".py", std::regex(R"rx("""bug-pool ((?:\d+(?:, )?)+))rx"), &rows);
  return rows;
}

TEST_CASE("every row of the bug pool is listed with the tests that cover it") {
  const TestsOfRow page = rows_of_page();
  const TestsOfRow tests = rows_of_tests();
  CHECK(page.size() == kRows);
  CHECK(tests.size() > 60);
  for (const auto& listed : page) {
    CAPTURE(listed.first);
    const auto claimed = tests.find(listed.first);
    CHECK(listed.second == (claimed == tests.end() ? std::set<std::string>() : claimed->second));
  }
  for (const auto& claimed : tests) {
    CAPTURE(claimed.first);
    CHECK(page.count(claimed.first) == 1);
  }
}

}  // namespace
}  // namespace jfa::test
