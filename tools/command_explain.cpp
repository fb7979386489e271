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
#include "runtime/environment_switch.h"
#include "runtime/log.h"
#include "runtime/nvrtc.h"
#include "tools/command_cache.h"
#include "tools/command_line.h"
#include "tools/kernel_options.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kExplainCommand = "cache explain";

struct ExplainOptions {
  KernelFields kernel;
  bool line_info = false;
};

Result<CompileRequest> request_of(const ExplainOptions& options) {
  const Result<KernelSpec> spec = specialize(options.kernel);
  if (!spec) return spec.status();
  const Result<bool> line_info = wants_line_info(options.line_info);
  if (!line_info) return line_info.status();
  const Result<KernelSource> source = source_of(*spec, {}, *line_info);
  if (!source) return source.status();
  return compile_request(*source);
}

int run(const ExplainOptions& options, const CacheCommandOptions& shared) {
  const Result<CompileRequest> request = request_of(options);
  if (!request) return fail(kExplainCommand, request.status());
  Result<CacheOptions> settings = cache_options(shared);
  if (!settings) return fail(kExplainCommand, settings.status());
  if (!settings->directory.empty()) {
    std::string foreign;
    const auto error = find_foreign(*posix_file_system(), settings->directory, foreign);
    if (!error && !foreign.empty())
      return fail(kExplainCommand, Status::unavailable(no_cache(settings->directory, foreign)));
  }
  settings->log = process_log();
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
    for (const std::string& line : why) note(kExplainCommand, line);
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
  add_kernel_options(command, options->kernel);
  command.add_flag("--line-info", options->line_info,
                   "machine code with line information, for profilers; also JFA_LINE_INFO=1");
  command.callback([options, shared, &exit_code] { exit_code = run(*options, *shared); });
}

}  // namespace jfa::tools
