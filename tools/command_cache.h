// What the subcommands of `jfa cache` share.
#pragma once

#include <memory>
#include <string>

#include "cache/options.h"

namespace CLI {
class App;
}

namespace jfa::tools {

struct CacheCommandOptions {
  std::string directory;  // empty: the one that is in use
  std::string max_bytes;  // empty: the environment's
  bool json = false;
  bool move_aside = false;
};

/// The environment's options, with those of the command line in their place.
Result<CacheOptions> cache_options(const CacheCommandOptions& options);

/// Adds `explain` to `jfa cache`.
void add_explain_command(CLI::App& cache, const std::shared_ptr<const CacheCommandOptions>& options,
                         int& exit_code);

}  // namespace jfa::tools
