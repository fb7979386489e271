// jfa emit: one configuration as CUDA, PTX, cubin, plan, or what its machine code does. Needs no GPU; CUDA
// and plan need no NVRTC either.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "base/output_file.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/environment_switch.h"
#include "tools/command_line.h"
#include "tools/kernel_options.h"
#include "tools/lint/lint.h"
#include "tuning/database.h"
#include "tuning/tuned_classes.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kEmitCommand = "emit";

struct EmitOptions {
  KernelFields kernel;
  std::string tuning;
  std::string format = "cuda";
  bool line_info = false;
  std::string output = "-";
  bool explain = false;
  std::string database;  // default: JFA_TUNING_DB
  std::string gpu;
  CallSize size;
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

// Of several GPUs' databases the one that is meant.
Result<TunedDevice> device_of(const EmitOptions& options, Target target,
                              const std::vector<TuningRecord>& records) {
  std::set<TunedDevice> devices;
  for (const TuningRecord& record : records)
    if (record.problem.spec.target == target && record.device.name.find(options.gpu) != std::string::npos)
      devices.insert(record.device);
  if (devices.size() == 1) return *devices.begin();
  std::string names;
  for (const TunedDevice& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  return Status::invalid_argument(
      devices.empty()
          ? fmt::format("{} has no record of {} for a GPU '{}'", options.database, to_string(target),
                        options.gpu)
          : fmt::format("{} is of several devices, {}: choose one by --gpu", options.database, names));
}

Result<std::string> explain_text(const EmitOptions& options) {
  const Result<KernelSpec> spec = specialize(options.kernel);
  if (!spec) return spec.status();
  const ProblemClass problem{*spec, size_class(options.size, spec->broadcast_q)};
  std::string text = fmt::format("class     {}\nsizes     {}\n", name(problem), describe(problem.size));
  if (options.database.empty())
    return text + "database  none: give --tuning-database or set JFA_TUNING_DB\nchosen    the defaults\n";
  const Result<ReadDatabase> database = read_database(*posix_file_system(), options.database);
  if (!database) return database.status();
  for (const std::string& complaint : database->complaints) note(kEmitCommand, "left out: " + complaint);
  const Result<TunedDevice> device = device_of(options, spec->target, database->records);
  if (!device) return device.status();
  const TunedChoice choice = TunedClasses(database->records, *device, spec->target).choose(problem);
  return text + fmt::format("database  {}: {} records; device {} with {} multiprocessors\nchosen    {}\n",
                            options.database, database->records.size(), device->name, device->multiprocessors,
                            choice.why);
}

int run(const EmitOptions& options) {
  Result<OutputFile> output = OutputFile::open(options.output);
  if (!output) return fail(kEmitCommand, output.status());
  if (options.format == "cubin" && output->is_standard_output() && isatty(STDOUT_FILENO) != 0) {
    return fail(kEmitCommand,
                Status::invalid_argument("--format cubin is binary: give -o FILE, or redirect the output"));
  }
  const Result<std::string> text = options.explain ? explain_text(options) : emit_text(options);
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
  command.add_flag("--explain", options->explain,
                   "instead: which record of a tuning database a call of this size takes, and why");
  command.add_option("--tuning-database", options->database, "directory or export; default: JFA_TUNING_DB")
      ->type_name("FILE")
      ->envname("JFA_TUNING_DB");
  command.add_option("--gpu", options->gpu, "of --explain, if the database is of several: part of its name")
      ->type_name("NAME");
  const auto size = [&](const char* name, std::int64_t& value, const char* what) {
    whole<std::int64_t>(command.add_option(name, value, what), 0)->type_name("N");
  };
  size("--batch", options->size.batch, "of --explain: sequences");
  size("--query-rows", options->size.query_rows, "of --explain: in all, or of the shared query");
  size("--key-rows", options->size.key_rows, "of --explain: in all");
  size("--heads", options->size.query_heads, "of --explain: of the query");
  command.add_option("-o,--output", options->output, "file to write; - is stdout")
      ->capture_default_str()
      ->type_name("FILE");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
