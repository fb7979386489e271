// jfa emit: one configuration as CUDA, PTX, cubin, plan, or what its machine code does. Needs no GPU; CUDA
// and plan need no NVRTC either.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/environment_switch.h"
#include "tools/command_line.h"
#include "tools/kernel_options.h"
#include "tools/lint/lint.h"
#include "tools/output_file.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kEmitCommand = "emit";

struct EmitOptions {
  KernelFields kernel;
  std::string tuning;
  std::string format = "cuda";
  bool line_info = false;
  std::string output = "-";
};

Result<std::string> emit_text(const EmitOptions& options) {
  Result<KernelSpec> spec = specialize(options.kernel);
  if (!spec) return spec.status();
  const Result<Tuning> tuning = parse_tuning(options.tuning);
  if (!tuning) return tuning.status();
  const Result<KernelPlan> kernel_plan = plan(*spec, *tuning);
  if (!kernel_plan) return kernel_plan.status();
  if (options.format == "plan") return describe(*kernel_plan) + "\n";
  if (options.format == "cuda") return emit(*kernel_plan).text;
  const bool ptx = options.format == "ptx";
  if (!ptx && is_virtual(spec->target)) {
    return Status::invalid_argument(fmt::format("--format {}: target '{}' is virtual and has PTX only",
                                                options.format, to_string(spec->target)));
  }
  // The PTX is the one that simulated devices run, also of a target whose images keep none.
  if (ptx) spec->target = virtual_target(spec->target);
  const Result<bool> line_info = wants_line_info(options.line_info);
  if (!line_info) return line_info.status();
  const Result<SharedImage> image = compile(source_of(*spec, *tuning, *line_info).value());
  if (!image) return image.status();
  if (ptx) return (*image)->ptx;
  if (options.format == "cubin") return (*image)->cubin;
  const Result<lint::Figures> figures = lint::lint((*image)->name, (*image)->cubin);
  if (!figures) return figures.status();
  return options.format == "lint" ? lint::text_of(*figures) : lint::json_of(*figures) + "\n";
}

int run(const EmitOptions& options) {
  Result<OutputFile> output = OutputFile::open(options.output);
  if (!output) return fail(kEmitCommand, output.status());
  if (options.format == "cubin" && output->is_standard_output() && isatty(STDOUT_FILENO) != 0) {
    return fail(kEmitCommand,
                Status::invalid_argument("--format cubin is binary: give -o FILE, or redirect the output"));
  }
  const Result<std::string> text = emit_text(options);
  if (!text) return fail(kEmitCommand, text.status());
  const Status status = output->write(*text);
  return status.ok() ? kSuccess : fail(kEmitCommand, status);
}

}  // namespace

void add_emit_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<EmitOptions>();
  CLI::App& command = *app.add_subcommand("emit", "Print the kernel of one configuration");
  add_kernel_options(command, options->kernel);
  command.add_option("--tuning", options->tuning, "values of knobs; --format plan shows them all")
      ->type_name("NAME=VALUE,...");
  command.add_option("--format", options->format, "what to print")
      ->type_name("cuda|ptx|cubin|plan|lint|lint-json")
      ->check(CLI::IsMember({"cuda", "ptx", "cubin", "plan", "lint", "lint-json"}).description(""))
      ->capture_default_str();
  command.add_flag("--line-info", options->line_info,
                   "machine code with line information, for profilers; also JFA_LINE_INFO=1");
  command.add_option("-o,--output", options->output, "file to write; - is stdout")
      ->capture_default_str()
      ->type_name("FILE");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
