// The main() of every test executable that has none of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/test_environment.h"

namespace {

// What doctest counts as a success: filters that no case passes. ctest would show a green test that never
// ran.
bool nothing_ran = false;

struct Witness : doctest::IReporter {
  explicit Witness(const doctest::ContextOptions& /*options*/) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    nothing_ran = stats.numTestCasesPassingFilters == 0;
  }
  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData& /*data*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};
REGISTER_LISTENER("witness", 1, Witness);

}  // namespace

int main(int argc, char** argv) {
  jfa::test::use_test_cache();
  const int result = doctest::Context(argc, argv).run();
  if (nothing_ran) std::fputs("no test case passes the filters\n", stderr);
  return nothing_ran ? 1 : result;
}
