// Kinds of errors in words, in the order of ErrorKind.
#pragma once

#include "jfa/status.h"

namespace jfa {

inline constexpr const char* kErrorNames[] = {"ok",      "invalid argument", "unsupported", "unavailable",
                                              "compile", "device",           "internal"};

constexpr const char* name_of(ErrorKind kind) { return kErrorNames[static_cast<int>(kind)]; }

}  // namespace jfa
