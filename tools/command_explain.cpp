// jfa cache explain: the key of one configuration, field by field, and why it is or is not at hand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cache/directory_marker.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"
#include "tools/command_cache.h"
#include "tools/command_line.h"
#include "tools/sweep.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kCommand = "cache explain";

struct ExplainOptions {
  std::string target = "sm_100f";
  std::string pass = "forward";
  std::int64_t head_dim = 128;
  std::string dtype = "bf16";
  std::string window = "none";
  bool broadcast_q = false;
  std::int64_t groups = 1;
};

Result<CompileRequest> request_of(const ExplainOptions& options) {
  Sweep sweep;
  sweep.pass = {options.pass};
  sweep.dtype = {options.dtype};
  sweep.head_dim = {options.head_dim};
  sweep.window = {options.window};
  sweep.broadcast_q = {options.broadcast_q};
  sweep.groups = {options.groups};
  sweep.target = {options.target};
  const Result<std::vector<KernelSpec>> specs = expand(sweep);
  if (!specs) return specs.status();
  const Result<KernelSource> source = source_of(specs->front());
  if (!source) return source.status();
  return compile_request(*source);
}

int run(const ExplainOptions& options, const CacheCommandOptions& shared) {
  const Result<CompileRequest> request = request_of(options);
  if (!request) return fail(kCommand, request.status());
  Result<CacheOptions> settings = cache_options(shared);
  if (!settings) return fail(kCommand, settings.status());
  if (!settings->directory.empty()) {
    std::string foreign;
    const auto error = find_foreign(*posix_file_system(), settings->directory, foreign);
    if (!error && !foreign.empty())
      return fail(kCommand, Status::unavailable(no_cache(settings->directory, foreign)));
  }
  settings->write = false;  // to look at an entry is not to use it
  if (const auto nvrtc = Nvrtc::instance()) settings->compiler = (*nvrtc)->identity();
  KernelCache cache(std::move(*settings));
  const Explanation fields = explain(*request, cache.options().compiler);
  const std::vector<std::string> why = cache.why(*request);
  if (shared.json) {
    nlohmann::ordered_json json;
    for (const auto& [field, value] : fields) json["fields"][field] = value;
    json["why"] = why;
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    // Fields on standard output and the rest beside it: two keys can be compared with diff(1).
    fmt::print("{}", to_text(fields));
    for (const std::string& line : why) note(kCommand, line);
  }
  return cache.find(*request) != nullptr ? kSuccess : kNegative;
}

}  // namespace

void add_explain_command(CLI::App& cache, const std::shared_ptr<const CacheCommandOptions>& shared,
                         int& exit_code) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App& command = *cache.add_subcommand(
      "explain",
      "The fields of a configuration's key, and where it was looked for; exit status 1 if it is absent");
  command.fallthrough();
  command.add_option("--target", options->target, target_names())->capture_default_str();
  command.add_option("--pass", options->pass, "forward, backward")->capture_default_str();
  command.add_option("--head-dim", options->head_dim, "a multiple of 8, 8 to 128")
      ->required()
      ->type_name("D");
  command.add_option("--dtype", options->dtype, "bf16, fp16")->capture_default_str();
  command.add_option("--window", options->window, "a number, or none")->capture_default_str()->type_name("W");
  command.add_flag("--broadcast-q", options->broadcast_q, "the query is one shared sequence");
  command.add_option("--groups", options->groups, "query heads per key head")
      ->capture_default_str()
      ->type_name("G");
  command.callback([options, shared, &exit_code] { exit_code = run(*options, *shared); });
}

}  // namespace jfa::tools
