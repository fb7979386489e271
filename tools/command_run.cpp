// jfa run: the attention of a safetensors file, on a GPU or a simulated one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "jfa/attention.h"
#include "tools/attention_file.h"
#include "tools/command_line.h"
#include "tools/compare.h"
#include "tools/device_buffer.h"
#include "tools/float16.h"
#include "tools/progress.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kCommand = "run";
constexpr const char* kDefaultGpu = "cuda:0";
constexpr const char* kDefaultSimulator = "sim:sm_100a";
constexpr std::int64_t kRowLimit = std::int64_t{1} << 30;

struct RunOptions {
  std::string file;
  std::optional<std::string> device;
  std::optional<std::int64_t> window;
  bool broadcast_q = false;
  std::optional<double> scale;
  bool check = false;
  std::string output;
};

// What the device gave back.
struct RunResult {
  std::vector<std::int64_t> shape;         // of output
  std::vector<std::uint16_t> output_bits;  // 16-bit floats
  std::vector<float> lse;
};

Result<Device> open_device(const RunOptions& options) {
  if (options.device) return Device::open(*options.device);
  Result<Device> gpu = Device::open(kDefaultGpu);
  if (gpu) return gpu;
  note(kCommand,
       fmt::format("no usable GPU ({}); simulating one: {}", gpu.status().message(), kDefaultSimulator));
  return Device::open(kDefaultSimulator);
}

Result<Tensor> upload_tensor(Device& device, const safetensors::TensorView& view, DType dtype,
                             std::vector<DeviceBuffer>& buffers) {
  Result<DeviceBuffer> buffer = DeviceBuffer::upload(device, view.data.data(), view.data.size());
  if (!buffer) return buffer.status();
  const Tensor tensor = Tensor::packed(buffer->address(), view.shape[0], view.shape[1], view.shape[2], dtype);
  buffers.push_back(std::move(*buffer));
  return tensor;
}

Result<Offsets> upload_offsets(Device& device, const safetensors::TensorView& view,
                               std::vector<DeviceBuffer>& buffers) {
  Result<DeviceBuffer> buffer = DeviceBuffer::upload(device, view.data.data(), view.data.size());
  if (!buffer) return buffer.status();
  const Offsets offsets{buffer->address(), view.element_count(), offset_type(view)};
  buffers.push_back(std::move(*buffer));
  return offsets;
}

// What can be said from the shapes alone is said before a device is opened.
Status check_configuration(const AttentionFile& file, const RunOptions& options) {
  Configuration configuration;
  configuration.dtype = file.dtype;
  configuration.head_dim = file.query->shape[2];
  configuration.window = options.window;
  configuration.broadcast_q = options.broadcast_q;
  return supported(configuration);
}

// Rows of the output: as many as output_offset asks for, or one for every query row. Whether the offsets are
// right the device decides; here they must only not ask for absurd amounts of memory.
Result<std::int64_t> output_rows_of(const AttentionFile& file, const RunOptions& options) {
  if (!file.output_offset) {
    const std::int64_t batch = file.key_offset->element_count() - 1;
    const std::int64_t rows = file.query->shape[0];
    if (!options.broadcast_q) return rows;
    if (rows == 0 || batch < kRowLimit / rows) return batch * rows;
    return Status::invalid_argument(
        fmt::format("a batch of {} times query rows {} makes 2^30 output rows or more", batch, rows));
  }
  const std::int64_t last = offsets_of(*file.output_offset).back();
  if (last < kRowLimit) return std::max<std::int64_t>(last, 0);
  return Status::invalid_argument(fmt::format("output_offset[{}] is {}: not below 2^30 rows",
                                              file.output_offset->element_count() - 1, last));
}

Result<RunResult> run_on_device(Device& device, const AttentionFile& file, const RunOptions& options) {
  std::vector<DeviceBuffer> buffers;
  AttentionCall call;
  call.window = options.window;
  call.broadcast_q = options.broadcast_q;
  call.scale = options.scale;
  const struct {
    const safetensors::TensorView* view;
    Tensor* tensor;
  } tensors[] = {{file.query, &call.query}, {file.key, &call.key}, {file.value, &call.value}};
  for (const auto& [view, tensor] : tensors) {
    Result<Tensor> uploaded = upload_tensor(device, *view, file.dtype, buffers);
    if (!uploaded) return uploaded.status();
    *tensor = *uploaded;
  }
  const auto set_offsets = [&](const safetensors::TensorView* view, Offsets& offsets) -> Status {
    Result<Offsets> uploaded = upload_offsets(device, *view, buffers);
    if (uploaded) offsets = *uploaded;
    return uploaded.status();
  };
  Status status = set_offsets(file.key_offset, call.key_offset);
  if (status.ok() && file.query_offset) status = set_offsets(file.query_offset, call.query_offset);
  if (status.ok() && file.output_offset)
    status = set_offsets(file.output_offset, call.output_offset.emplace());
  if (!status.ok()) return status;

  const Result<std::int64_t> rows = output_rows_of(file, options);
  if (!rows) return rows.status();
  const Result<std::uint64_t> workspace_size = workspace_bytes(call);
  if (!workspace_size) return workspace_size.status();
  RunResult result;
  result.shape = {*rows, call.query.heads, call.query.head_dim};
  result.output_bits.resize(static_cast<std::size_t>(*rows * call.query.heads * call.query.head_dim));
  result.lse.resize(static_cast<std::size_t>(call.query.heads * *rows));
  const std::uint64_t output_bytes = result.output_bits.size() * sizeof(std::uint16_t);
  const std::uint64_t lse_bytes = result.lse.size() * sizeof(float);
  // Zeros: what rows that no sequence owns are to hold in the file.
  const Result<DeviceBuffer> output = DeviceBuffer::upload(device, result.output_bits.data(), output_bytes);
  if (!output) return output.status();
  const Result<DeviceBuffer> lse = DeviceBuffer::upload(device, result.lse.data(), lse_bytes);
  if (!lse) return lse.status();
  const Result<DeviceBuffer> memory = DeviceBuffer::allocate(device, *workspace_size);
  if (!memory) return memory.status();
  const Workspace workspace{memory->address(), *workspace_size};
  const Tensor output_tensor =
      Tensor::packed(output->address(), *rows, call.query.heads, call.query.head_dim, file.dtype);

  // Apart from forward(), so that its time is not taken for the kernel's; the library reports slow
  // compilations.
  Configuration configuration{Pass::forward, file.dtype, call.query.head_dim, options.window,
                              options.broadcast_q};
  configuration.groups = call.key.heads > 0 ? call.query.heads / call.key.heads : 1;
  configuration.target = device.target();
  status = prepare(device, configuration);
  if (!status.ok()) return status;
  {
    const Progress progress(kCommand, fmt::format("running on {}", device.name()));
    status = forward(device, call, output_tensor, lse->address(), workspace);
    if (status.ok()) status = jfa::status(device, workspace);
  }
  if (status.ok()) status = device.download(result.output_bits.data(), output->address(), output_bytes);
  if (status.ok()) status = device.download(result.lse.data(), lse->address(), lse_bytes);
  if (!status.ok()) return status;
  return result;
}

