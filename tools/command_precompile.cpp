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

#include "base/input_file.h"
#include "base/output_file.h"
#include "base/standard_streams.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/environment_switch.h"
#include "runtime/log.h"
#include "runtime/nvrtc.h"
#include "tools/command_line.h"
#include "tools/kernel_options.h"
#include "tools/precompile_bundle.h"
#include "tools/progress.h"
#include "tools/table.h"
#include "tuning/database.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kPrecompileCommand = "precompile";

struct PrecompileOptions {
  Sweep sweep;
  bool default_set = false;
  bool list = false;
  std::string sweep_file;
  std::string directory;
  std::optional<std::string> bundle;
  std::string tuned;
  std::string shard;
  bool line_info = false;
  unsigned jobs = 0;
};

Result<std::vector<TunedSpec>> all_kernels(const PrecompileOptions& options,
                                           const std::vector<TuningRecord>& records) {
  std::vector<Sweep> sweeps;
  if (!options.sweep_file.empty()) {
    const Result<std::string> text = read_text(options.sweep_file);
    if (!text) return text.status();
    Result<std::vector<Sweep>> parsed = parse_sweep_file(options.sweep_file, *text, options.sweep.target);
    if (!parsed) return parsed.status();
    sweeps = std::move(*parsed);
  }
  if (!options.sweep.head_dim.empty()) sweeps.push_back(options.sweep);
  if (sweeps.empty() && options.tuned.empty())
    return Status::invalid_argument("nothing to do: give --default, --head-dim, --sweep or --tuned");
  const Result<std::vector<KernelSpec>> specs = expand(sweeps);
  if (!specs) return specs.status();
  std::vector<TunedSpec> kernels;
  for (const KernelSpec& spec : *specs) kernels.push_back({spec});
  for (TunedSpec& winner : winners_of(records))
    if (std::ranges::find(kernels, winner) == kernels.end()) kernels.push_back(std::move(winner));
  return kernels;
}

Result<std::vector<TuningRecord>> tuned_records(const PrecompileOptions& options) {
  if (options.tuned.empty()) return std::vector<TuningRecord>();
  Result<ReadDatabase> database = read_database(*posix_file_system(), options.tuned);
  if (!database) return database.status();
  // A kernel that silently lacks is worse than none.
  if (!database->complaints.empty()) return Status::invalid_argument(database->complaints.front());
  return std::move(database->records);
}

// "forward-bf16-d128-sm_90a", and its tuning.
std::string kernel_name(const TunedSpec& kernel) {
  return kernel.tuning.empty() ? name(kernel.spec) : name(kernel.spec) + "," + to_string(kernel.tuning);
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
  cache_options->log = process_log();
  cache_options->log.write = [opened](LogLevel level, const std::string& line) {
    if (*opened) log(level, line);
  };
  auto cache = std::make_unique<KernelCache>(std::move(*cache_options));
  const KernelCache::State state = cache->state();
  *opened = true;
  if (state.writable) return cache;
  return Status::unavailable(fmt::format("the cache directory cannot be filled: {}", state.reason));
}

class Precompiler {
 public:
  Precompiler(KernelCache& cache, const std::vector<TunedSpec>& specs, bool line_info)
      : cache_(cache), specs_(specs), line_info_(line_info) {}

  void run(unsigned jobs) {
    const Progress progress(kPrecompileCommand, "compiling", [this](double elapsed_s) {
      return progress_state(done_, specs_.size(), elapsed_s, current());
    });
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::min<std::size_t>(jobs, specs_.size()); ++i) {
      threads.emplace_back([this] {
        for (std::size_t i = next_++; i < specs_.size(); i = next_++) compile_one(specs_[i]);
      });
    }
  }

  const std::vector<std::pair<std::string, Status>>& failures() const { return failures_; }

 private:
  // The kernel that was begun last.
  std::string current() const {
    const std::size_t begun = std::min(next_.load(), specs_.size());
    return begun == 0 ? "" : kernel_name(specs_[begun - 1]);
  }

  void compile_one(const TunedSpec& kernel) {
    const Result<KernelSource> source = source_of(kernel.spec, kernel.tuning, line_info_);
    Status status = source.status();
    try {
      if (status.ok()) status = compile(cache_, *source).status();
    } catch (const std::exception& error) {  // std::bad_alloc; nobody else would catch it in a thread
      status = Status::unavailable(error.what());
    }
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      failures_.emplace_back(kernel_name(kernel), status);
    }
    ++done_;
  }

  KernelCache& cache_;
  const std::vector<TunedSpec>& specs_;
  const bool line_info_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::mutex mutex_;
  std::vector<std::pair<std::string, Status>> failures_;
};

