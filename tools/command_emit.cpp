// jfa emit: one configuration as CUDA, PTX, cubin or plan. Needs no GPU; CUDA and plan need no NVRTC either.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "tools/command_line.h"
#include "tools/output_file.h"
#include "tools/sweep.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kCommand = "emit";

struct EmitOptions {
  std::string target = "sm_100f";
  std::string pass = "forward";
  std::int64_t head_dim = 128;
  std::string dtype = "bf16";
  std::string window = "none";
  bool broadcast_q = false;
  std::int64_t groups = 1;
  std::string tuning;
  std::string format = "cuda";
  std::string output = "-";
};

Result<std::string> emit_text(const EmitOptions& options) {
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
  const Result<Tuning> tuning = parse_tuning(options.tuning);
  if (!tuning) return tuning.status();
  const Result<KernelPlan> kernel_plan = plan(specs->front(), *tuning);
  if (!kernel_plan) return kernel_plan.status();
  if (options.format == "plan") return describe(*kernel_plan) + "\n";
  const KernelSource source = emit(*kernel_plan);
  if (options.format == "cuda") return source.text;
  const Result<SharedImage> image = compile(source);
  if (!image) return image.status();
  return options.format == "ptx" ? (*image)->ptx : (*image)->cubin;
}

int run(const EmitOptions& options) {
  Result<OutputFile> output = OutputFile::open(options.output);
  if (!output) return fail(kCommand, output.status());
  if (options.format == "cubin" && output->is_standard_output() && isatty(STDOUT_FILENO) != 0) {
    return fail(kCommand,
                Status::invalid_argument("--format cubin is binary: give -o FILE, or redirect the output"));
  }
  const Result<std::string> text = emit_text(options);
  if (!text) return fail(kCommand, text.status());
  const Status status = output->write(*text);
  return status.ok() ? kSuccess : fail(kCommand, status);
}

}  // namespace

void add_emit_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<EmitOptions>();
  CLI::App& command = *app.add_subcommand("emit", "Print the kernel of one configuration");
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
  command.add_option("--tuning", options->tuning, "values of knobs; --format plan shows them all")
      ->type_name("NAME=VALUE,...");
  command.add_option("--format", options->format, "cuda, ptx, cubin, plan")
      ->check(CLI::IsMember({"cuda", "ptx", "cubin", "plan"}))
      ->capture_default_str();
  command.add_option("-o,--output", options->output, "file to write; - is stdout")
      ->capture_default_str()
      ->type_name("FILE");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
