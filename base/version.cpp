#include "jfa/version.h"

#if __has_include("jfa_commit.h")  // made by find_commit.cmake; the fuzzers do without
#include "jfa_commit.h"
#else
#define JFA_COMMIT "unknown"
#endif

namespace jfa {

const char* version() noexcept { return JFA_VERSION_STRING; }
const char* commit() noexcept { return JFA_COMMIT; }
const char* version_and_commit() noexcept { return JFA_VERSION_STRING " (" JFA_COMMIT ")"; }

}  // namespace jfa
