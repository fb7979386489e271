// The main() of every test executable that has none of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/test_environment.h"

int main(int argc, char** argv) {
  jfa::test::use_test_cache();
  return doctest::Context(argc, argv).run();
}
