// forward_suite_test [--all] [--shard=I/N] [--case=N] [--list] [doctest's options in their short form]
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/attention/forward_suite_options.h"
#include "tests/test_environment.h"

namespace jfa::test {
namespace {

constexpr const char* kUsage = R"(forward_suite_test: the forward against fp64 over a pairwise covering array

  --all         400 kernels on every schedule, instead of the 40 of a normal test run
  --shard=I/N   the I-th of N parts of the kernels, for N processes side by side
  --case=N      this case only
  --list        prints the cases and runs none

The device is JFA_TEST_DEVICE, or sim:sm_100a. doctest's options are taken in their short form, such as -s.
)";

// False if the argument is none of ours.
bool parse(const char* argument, SuiteOptions& options) {
  if (std::strcmp(argument, "--all") == 0) return options.all = true;
  if (std::strcmp(argument, "--list") == 0) return options.list = true;
  std::size_t number = 0, count = 0;
  char rest = 0;
  if (std::sscanf(argument, "--case=%zu%c", &number, &rest) == 1) {
    options.only_case = number;
    return true;
  }
  if (std::sscanf(argument, "--shard=%zu/%zu%c", &number, &count, &rest) == 2) {
    if (number < 1 || number > count) {
      std::fprintf(stderr, "%s: shards are numbered 1/N to N/N\n", argument);
      std::exit(2);
    }
    options.shard = number - 1;
    options.shards = count;
    return true;
  }
  return false;
}

}  // namespace

SuiteOptions& suite_options() {
  static SuiteOptions options;
  return options;
}

}  // namespace jfa::test

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (jfa::test::parse(argv[i], jfa::test::suite_options()) || std::strncmp(argv[i], "--", 2) != 0)
      continue;
    const bool asks_for_help = std::strcmp(argv[i], "--help") == 0;
    if (!asks_for_help) std::fprintf(stderr, "unknown option %s\n\n", argv[i]);
    std::fputs(jfa::test::kUsage, asks_for_help ? stdout : stderr);
    return asks_for_help ? 0 : 2;
  }
  jfa::test::use_test_cache();
  return doctest::Context(argc, argv).run();
}
