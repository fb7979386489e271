// Where NVRTC may be. Pure apart from globbing Python folders: reads no environment by itself.
#pragma once

#include <string>
#include <vector>

namespace jfa {

/// One library to try. path: absolute, or a bare soname for the loader.
struct NvrtcCandidate {
  std::string path;
  std::string origin;  // for people: "JFA_NVRTC", "CUDA_PATH", "the loader's path" …
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
  std::string fallback;      // JFA_NVRTC_FALLBACK: folders, ':' between them

  static NvrtcSearch from_environment();
};

/// In the order of trying: JFA_NVRTC alone if set; else the loader's path, CUDA_PATH, CUDA_HOME,
/// /usr/local/cuda, the conda environment, the wheels (nvidia/cu13, nvidia/cuda_nvrtc) of the virtual
/// environment and of the python3 in PATH, the fallback folders. Files that do not exist are left out.
std::vector<NvrtcCandidate> nvrtc_candidates(const NvrtcSearch& search);

}  // namespace jfa
