#include "runtime/nvrtc_search.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace jfa {
namespace {

namespace fs = std::filesystem;

// Run-time packages ship no unversioned name, so the sonames are what to ask for.
constexpr std::string_view kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class Collector {
 public:
  void add_folder(const fs::path& folder, const std::string& origin) {
    std::error_code error;
    for (std::string_view soname : kSonames) {
      const fs::path file = folder / soname;
      if (fs::exists(file, error)) candidates_.push_back({file.string(), origin});
    }
  }

  void add_toolkit(const std::string& root, const std::string& origin) {
    if (root.empty()) return;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
      add_folder(fs::path(root) / folder, origin);
  }

  // The wheels below PREFIX/lib/python3.x/{site,dist}-packages.
  void add_python(const fs::path& prefix, const std::string& origin) {
    if (prefix.empty()) return;
    for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
      const std::string pattern = (prefix / "lib/python3*/*-packages" / wheel).string();
      glob_t matches{};
      if (glob(pattern.c_str(), 0, nullptr, &matches) == 0)
        for (std::size_t i = 0; i < matches.gl_pathc; ++i) add_folder(matches.gl_pathv[i], origin);
      globfree(&matches);
    }
  }

  void add_folders(std::string_view folders, const std::string& origin) {
    for (std::size_t begin = 0; begin < folders.size();) {
      const std::size_t end = std::min(folders.find(':', begin), folders.size());
      if (end > begin) add_folder(folders.substr(begin, end - begin), origin);
      begin = end + 1;
    }
  }

  void add(std::string path, const std::string& origin) { candidates_.push_back({std::move(path), origin}); }
  std::vector<NvrtcCandidate> take() { return std::move(candidates_); }

 private:
  std::vector<NvrtcCandidate> candidates_;
};

// PREFIX of the first PREFIX/bin/python3 in PATH; links are not followed, as a virtual environment's is one.
fs::path python_prefix(std::string_view path) {
  std::error_code error;
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const fs::path folder(path.substr(0, colon));
    if (folder.is_absolute() && fs::exists(folder / "python3", error)) return folder.parent_path();
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return {};
}

}  // namespace

NvrtcSearch NvrtcSearch::from_environment() {
  NvrtcSearch search;
  search.nvrtc = environment("JFA_NVRTC");
  const std::string ignore = environment("JFA_IGNORE_TOOLKIT");
  search.ignore_toolkit = !ignore.empty() && ignore != "0";
  search.cuda_path = environment("CUDA_PATH");
  search.cuda_home = environment("CUDA_HOME");
  search.conda_prefix = environment("CONDA_PREFIX");
  search.virtual_env = environment("VIRTUAL_ENV");
  search.path = environment("PATH");
  search.fallback = environment("JFA_NVRTC_FALLBACK");
  return search;
}

std::vector<NvrtcCandidate> nvrtc_candidates(const NvrtcSearch& search) {
  Collector collector;
  std::error_code error;
  if (!search.nvrtc.empty()) {
    if (fs::is_directory(search.nvrtc, error)) {
      collector.add_folder(fs::absolute(search.nvrtc, error), "JFA_NVRTC");
    } else if (fs::exists(search.nvrtc, error)) {
      collector.add(fs::absolute(search.nvrtc, error).string(), "JFA_NVRTC");
    }
    return collector.take();
  }
  if (!search.ignore_toolkit) {
    for (std::string_view soname : kSonames) collector.add(std::string(soname), "the loader's path");
    collector.add_toolkit(search.cuda_path, "CUDA_PATH");
    if (search.cuda_home != search.cuda_path) collector.add_toolkit(search.cuda_home, "CUDA_HOME");
    collector.add_toolkit("/usr/local/cuda", "/usr/local/cuda");
  }
  if (!search.conda_prefix.empty())
    collector.add_folder(fs::path(search.conda_prefix) / "lib", "CONDA_PREFIX");
  collector.add_python(search.virtual_env, "VIRTUAL_ENV");
  collector.add_python(python_prefix(search.path), "python3's packages");
  collector.add_folders(search.fallback, "JFA_NVRTC_FALLBACK");
  return collector.take();
}

}  // namespace jfa
