// Where NVRTC may be. Looks at files only, but for from_process(): reads no environment by itself.
#pragma once

#include <string>
#include <vector>

namespace jfa {

/// One library to try. path: absolute, or a bare soname for the loader.
struct NvrtcCandidate {
  std::string path;
  std::string origin;  // for people: "JFA_NVRTC", "CUDA_PATH", "the loader's path" …
};

/// One place of the search.
struct NvrtcPlace {
  std::string origin;
  std::string where;                     // a folder, a file, or a bare soname
  std::vector<std::string> libraries{};  // found there; of a soname, itself
};

/// What the search depends on. Empty strings count as unset.
struct NvrtcSearch {
  std::string nvrtc;  // JFA_NVRTC: a library file, or a folder that holds one; then nothing else counts
  bool ignore_toolkit =
      false;                 // JFA_IGNORE_TOOLKIT=1: no loader's path, CUDA_PATH, CUDA_HOME, /usr/local/cuda
  std::string cuda_path;     // CUDA_PATH
  std::string cuda_home;     // CUDA_HOME
  std::string conda_prefix;  // CONDA_PREFIX
  std::string virtual_env;   // VIRTUAL_ENV
  std::string path;          // PATH: a python3 found there tells where its wheels are
  std::string home;          // HOME: of the user's own Python packages
  std::vector<std::string> libraries;  // that the process has loaded, see loaded_libraries()
  std::vector<std::string> programs;   // program_paths()

  /// As this process is.
  static NvrtcSearch from_process();
};

/// The places in the order of trying. JFA_NVRTC alone if set; else what is loaded already, the loader's path,
/// CUDA_PATH, CUDA_HOME, /usr/local/cuda; beside libjfa.so; the Python packages that the process has loaded
/// libraries of, and those of its program, which is a Python interpreter perhaps; CONDA_PREFIX, VIRTUAL_ENV,
/// the python3 in PATH and the user's packages. Of Python packages these are the wheels nvidia/cu13 and
/// nvidia/cuda_nvrtc.
std::vector<NvrtcPlace> nvrtc_places(const NvrtcSearch& search);

/// What was found there, in the same order, each once.
std::vector<NvrtcCandidate> nvrtc_candidates(const NvrtcSearch& search);

}  // namespace jfa
