// jfa run: the attention of a safetensors file, on a GPU or a simulated one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "jfa/attention.h"
#include "reference/compare.h"
#include "reference/compare_backward.h"
#include "tools/attention_file.h"
#include "tools/command_line.h"
#include "tools/device_run.h"
#include "tools/kernel_options.h"
#include "tools/option_checks.h"
#include "tools/progress.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kRunCommand = "run";
constexpr const char* kDefaultGpu = "cuda:0";
constexpr const char* kDefaultSimulator = "sim:sm_100a";

struct RunOptions {
  std::string file;
  std::optional<std::string> device;
  RunRequest request;
  bool check = false;
  std::optional<std::string> output;
};

Result<Device> open_device(const RunOptions& options) {
  if (options.device) return Device::open(*options.device);
  Result<Device> gpu = Device::open(kDefaultGpu);
  if (gpu) return gpu;
  note(kRunCommand,
       fmt::format("no usable GPU ({}); simulating one: {}", gpu.status().message(), kDefaultSimulator));
  return Device::open(kDefaultSimulator);
}

// What can be said from the shapes alone is said before a device is opened.
Status check_configuration(const AttentionFile& file, const RunOptions& options) {
  Configuration configuration;
  configuration.dtype = file.dtype;
  configuration.head_dim = file.query->shape[2];
  configuration.window = options.request.window;
  configuration.broadcast_q = options.request.broadcast_q;
  return supported(configuration);
}

safetensors::TensorView view_of(const TensorBits& tensor, std::string_view dtype) {
  return {std::string(dtype), tensor.shape, std::as_bytes(std::span(tensor.bits))};
}

// Prints the verdicts; whether all is within tolerance.
bool check(const AttentionFile& file, const RunRequest& request, const RunResult& result) {
  reference::Problem problem = to_problem(file);
  problem.window = request.window;
  problem.broadcast_q = request.broadcast_q;
  problem.scale = request.scale;
  const auto host = [&](const TensorBits& tensor) { return to_host_tensor(view_of(tensor, ""), file.dtype); };
  reference::Comparison forward;
  std::optional<reference::BackwardComparison> backward;
  {
    const Progress progress(kRunCommand, "computing the fp64 reference");
    forward = reference::judge(problem, host(result.output), result.lse);
    if (request.backward) {
      backward = reference::judge(problem, to_output_gradients(file),
                                  {host(result.query_grad), host(result.key_grad), host(result.value_grad)});
    }
  }
  tell(reference::describe(forward) + "\n");
  if (backward) tell(reference::describe(*backward) + "\n");
  return forward.within_tolerance && (!backward || backward->within_tolerance());
}

Status write_result(OutputFile& file, const std::string& dtype, const RunRequest& request,
                    const RunResult& result) {
  safetensors::TensorMap tensors;
  tensors["output"] = view_of(result.output, dtype);
  tensors["lse"] = {
      "F32", {result.output.shape[1], result.output.shape[0]}, std::as_bytes(std::span(result.lse))};
  if (request.backward) {
    tensors["query_grad"] = view_of(result.query_grad, dtype);
    tensors["key_grad"] = view_of(result.key_grad, dtype);
    tensors["value_grad"] = view_of(result.value_grad, dtype);
  }
  const std::vector<std::byte> bytes = safetensors::serialize(tensors);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (Status status = file.write(text); !status.ok()) return status;
  std::vector<std::string> written;
  for (const auto& [name, tensor] : tensors)
    written.push_back(fmt::format("{} {} [{}]", name, tensor.dtype, fmt::join(tensor.shape, ", ")));
  tell(fmt::format("{}: {}\n", file.name(), fmt::join(written, ", ")));
  return {};
}

int run(const RunOptions& options) {
  const Result<AttentionFile> file =
      read_attention_file(options.file, options.request.broadcast_q, options.request.backward);
  if (!file) return fail(kRunCommand, file.status());
  if (Status status = check_configuration(*file, options); !status.ok()) return fail(kRunCommand, status);
  Result<std::optional<OutputFile>> output = open_if_given(options.output);
  if (!output) return fail(kRunCommand, output.status());
  Result<Device> device = open_device(options);
  if (!device) return fail(kRunCommand, device.status());
  const Result<RunResult> result = run_on_device(*device, *file, options.request, kRunCommand);
  if (!result) return fail(kRunCommand, result.status());

  tell(fmt::format("{} sequences, {} query and {} key rows, {} heads ({} of keys), head_dim {}, {} on {}\n",
                   file->key_offset->element_count() - 1, file->query->shape[0], file->key->shape[0],
                   file->query->shape[1], file->key->shape[1], file->query->shape[2], file->query->dtype,
                   device->name()));
  if (*output) {
    if (Status status = write_result(**output, file->query->dtype, options.request, *result); !status.ok())
      return fail(kRunCommand, status);
  }
  if (!options.check) return kSuccess;
  return check(*file, options.request, *result) ? kSuccess : kNegative;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "Compute the attention of a safetensors file");
  command.footer(
      "FILE holds query, key, value [rows, heads, head_dim] in BF16 or F16, query_offset and key_offset "
      "[batch + 1]\n"
      "in I32 or I64 (where the sequences' rows begin, and the last one's end), and optionally "
      "output_offset,\n"
      "the first output row of every sequence. OUT gets output, like query, and lse [heads, rows] in F32; "
      "rows "
      "of no\n"
      "sequence are 0 there.\n"
      "With --backward, FILE also holds output_grad, like the output, and optionally lse_grad, like lse; OUT "
      "also "
      "gets\n"
      "query_grad, key_grad and value_grad.\n"
      "Exit status: 0, 1 if --check finds the result out of tolerance, 2 on any error.");
  command.add_option("FILE", options->file, "the tensors")->required()->type_name("FILE");
  command
      .add_option(
          "--device", options->device,
          "cuda:N, or a simulated GPU such as sim:sm_100a or 'sim:sm_100a?sms=4'; default: cuda:0 if there "
          "is one, else sim:sm_100a")
      ->type_name("DEVICE");
  command
      .add_option_function<std::string>(
          "--window",
          [options](const std::string& text) { options->request.window = parse_window(text).value(); },
          std::string(kWindowHelp))
      ->type_name("WINDOW")
      ->default_str("none")
      ->check([](const std::string& text) { return parse_window(text).status().message(); });
  command.add_flag("--broadcast-q", options->request.broadcast_q,
                   "query is one sequence that reads every sequence's keys");
  finite(command.add_option("--scale", options->request.scale,
                            "factor of query . key; default 1 / sqrt(head_dim)"))
      ->type_name("X");
  command.add_flag("--backward", options->request.backward, "compute the gradients too");
  command.add_flag("--check", options->check,
                   "compare with fp64, and print the errors beside those of an eager 16-bit computation");
  command.add_option("-o,--output", options->output, "where to write the results; - is stdout")
      ->type_name("OUT");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