int run(const PrecompileOptions& options) {
  const Result<bool> line_info = wants_line_info(options.line_info);
  if (!line_info) return fail(kPrecompileCommand, line_info.status());
  const Result<std::vector<TuningRecord>> records = tuned_records(options);
  if (!records) return fail(kPrecompileCommand, records.status());
  Result<std::vector<TunedSpec>> specs = all_kernels(options, *records);
  if (specs && !options.shard.empty()) specs = shard_of(*specs, options.shard, *line_info);
  if (!specs) return fail(kPrecompileCommand, specs.status());
  if (options.list) {
    for (const TunedSpec& kernel : *specs) tell(kernel_name(kernel) + "\n");
    return kSuccess;
  }
  Result<std::optional<OutputFile>> output = open_if_given(options.bundle);
  if (!output) return fail(kPrecompileCommand, output.status());
  const Result<std::unique_ptr<KernelCache>> cache = open_cache(options);
  if (!cache) return fail(kPrecompileCommand, cache.status());
  Precompiler precompiler(**cache, *specs, *line_info);
  precompiler.run(options.jobs ? options.jobs : std::max(1U, std::thread::hardware_concurrency()));

  const CacheStats stats = (*cache)->stats();
  tell(fmt::format("{}: {} kernels, {} compiled now in {:.0f} ms of compiler time, {} there already\n",
                   (*cache)->state().directory, specs->size() - precompiler.failures().size(),
                   stats.compiles - stats.compile_failures, stats.compile_ms,
                   stats.directory_hits + stats.read_only_hits + stats.bundle_hits));
  for (const auto& [kernel, status] : precompiler.failures()) {
    fail(kPrecompileCommand,
         Status(status.kind(), fmt::format("{}: {}", kernel, status.message()), status.detail()));
  }
  if (stats.publish_failures > 0)
    note(kPrecompileCommand, fmt::format("{} kernels could not be stored", stats.publish_failures));
  const bool complete = precompiler.failures().empty();
  if (*output) {
    OutputFile& bundle = **output;
    // Half a bundle would look like a whole one; what is compiled stays in the cache for the next try.
    if (!complete) return fail(kPrecompileCommand, Status::unavailable(bundle.name() + ": not written"));
    const Result<std::uint64_t> bytes = write_bundle(**cache, *specs, *records, *line_info, bundle);
    if (!bytes) return fail(kPrecompileCommand, bytes.status());
    tell(fmt::format("{}: {} kernels, {}\n", bundle.name(), specs->size(), human_bytes(*bytes)));
  }
  return complete && stats.publish_failures == 0 ? kSuccess : kNegative;
}

// The default set, in every field that was not given.
void fill_in_default(const CLI::App& command, Sweep& sweep) {
  const Sweep usual = default_sweep();
  const auto fill = [&](const char* option, auto Sweep::*field) {
    if (command.count(option) == 0) sweep.*field = usual.*field;
  };
  fill("--pass", &Sweep::pass);
  fill("--dtype", &Sweep::dtype);
  fill("--head-dim", &Sweep::head_dim);
  fill("--broadcast-q", &Sweep::broadcast_q);
  fill("--groups", &Sweep::groups);
  fill("--target", &Sweep::target);
}

}  // namespace

void add_precompile_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PrecompileOptions>();
  CLI::App& command =
      *app.add_subcommand("precompile", "Compile kernels into a cache directory or a bundle; needs no GPU");
  command.footer(
      "Options of kernels take several values, with blanks or commas between them, and may be repeated; "
      "every\n"
      "combination is compiled. --default stands for --pass forward,backward --dtype bf16,fp16 --head-dim\n"
      "32,64,128 --groups 1,4 --target sm_100f,sm_90a, each without and with --broadcast-q: 96 kernels, "
      "which\n"
      "cover most recommenders; an option beside it takes the place of its own. FILE is a JSON list such as\n"
      "  [{\"head_dim\": [64, 128], \"window\": [null, 128], \"dtype\": \"bf16\", \"broadcast_q\": true}]\n"
      "Configurations that share a kernel (head_dims up to the same of 16, 32, 64, 96 and 128) make it "
      "once.\n"
      "Exit status: 0, 1 if a kernel could not be compiled or stored, 2 on any other error.");
  command.add_flag("--default", options->default_set, "the kernels that recommenders mostly need");
  add_kernel_options(command, options->sweep);
  command.add_option("--sweep,--configs", options->sweep_file, "JSON list of configurations")
      ->type_name("FILE");
  command
      .add_option("--tuned", options->tuned,
                  "tuning database: its winners and nothing else of it; a bundle holds it too")
      ->type_name("FILE");
  command.add_flag("--list", options->list, "print the kernels' names and compile none");
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
  command.add_flag("--line-info", options->line_info,
                   "machine code with line information, for profilers; also JFA_LINE_INFO=1");
  whole<unsigned>(command.add_option("--jobs", options->jobs, "compilations at once; default: one a core"))
      ->type_name("N");
  command.callback([options, &command, &exit_code] {
    if (options->default_set) fill_in_default(command, options->sweep);
    exit_code = run(*options);
  });
}

}  // namespace jfa::tools
