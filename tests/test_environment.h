// What a test program changes of its surroundings before anything runs.
#pragma once

namespace jfa::test {

/// Kernels are kept in the build's own cache, not the user's, unless JFA_CACHE_DIR names another.
void use_test_cache();

}  // namespace jfa::test
