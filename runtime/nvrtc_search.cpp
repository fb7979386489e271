#include "runtime/nvrtc_search.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "runtime/own_process.h"

namespace jfa {
namespace {

namespace fs = std::filesystem;

// Run-time packages ship no unversioned name, so the sonames are what to ask for.
constexpr std::string_view kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kPackages = "python3*/*-packages";
constexpr std::string_view kWheels[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> folders_like(const fs::path& pattern) {
  std::vector<std::string> folders;
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0)
    folders.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  return folders;
}

// The folder of packages that a file lies in: PREFIX/lib/python3.x/site-packages of a library there.
std::optional<fs::path> packages_of(std::string_view file) {
  for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = file.rfind(name);
    if (at != std::string_view::npos) return fs::path(file.substr(0, at + name.size() - 1));
  }
  return std::nullopt;
}

// PREFIX of a file that belongs to an interpreter: PREFIX/lib/python3.x/lib-dynload/…,
// PREFIX/lib/libpython3.x.so or, of a distribution, PREFIX/lib/TRIPLET/libpython3.x.so.
std::optional<fs::path> python_prefix_of(std::string_view file) {
  std::size_t at = file.find("/lib/python3.");
  if (at == std::string_view::npos && file.find("/libpython3.") != std::string_view::npos)
    at = file.rfind("/lib/");
  if (at == std::string_view::npos) return std::nullopt;
  return fs::path(file.substr(0, std::max<std::size_t>(at, 1)));
}

class Collector {
 public:
  void add_folder(const fs::path& folder, const std::string& origin) {
    const bool known =
        std::ranges::any_of(places_, [&](const NvrtcPlace& place) { return place.where == folder.string(); });
    if (known) return;
    NvrtcPlace place{origin, folder.string()};
    std::error_code error;
    for (const std::string_view soname : kSonames) {
      const fs::path file = folder / soname;
      if (fs::exists(file, error)) place.libraries.push_back(file.string());
    }
    places_.push_back(std::move(place));
  }

  void add_soname(std::string_view soname, const std::string& origin) {
    places_.push_back({origin, std::string(soname), {std::string(soname)}});
  }

  void add_file(const std::string& file, const std::string& origin) {
    std::error_code error;
    NvrtcPlace place{origin, file};
    if (fs::exists(file, error)) place.libraries.push_back(file);
    places_.push_back(std::move(place));
  }

  void add_toolkit(const std::string& root, const std::string& origin) {
    if (root.empty()) return;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
      add_folder(fs::path(root) / folder, origin);
  }

  void add_packages(const fs::path& packages, const std::string& origin) {
    for (const std::string_view wheel : kWheels) add_folder(packages / wheel, origin);
  }

  // The packages of a Python at PREFIX: below lib and lib64, and of Debian's, whose own packages are the
  // distribution's, below local/lib. A conda environment has libraries of its own beside them.
  void add_python(const fs::path& prefix, const std::string& origin) {
    if (prefix.empty()) return;
    std::error_code error;
    if (fs::is_directory(prefix / "conda-meta", error)) add_folder(prefix / "lib", origin);
    bool found = false;
    for (const char* lib : {"lib", "lib64", "local/lib"}) {
      for (const std::string& packages : folders_like(prefix / lib / kPackages)) {
        add_packages(packages, origin);
        found = true;
      }
    }
    if (!found) places_.push_back({origin, (prefix / "lib" / kPackages).string()});
  }

  // A Python whose program is PREFIX/bin/…; a virtual environment that takes its base's packages too names
  // the base in pyvenv.cfg.
  void add_program(const fs::path& program, const std::string& origin) {
    if (program.parent_path().filename() != "bin") return;
    const fs::path prefix = program.parent_path().parent_path();
    add_python(prefix, origin);
    std::ifstream settings(prefix / "pyvenv.cfg");
    fs::path base;
    bool takes_base = false;
    for (std::string line; std::getline(settings, line);) {
      const auto trimmed = [](std::string_view text) {
        const std::size_t first = text.find_first_not_of(" \t\r");
        return first == std::string_view::npos
                   ? std::string_view()
                   : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
      };
      const std::size_t equals = std::min(line.find('='), line.size());
      const std::string_view key = trimmed(std::string_view(line).substr(0, equals));
      const std::string_view value =
          trimmed(std::string_view(line).substr(std::min(equals + 1, line.size())));
      if (key == "home") base = fs::path(value).parent_path();
      if (key == "include-system-site-packages") takes_base = value == "true";
    }
    if (takes_base) add_python(base, origin);
  }

