// Whether a directory is a cache of ours, and the file that says so.
#pragma once

#include <string>
#include <system_error>

#include "cache/file_system.h"
#include "jfa/status.h"

namespace jfa {

/// kUnavailable, with the name of a foreign file, if `root` is a directory that holds other things than a
/// cache would: one to which we must add nothing and from which we must remove nothing. A directory passes
/// that is missing, is empty, has our CACHEDIR.TAG, or, as the tag may have been deleted, has nothing but
/// what a cache consists of.
Status check_ours(FileSystem& files, const std::string& root);

/// Whether `root` has our CACHEDIR.TAG.
bool is_marked(FileSystem& files, const std::string& root);

/// Puts our CACHEDIR.TAG into `root`, by way of a temporary file in `root`/tmp.
std::error_code mark(FileSystem& files, const std::string& root);

}  // namespace jfa