reference::Comparison check(const AttentionFile& file, const RunOptions& options, const RunResult& result) {
  const Progress progress(kCommand, "computing the fp64 reference");
  reference::Problem problem = to_problem(file);
  problem.window = options.window;
  problem.broadcast_q = options.broadcast_q;
  problem.scale = options.scale;
  const safetensors::TensorView view{"", result.shape, std::as_bytes(std::span(result.output_bits))};
  return reference::judge(problem, to_host_tensor(view, file.dtype), result.lse);
}

Status write_result(const std::string& path, const AttentionFile& file, const RunResult& result) {
  safetensors::TensorMap tensors;
  tensors["output"] = {file.query->dtype, result.shape, std::as_bytes(std::span(result.output_bits))};
  tensors["lse"] = {"F32", {result.shape[1], result.shape[0]}, std::as_bytes(std::span(result.lse))};
  return safetensors::write(path, tensors);
}

int run(const RunOptions& options) {
  const Result<AttentionFile> file = read_attention_file(options.file, options.broadcast_q);
  if (!file) return fail(kCommand, file.status());
  if (Status status = check_configuration(*file, options); !status.ok()) return fail(kCommand, status);
  Result<Device> device = open_device(options);
  if (!device) return fail(kCommand, device.status());
  const Result<RunResult> result = run_on_device(*device, *file, options);
  if (!result) return fail(kCommand, result.status());

  fmt::print("{} sequences, {} query and {} key rows, {} heads ({} of keys), head_dim {}, {} on {}\n",
             file->key_offset->element_count() - 1, file->query->shape[0], file->key->shape[0],
             file->query->shape[1], file->key->shape[1], file->query->shape[2], file->query->dtype,
             device->name());
  if (!options.output.empty()) {
    if (Status status = write_result(options.output, *file, *result); !status.ok())
      return fail(kCommand, status);
    fmt::print("{}: output {} [{}], lse F32 [{}, {}]\n", options.output, file->query->dtype,
               fmt::join(result->shape, ", "), result->shape[1], result->shape[0]);
  }
  if (!options.check) return kSuccess;
  const reference::Comparison comparison = check(*file, options, *result);
  fmt::print("{}\n", reference::describe(comparison));
  return comparison.within_tolerance ? kSuccess : kNegative;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "Compute the attention of a safetensors file");
  command.footer(
      "FILE holds query, key, value [rows, heads, head_dim] in BF16 or F16, query_offset and key_offset "
      "[batch + 1]\n"
      "in I32 or I64 (prefix sums of the sequence lengths), and optionally output_offset, the first output "
      "row of\n"
      "every sequence. OUT gets output, like query, and lse [heads, rows] in F32; rows of no sequence are 0 "
      "there.\n"
      "Exit status: 0, 1 if --check finds the result out of tolerance, 2 on any error.");
  command.add_option("FILE", options->file, "the tensors")->required();
  command.add_option(
      "--device", options->device,
      "cuda:N, or a simulated GPU such as sim:sm_100a or 'sim:sm_100a?sms=4'; default: cuda:0 if there "
      "is one, else sim:sm_100a");
  command.add_option("--window", options->window, "keep the pairs with |i - j| <= W; 0 is the diagonal")
      ->type_name("W");
  command.add_flag("--broadcast-q", options->broadcast_q,
                   "query is one sequence that reads every sequence's keys");
  command.add_option("--scale", options->scale, "factor of query . key; default 1 / sqrt(head_dim)")
      ->type_name("X");
  command.add_flag("--check", options->check,
                   "compare with fp64, and print the errors beside those of an eager 16-bit computation");
  command.add_option("-o,--output", options->output, "where to write output and lse")->type_name("OUT");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
