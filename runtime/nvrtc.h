// NVRTC, opened at run time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/image.h"
#include "generator/emit.h"
#include "jfa/status.h"
#include "runtime/nvrtc_search.h"

namespace jfa {

/// One opened NVRTC. All members may be called from any thread.
class Nvrtc {
 public:
  /// Opens the first candidate that knows our targets (12.9 or later); failing that the first that opens, so
  /// that compile() can say what is wrong with it. kUnavailable lists what was tried and what to install.
  static Result<std::shared_ptr<const Nvrtc>> open(const NvrtcSearch& search);
  /// The process's NVRTC, found by the environment; opened by the first call, and looked for again by the
  /// next one if it was not found.
  static Result<std::shared_ptr<const Nvrtc>> instance();

  /// identity() of the NVRTC that open() would choose, read from its file without loading it; nullopt if only
  /// loading can tell, or there is none.
  static std::optional<std::string> find_identity(const NvrtcSearch& search);

  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  const std::string& path() const;      ///< of the file that was opened
  const std::string& origin() const;    ///< which place of the search it came from
  std::string version() const;          ///< "13.0"
  const std::string& identity() const;  ///< tells builds apart; see cache/compiler_identity.h
  /// The companion library that compiling needs; empty if it was found, else the file that is missing.
  const std::string& missing_builtins() const;
  std::vector<int> architectures() const;  ///< 75, 80 … 100, 103 …
  /// Whether it can compile for the target; kUnavailable names the option, this version, its path and the
  /// oldest version that works.
  Status knows(const std::string& target) const;

  /// One compilation. For a real architecture ("sm_100f") cubin, PTX and facts; for a virtual one
  /// ("compute_100f") the same PTX alone: ptxas, which makes the facts and half of the work, does not run.
  /// kCompile: the message has the first error line, detail() the log, the options and the numbered source.
  Result<KernelImage> compile(const KernelSource& source) const;

 private:
  struct Library;
  explicit Nvrtc(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace jfa
