// forward_suite_test [--all] [--shard=I/N] [--case=N] [--list] [doctest's own options]
//
// --all runs 400 kernels on every schedule, within two hours on two cores if each runs one shard; without it
// the 40 of a normal test run. The device is JFA_TEST_DEVICE, or the simulated Blackwell.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/forward_suite_options.h"

namespace jfa::test {
namespace {

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
  doctest::Context context(argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (!jfa::test::parse(argv[i], jfa::test::suite_options()) && std::strncmp(argv[i], "--", 2) == 0 &&
        std::strchr(argv[i], '=') == nullptr && std::strcmp(argv[i], "--help") != 0) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  return context.run();
}
