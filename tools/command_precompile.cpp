// jfa precompile: fills a cache directory, or a bundle. Needs NVRTC, but neither a GPU nor a driver.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"
#include "tools/command_line.h"
#include "tools/input_file.h"
#include "tools/output_file.h"
#include "tools/precompile_bundle.h"
#include "tools/progress.h"
#include "tools/standard_streams.h"
#include "tools/sweep.h"
#include "tools/table.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kCommand = "precompile";

struct PrecompileOptions {
  Sweep sweep;
  std::string sweep_file;
  std::string directory;
  std::optional<std::string> bundle;
  std::string shard;
  unsigned jobs = 0;
};

Result<std::vector<KernelSpec>> all_specs(const PrecompileOptions& options) {
  std::vector<Sweep> sweeps;
  if (!options.sweep_file.empty()) {
    const Result<std::string> text = read_text(options.sweep_file);
    if (!text) return text.status();
    Result<std::vector<Sweep>> parsed = parse_sweep_file(options.sweep_file, *text, options.sweep.target);
    if (!parsed) return parsed.status();
    sweeps = std::move(*parsed);
  }
  if (!options.sweep.head_dim.empty()) sweeps.push_back(options.sweep);
  if (sweeps.empty()) return Status::invalid_argument("nothing to do: give --head-dim or --sweep");
  return expand(sweeps);
}

Result<std::unique_ptr<KernelCache>> open_cache(const PrecompileOptions& options) {
  Result<CacheOptions> cache_options = cache_options_from_environment();
  if (!cache_options) return cache_options.status();
  const auto nvrtc = Nvrtc::instance();
  if (!nvrtc) return nvrtc.status();
  cache_options->compiler = (*nvrtc)->identity();
  cache_options->slow_compile_ms = std::numeric_limits<std::int64_t>::max();  // the progress says enough
  if (!options.directory.empty()) {
    cache_options->directory = std::filesystem::absolute(options.directory).string();
    cache_options->write = true;
  }
  if (options.bundle) {
    // The bundle holds what this compiler makes, not what others made.
    cache_options->read_only_directories.clear();
    cache_options->bundles.clear();
  }
  // Why there is no directory is this command's own failure; it is not said twice.
  const auto opened = std::make_shared<std::atomic<bool>>(false);
  cache_options->log = [opened](const std::string& line) {
    if (*opened) say(line + "\n");
  };
  auto cache = std::make_unique<KernelCache>(std::move(*cache_options));
  const KernelCache::State state = cache->state();
  *opened = true;
  if (state.writable) return cache;
  return Status::unavailable(fmt::format("the cache directory cannot be filled: {}", state.reason));
}

class Precompiler {
 public:
  Precompiler(KernelCache& cache, const std::vector<KernelSpec>& specs) : cache_(cache), specs_(specs) {}

  void run(unsigned jobs) {
    const Progress progress(kCommand, "compiling",
                            [this] { return fmt::format("{} of {}", done_.load(), specs_.size()); });
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::min<std::size_t>(jobs, specs_.size()); ++i) {
      threads.emplace_back([this] {
        for (std::size_t i = next_++; i < specs_.size(); i = next_++) compile_one(specs_[i]);
      });
    }
  }

  const std::vector<std::pair<std::string, Status>>& failures() const { return failures_; }

 private:
  void compile_one(const KernelSpec& spec) {
    const Result<KernelSource> source = source_of(spec);
    Status status = source.status();
    try {
      if (status.ok()) status = compile(cache_, *source).status();
    } catch (const std::exception& error) {  // std::bad_alloc; nobody else would catch it in a thread
      status = Status::unavailable(error.what());
    }
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      failures_.emplace_back(name(spec), status);
    }
    ++done_;
  }

  KernelCache& cache_;
  const std::vector<KernelSpec>& specs_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::mutex mutex_;
  std::vector<std::pair<std::string, Status>> failures_;
};

