// From a request to an image: memory, the writable directory, read-only directories, bundles, the compiler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cache/events.h"
#include "cache/image.h"
#include "cache/options.h"
#include "cache/request.h"
#include "jfa/status.h"

namespace jfa {

using SharedImage = std::shared_ptr<const KernelImage>;
using CompileFunction = std::function<Result<KernelImage>()>;

/// Keeps what a compiler makes. It never fails a call because of a disk: whatever cannot be read is compiled,
/// whatever cannot be written stays in memory, and one line says so. All members may be called from any
/// thread.
class KernelCache {
 public:
  explicit KernelCache(CacheOptions options);
  ~KernelCache();  ///< waits for what prepare() started

  /// The image of `request`; calls `compile` if nobody has it. Threads that ask for one key share one
  /// compilation, and so do processes that share a directory. Failures are not remembered.
  /// Errors: those of `compile`; kUnavailable under CompilePolicy::kNever, naming the configuration and the
  /// command that precompiles it; kInvalidArgument from check_self_contained().
  Result<SharedImage> get_or_compile(const CompileRequest& request, const CompileFunction& compile);

  /// The image if it is at hand, nullptr if not; never compiles.
  SharedImage find(const CompileRequest& request);

  /// Starts get_or_compile() in the background; a later call for the same key joins it.
  void prepare(CompileRequest request, CompileFunction compile);

  /// For an image of `request` that the driver refuses: forgets it, moves its file aside and, in this
  /// process, serves the like of it from no other place either. What other places have is still served.
  void discard(const CompileRequest& request, const KernelImage& image, std::string_view reason);

  CacheStats stats() const;

  /// What is in use, for `jfa doctor`.
  struct State {
    std::string directory;  // empty: memory only
    bool writable = false;
    std::string reason;  // why there is no directory or it is not writable; empty if all is well
  };
  State state();

  /// Why a request is not served: where it was looked for, and how the entries of the same name differ.
  /// One line each; the first says where it was found if it was.
  std::vector<std::string> why(const CompileRequest& request);

  const CacheOptions& options() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace jfa
