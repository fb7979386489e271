// Tells builds of a compiler library apart without loading it.
#pragma once

#include <string>

#include "jfa/status.h"

namespace jfa {

/// "build-id:3f2a…" of a shared library, read from the ELF file's GNU build id
/// note; "sha256:…" of its content if it carries none. No path, name or time goes in, so two
/// copies of one library are one compiler. kUnavailable names the file that cannot be read or is no ELF file.
Result<std::string> compiler_identity(const std::string& library_path);

}  // namespace jfa