int run(const PrecompileOptions& options) {
  Result<std::vector<KernelSpec>> specs = all_specs(options);
  if (specs && !options.shard.empty()) specs = shard_of(*specs, options.shard);
  if (!specs) return fail(kCommand, specs.status());
  Result<std::optional<OutputFile>> output = open_if_given(options.bundle);
  if (!output) return fail(kCommand, output.status());
  const Result<std::unique_ptr<KernelCache>> cache = open_cache(options);
  if (!cache) return fail(kCommand, cache.status());
  Precompiler precompiler(**cache, *specs);
  precompiler.run(options.jobs ? options.jobs : std::max(1U, std::thread::hardware_concurrency()));

  const CacheStats stats = (*cache)->stats();
  tell(fmt::format("{}: {} kernels, {} compiled now in {:.0f} ms of compiler time, {} there already\n",
                   (*cache)->state().directory, specs->size() - precompiler.failures().size(),
                   stats.compiles - stats.compile_failures, stats.compile_ms,
                   stats.directory_hits + stats.read_only_hits + stats.bundle_hits));
  for (const auto& [kernel, status] : precompiler.failures()) {
    fail(kCommand, Status(status.kind(), fmt::format("{}: {}", kernel, status.message()), status.detail()));
  }
  if (stats.publish_failures > 0)
    note(kCommand, fmt::format("{} kernels could not be stored", stats.publish_failures));
  const bool complete = precompiler.failures().empty();
  if (*output) {
    OutputFile& bundle = **output;
    // Half a bundle would look like a whole one; what is compiled stays in the cache for the next try.
    if (!complete) return fail(kCommand, Status::unavailable(bundle.name() + ": not written"));
    const Result<std::uint64_t> bytes = write_bundle(**cache, *specs, bundle);
    if (!bytes) return fail(kCommand, bytes.status());
    tell(fmt::format("{}: {} kernels, {}\n", bundle.name(), specs->size(), human_bytes(*bytes)));
  }
  return complete && stats.publish_failures == 0 ? kSuccess : kNegative;
}

}  // namespace

void add_precompile_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PrecompileOptions>();
  CLI::App& command =
      *app.add_subcommand("precompile", "Compile kernels into a cache directory or a bundle; needs no GPU");
  command.footer(
      "Options may be repeated, or take several values; every combination is compiled. FILE is a JSON list "
      "such as\n"
      "  [{\"head_dim\": [64, 128], \"window\": [null, 128], \"dtype\": \"bf16\", \"broadcast_q\": true}]\n"
      "Exit status: 0, 1 if a kernel could not be compiled or stored, 2 on any other error.");
  Sweep& sweep = options->sweep;
  command.add_option("--target,--targets", sweep.target, target_names())
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--pass", sweep.pass, "forward, backward")->capture_default_str();
  command.add_option("--head-dim", sweep.head_dim, "multiples of 8, 8 to 128")->type_name("D ...");
  command.add_option("--dtype", sweep.dtype, "bf16, fp16")->capture_default_str();
  command.add_option("--window", sweep.window, "numbers, or none")->capture_default_str()->type_name("W ...");
  command.add_flag_function(
      "--broadcast-q", [options](std::int64_t) { options->sweep.broadcast_q = {true}; },
      "the query is one shared sequence");
  command.add_option("--groups", sweep.groups, "query heads per key head")
      ->capture_default_str()
      ->type_name("G ...");
  command.add_option("--sweep,--configs", options->sweep_file, "JSON list of configurations")
      ->type_name("FILE");
  command
      .add_option("--cache-dir", options->directory, "directory to fill; default: the cache that is in use")
      ->type_name("DIR");
  command
      .add_option("-o,--output", options->bundle,
                  "also write the kernels into this bundle (.jfab); - is stdout")
      ->type_name("FILE");
  command
      .add_option("--shard", options->shard,
                  "compile only part I of N; the bundles of all parts merge into the whole one")
      ->type_name("I/N");
  command.add_option("--jobs", options->jobs, "compilations at once; default: one a core")->type_name("N");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
