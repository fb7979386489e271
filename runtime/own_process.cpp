#include "runtime/own_process.h"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace jfa {
namespace {

namespace fs = std::filesystem;

void add_file(const fs::path& path, std::vector<std::string>& files) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (error || !fs::exists(absolute, error)) return;
  if (std::ranges::find(files, absolute.string()) == files.end()) files.push_back(absolute.string());
}

}  // namespace

std::vector<std::string> program_paths() {
  std::vector<std::string> paths;
  // What execve() was given; unlike the arguments it survives those who rename their process. Of a script it
  // is the script, which lies beside its interpreter in a virtual environment.
  if (const auto* started = reinterpret_cast<const char*>(getauxval(AT_EXECFN))) add_file(started, paths);
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::string first;
  // A bare name was looked up in PATH: it says nothing about a file.
  if (std::getline(arguments, first, '\0') && first.find('/') != std::string::npos) add_file(first, paths);
  std::error_code error;
  const fs::path resolved = fs::read_symlink("/proc/self/exe", error);
  if (!error) add_file(resolved, paths);
  return paths;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/')
          static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

}  // namespace jfa
