// Whether a directory is a cache of ours, and the file that says so.
#pragma once

#include <string>
#include <system_error>

#include "cache/file_system.h"

namespace jfa {

/// Whether `root` is a directory that holds other things than a cache would: one to which we must add nothing
/// and from which we must remove nothing. `foreign` becomes the name of one of them; "" for a directory that
/// is empty, has our CACHEDIR.TAG, or, as the tag may have been deleted, has nothing but what a cache
/// consists of. An error is one of the moment, and says nothing about the directory.
std::error_code find_foreign(FileSystem& files, const std::string& root, std::string& foreign);

/// What to say of a directory that holds something foreign.
std::string no_cache(const std::string& root, const std::string& foreign);

/// Whether `root` has our CACHEDIR.TAG.
bool is_marked(FileSystem& files, const std::string& root);

/// Puts our CACHEDIR.TAG into `root`, by way of a temporary file in `root`/tmp.
std::error_code mark(FileSystem& files, const std::string& root);

}  // namespace jfa
