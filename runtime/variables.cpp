#include "runtime/variables.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace jfa {
namespace {

constexpr Variable kVariables[] = {
    {"JFA_CACHE", "`on`, `readonly`, `off`", "`on`",
     "`off`: memory, read-only directories and bundles only; docs/cache.md has more on these seven"},
    {"JFA_CACHE_DIR", "path", "`$XDG_CACHE_HOME/jfa`, else `~/.cache/jfa`", "the writable directory"},
    {"JFA_CACHE_READ_ONLY_DIRS", "paths, `:` between them", "none", "searched in order after the directory"},
    {"JFA_BUNDLES", "paths, `:` between them", "none", "`.jfab` files, searched in order after those"},
    {"JFA_CACHE_MAX_BYTES", "bytes, or with `K`, `M`, `G`", "`1G`", "of the writable directory; 0: no bound"},
    {"JFA_CACHE_LOCK_WAIT_MS", "milliseconds", "`60000`",
     "how long to wait for another process that compiles the same kernel"},
    {"JFA_COMPILE", "`auto`, `never`", "`auto`", "`never`: a kernel that is not at hand is an error"},
    {"JFA_TUNING_DB", "file or directory", "none",
     "a tuning database, read when a device is opened: calls take its kernels (docs/tuning.md)"},
    {"JFA_VERBOSE", "`0`, `1`, `2`", "`0`",
     "`1`: warnings, compilations, cache hits and misses; `2`: also a line a call"},
    {"JFA_CHECK_OFFSETS", "`0`, `1`", "`0`",
     "`1`: every call waits for its stream and returns what is wrong with its offsets"},
    {"JFA_LINE_INFO", "`0`, `1`", "`0`",
     "`1`: kernels for GPUs carry line information, for profilers and debuggers, under keys of their own"},
    {"JFA_NVRTC", "file or folder", "searched for", "the NVRTC to use; nothing else is tried"},
    {"JFA_IGNORE_TOOLKIT", "`0`, or anything else", "`0`",
     "not `0`: an installed CUDA toolkit is not looked for, neither by the library nor by the build"},
    {"CUDA_PATH", "path", "none", "a CUDA toolkit, tried before `/usr/local/cuda`"},
    {"CUDA_HOME", "path", "none", "the same, tried second"},
    {"CONDA_PREFIX", "path", "none", "a conda environment that may have NVRTC"},
    {"VIRTUAL_ENV", "path", "none", "a Python environment whose wheels may have NVRTC"},
    {"XDG_CACHE_HOME", "absolute path", "`~/.cache`", "where the default `JFA_CACHE_DIR` lies"},
    {"NVTX_INJECTION64_PATH", "file", "none",
     "the profiler's library that takes NVTX ranges; profilers set it"},
    {"JFA_LIBRARY", "file", "the package's own", "of the Python package: the `libjfa.so` that it loads"},
    {"JFA_COMMAND", "file", "the package's own", "of the Python package: the `jfa` command that it starts"},
    {"JFA_PREBUILT_DIR", "folder", "none",
     "of the Python package's build: a build tree whose library and command are taken"},
    {"JFA_CUDA_INCLUDE_DIR", "folder", "searched for",
     "of the Python package's build: the folder with CUDA's headers"},
    {"JFA_TEST_DEVICE", "device", "`sim:sm_100a`", "of the tests: where they run"},
    {"JFA_TEST_REPEATS", "a number", "`20`", "of the tests: how often a GPU repeats a backward"},
    {"JFA_TEST_TUNING", "`NAME=VALUE,...`", "none",
     "of the tests: what the kernels of those end to end are tuned to"},
    {"JFA_BACKWARD_SUITE", "`I/N`", "`1/1`", "of the tests: the part of the backward's suite that runs"},
    {"JFA_CHECK_TORCH", "`0`, or anything else", "`1`",
     "of the tests: `0`: those of the Python package run without PyTorch"},
    {"JFA_FOREIGN_TLX", "folder", "none", "of the tests: the TLX package's, to be run over the adapter"},
    {"JFA_FOREIGN_FLASH_ATTENTION", "folder", "none",
     "of the tests: a checkout of flash-attention, likewise"},
};

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return result;
}

// Letters to insert, remove or replace to get from one to the other.
std::size_t edits_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

bool looks_like_ours(std::string_view name) { return upper(name.substr(0, 4)) == "JFA_"; }

std::string complaint_about(std::string_view name) {
  constexpr std::size_t kMostEdits = 3;  // above, a guess is no help
  const Variable* nearest = nullptr;
  std::size_t fewest = kMostEdits + 1;
  for (const Variable& variable : kVariables) {
    if (variable.name == name) return {};
    const std::size_t edits = edits_between(upper(name), variable.name);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = &variable;
  }
  std::string text = std::string(name) + " is not a variable of jfa";
  if (nearest) text += "; did you mean " + std::string(nearest->name) + "?";
  return text;
}

}  // namespace jfa
