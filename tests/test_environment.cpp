#include "tests/test_environment.h"

#include <cstdlib>

namespace jfa::test {

void use_test_cache() { ::setenv("JFA_CACHE_DIR", JFA_TEST_CACHE_DIR, /*overwrite=*/0); }

}  // namespace jfa::test
