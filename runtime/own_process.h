// What the process that we are in tells of itself: which program it runs, and what it has loaded.
#pragma once

#include <string>
#include <vector>

namespace jfa {

/// The program's file, under every name that is known, the one that it was started by first: a virtual
/// environment's bin/python is a link, and only its unresolved name leads to the environment.
std::vector<std::string> program_paths();

/// The files of the shared libraries that are loaded, in the order of their loading, this library among them.
std::vector<std::string> loaded_libraries();

}  // namespace jfa
