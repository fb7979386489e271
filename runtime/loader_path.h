// Where the dynamic loader would find a library, without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace jfa {

/// The file that dlopen(soname) would most likely open: the loader's search folders (LD_LIBRARY_PATH, run
/// paths and defaults) and its cache /etc/ld.so.cache, in that order. nullopt if neither knows it.
std::optional<std::filesystem::path> find_by_soname(const std::string& soname);

/// The path that the text of an ld.so.cache (glibc's format 1.1) holds for a soname; nullopt if there is
/// none, or the text is damaged. Exposed for its tests.
std::optional<std::string> find_in_loader_cache(std::string_view cache, std::string_view soname);

}  // namespace jfa
