// What `jfa doctor` finds: what is there, what would be used, and whether kernels can be had.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/options.h"
#include "generator/spec.h"
#include "runtime/nvrtc_search.h"

namespace jfa::tools {

struct DriverFacts {
  bool available = false;
  int cuda_major = 0;  // the newest CUDA that it serves
  int cuda_minor = 0;
  std::string message;  // why it is not available
};

struct GpuFacts {
  std::string device;  // "cuda:0"
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint64_t memory_bytes = 0;
  std::optional<Target> target;  // what kernels are compiled for; none: `message` says why
  std::string message;
  // Clusters of two CTAs that it holds at once, where kernels want any, and what follows. No number: the
  // driver does not tell, and `cluster_message` says why.
  std::optional<int> clusters;
  std::string cluster_message;
};

struct CompilerFacts {
  bool available = false;  // there is one
  bool usable = false;     // and it compiles for some target
  std::string version, path, origin, identity;
  std::string missing_builtins;
  std::map<Target, std::string> targets;  // of GPUs: why it cannot compile for one; empty if it can
  std::string message;                    // why it is not available
  std::vector<NvrtcPlace> places;         // in the order of the search
};

/// A place that kernels are taken from.
struct StoreFacts {
  enum class Kind { kDirectory, kReadOnlyDirectory, kBundle };
  struct Damage {
    std::string kernel;
    std::string why;
  };
  Kind kind = Kind::kDirectory;
  std::string path;
  bool writable = false;
  std::string message{};  // why it is not used, or not written
  bool usable = false;
  std::uint64_t bytes = 0;
  std::map<Target, std::uint64_t> kernels{};  // that this version asks for in this environment
  std::uint64_t other_version = 0;            // kernels that it never asks for
  std::vector<Damage> damaged{};              // of read-only directories and bundles, which are checked whole

  std::uint64_t usable_kernels() const;
};

struct Diagnosis {
  DriverFacts driver;
  std::vector<GpuFacts> gpus;
  CompilerFacts compiler;
  bool settings_are_known = false;  // the cache's; if not, nothing below says anything of it
  CompilePolicy policy = CompilePolicy::kAuto;
  std::string memory_only;  // why there is no cache directory; empty if there is one
  std::vector<StoreFacts> stores;
  std::vector<std::pair<std::string, std::string>> environment;  // our variables that are set
  std::string device;                                            // what `jfa run` would use
  std::vector<std::string> warnings;
  std::vector<std::string> problems;  // each makes the exit status 1

  bool can_compile(Target target) const;
  std::uint64_t kernels_for(Target target) const;
};

/// require_gpu: it is a problem if no GPU can be used.
Diagnosis diagnose(bool require_gpu);

}  // namespace jfa::tools