  std::vector<NvrtcPlace> take() { return std::move(places_); }

 private:
  std::vector<NvrtcPlace> places_;
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

// Beside libjfa.so, and where a wheel of it would have its neighbours.
void add_neighbours(const NvrtcSearch& search, Collector& collector) {
  for (const std::string& library : search.libraries) {
    const fs::path file(library);
    if (!file.filename().string().starts_with("libjfa.so")) continue;
    collector.add_folder(file.parent_path(), "beside libjfa.so");
    collector.add_packages(file.parent_path().parent_path(), "beside libjfa.so");
  }
}

// A library in a package says which packages this process uses, whoever started it and how.
void add_own_python(const NvrtcSearch& search, Collector& collector) {
  for (const std::string& file : search.libraries)
    if (const auto packages = packages_of(file))
      collector.add_packages(*packages, "the packages of a loaded library");
  for (const std::string& program : search.programs)
    collector.add_program(program, "the packages of this program's Python");
  for (const std::string& file : search.libraries)
    if (const auto prefix = python_prefix_of(file))
      collector.add_python(*prefix, "the packages of the loaded Python");
}

}  // namespace

NvrtcSearch NvrtcSearch::from_process() {
  NvrtcSearch search;
  search.nvrtc = environment("JFA_NVRTC");
  const std::string ignore = environment("JFA_IGNORE_TOOLKIT");
  search.ignore_toolkit = !ignore.empty() && ignore != "0";
  search.cuda_path = environment("CUDA_PATH");
  search.cuda_home = environment("CUDA_HOME");
  search.conda_prefix = environment("CONDA_PREFIX");
  search.virtual_env = environment("VIRTUAL_ENV");
  search.path = environment("PATH");
  search.home = environment("HOME");
  search.libraries = loaded_libraries();
  search.programs = program_paths();
  return search;
}

std::vector<NvrtcPlace> nvrtc_places(const NvrtcSearch& search) {
  Collector collector;
  std::error_code error;
  if (!search.nvrtc.empty()) {
    const fs::path given = fs::absolute(search.nvrtc, error);
    if (fs::is_directory(given, error)) {
      collector.add_folder(given, "JFA_NVRTC");
    } else {
      collector.add_file(given.string(), "JFA_NVRTC");
    }
    return collector.take();
  }
  if (!search.ignore_toolkit) {
    for (const std::string& file : search.libraries)
      if (fs::path(file).filename().string().starts_with("libnvrtc.so."))
        collector.add_file(file, "loaded already");
    for (const std::string_view soname : kSonames) collector.add_soname(soname, "the loader's path");
    collector.add_toolkit(search.cuda_path, "CUDA_PATH");
    collector.add_toolkit(search.cuda_home, "CUDA_HOME");
    collector.add_toolkit("/usr/local/cuda", "/usr/local/cuda");
  }
  add_neighbours(search, collector);
  add_own_python(search, collector);
  if (!search.conda_prefix.empty())
    collector.add_folder(fs::path(search.conda_prefix) / "lib", "CONDA_PREFIX");
  collector.add_python(search.virtual_env, "VIRTUAL_ENV");
  collector.add_python(python_prefix(search.path), "python3's packages");
  if (!search.home.empty()) collector.add_python(fs::path(search.home) / ".local", "the user's packages");
  return collector.take();
}

std::vector<NvrtcCandidate> nvrtc_candidates(const NvrtcSearch& search) {
  std::vector<NvrtcCandidate> candidates;
  for (const NvrtcPlace& place : nvrtc_places(search))
    for (const std::string& library : place.libraries) candidates.push_back({library, place.origin});
  return candidates;
}

}  // namespace jfa
