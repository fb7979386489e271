// jfa bench: how fast attentions of given shapes are on a device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/input_file.h"
#include "base/output_file.h"
#include "base/standard_streams.h"
#include "jfa/attention.h"
#include "jfa/version.h"
#include "runtime/device.h"
#include "tools/bench_data.h"
#include "tools/bench_model.h"
#include "tools/bench_overhead.h"
#include "tools/bench_shapes.h"
#include "tools/bench_timer.h"
#include "tools/command_line.h"
#include "tools/option_checks.h"
#include "tools/sweep.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kBenchCommand = "bench";
using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::string shapes_file;
  std::vector<std::string> only;
  std::string device = "cuda:0";
  std::string pass = "forward";
  int repeats = 15;
  std::optional<std::string> json_file;
  bool overhead = false;
  bool details = false;
};

// What the rates are compared with.
struct Limits {
  double copy_gb_per_s = 0;
  double matrix_peak_tflops = 0;  // 0: unknown
};

Result<std::vector<BenchShape>> read_shapes(const BenchOptions& options) {
  const Result<std::string> text = read_text(options.shapes_file);
  if (!text) return text.status();
  Result<std::vector<BenchShape>> shapes = parse_shapes(options.shapes_file, *text);
  if (!shapes || options.only.empty()) return shapes;
  std::vector<BenchShape> chosen;
  for (const std::string& name : options.only) {
    const auto found = std::find_if(shapes->begin(), shapes->end(),
                                    [&](const BenchShape& shape) { return shape.name == name; });
    if (found == shapes->end()) {
      std::vector<std::string> names;
      for (const BenchShape& shape : *shapes) names.push_back(shape.name);
      return Status::invalid_argument(fmt::format("{}: has no shape '{}'; there are {}", options.shapes_file,
                                                  name, fmt::join(names, ", ")));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Status prepare_kernels(Device& device, const BenchProblem& problem, Pass pass) {
  const BenchShape& shape = problem.shape;
  Configuration configuration;
  configuration.dtype = shape.dtype;
  configuration.head_dim = shape.head_dim;
  configuration.window = shape.window;
  configuration.broadcast_q = shape.kind == BenchShape::Kind::kPma;
  configuration.groups = shape.groups;
  Status status = prepare(device, configuration);  // the backward reads what the forward gave
  if (!status.ok() || pass == Pass::forward) return status;
  configuration.pass = Pass::backward;
  return prepare(device, configuration);
}

Result<BenchTimes> measure(Device& device, BenchTimer& timer, const BenchProblem& problem, Pass pass) {
  if (Status status = prepare_kernels(device, problem, pass); !status.ok()) return status;
  Result<BenchTensors> made = BenchTensors::make(device, problem, pass);
  if (!made) return made.status();
  const BenchTensors& tensors = *made;
  const auto run_forward = [&] {
    return forward(device, tensors.call, tensors.output, tensors.lse, tensors.workspace, timer.stream());
  };
  const auto run_backward = [&] {
    return backward(device, tensors.call, tensors.output, tensors.lse, tensors.output_grad, 0,
                    tensors.query_grad, tensors.key_grad, tensors.value_grad, tensors.backward_workspace,
                    timer.stream());
  };
  // Once to see that it is right to measure it.
  Status status = run_forward();
  if (status.ok()) status = jfa::status(device, tensors.workspace, timer.stream());
  if (status.ok() && pass == Pass::backward) {
    status = run_backward();
    if (status.ok()) status = jfa::status(device, tensors.backward_workspace, timer.stream());
  }
  if (!status.ok()) return status;
  return pass == Pass::forward ? timer.measure(run_forward) : timer.measure(run_backward);
}

void print_head(const Limits& limits) {
  tell(fmt::format("copy within the device {:.0f} GB/s read plus written", limits.copy_gb_per_s));
  if (limits.matrix_peak_tflops > 0)
    tell(fmt::format(", matrix units {:.0f} TFLOP/s at the highest clock", limits.matrix_peak_tflops));
  tell(fmt::format("\n{:<14}{:>9}{:>9}{:>10}{:>10}{:>10}{:>9}{:>7}{:>8}{:>7}\n", "shape", "q rows", "kv rows",
                   "ms", "least", "most", "TFLOP/s", "peak", "GB/s", "copy"));
}

// One shape's row, printed at once; what it adds to the JSON.
Json report(const BenchProblem& problem, Pass pass, const BenchTimes& times, const Limits& limits) {
  const double tflops = flops(problem, pass) / times.median() / 1e9;
  const double gb_per_s = bytes(problem, pass) / times.median() / 1e6;
  const double copy_share = gb_per_s / limits.copy_gb_per_s;
  const double peak_share = limits.matrix_peak_tflops > 0 ? tflops / limits.matrix_peak_tflops : 0;
  tell(fmt::format("{:<14}{:>9}{:>9}{:>10.4f}{:>10.4f}{:>10.4f}{:>9.1f}{:>6.1f}%{:>8.0f}{:>6.1f}%\n",
                   problem.shape.name, problem.output_rows(), problem.key_rows(), times.median(),
                   times.quantile(0), times.quantile(1), tflops, 100 * peak_share, gb_per_s,
                   100 * copy_share));
  std::fflush(stdout);
  return {{"name", problem.shape.name},
          {"query_rows", problem.output_rows()},
          {"key_rows", problem.key_rows()},
          {"pairs", problem.pairs},
          {"flops", flops(problem, pass)},
          {"bytes", bytes(problem, pass)},
          {"ms",
           {{"median", times.median()},
            {"min", times.quantile(0)},
            {"lower_quartile", times.quantile(0.25)},
            {"upper_quartile", times.quantile(0.75)},
            {"max", times.quantile(1)}}},
          {"tflops", tflops},
          {"gb_per_s", gb_per_s},
          {"share_of_copy_bandwidth", copy_share},
          {"share_of_matrix_peak", peak_share}};
}

int run_shapes(Device& device, const std::vector<BenchShape>& shapes, const BenchOptions& options, Pass pass,
               Json& json) {
  const Result<std::unique_ptr<BenchTimer>> made = BenchTimer::make(device, options.repeats);
  if (!made) return fail(kBenchCommand, made.status());
  BenchTimer& timer = **made;
  const Result<double> copy_gb_per_s = timer.copy_bandwidth();
  if (!copy_gb_per_s) return fail(kBenchCommand, copy_gb_per_s.status());
  const Limits limits{*copy_gb_per_s, matrix_peak_tflops(device)};
  json["copy_gb_per_s"] = limits.copy_gb_per_s;
  json["matrix_peak_tflops"] = limits.matrix_peak_tflops;
  json["shapes"] = Json::array();
  print_head(limits);
  int exit_code = kSuccess;
  for (const BenchShape& shape : shapes) {
    const BenchProblem problem = draw(shape);
    const Result<BenchTimes> times = measure(device, timer, problem, pass);
    if (times) {
      json["shapes"].push_back(report(problem, pass, *times, limits));
      continue;
    }
    note(kBenchCommand, fmt::format("{}: {}", shape.name, times.status().message()));
    json["shapes"].push_back({{"name", shape.name}, {"error", times.status().message()}});
    exit_code = kNegative;
  }
  return exit_code;
}

#ifdef JFA_HAS_SIMULATOR
// What the timing model says instead of a clock.
int run_models(Device& device, const std::vector<BenchShape>& shapes, const BenchOptions& options,
               Pass pass) {
  int exit_code = kSuccess;
  tell(fmt::format("{} on {}: times of a model, nothing is measured\n", options.pass, device.name()));
  for (const BenchShape& shape : shapes) {
    const Result<std::string> text = model_shape(device, draw(shape), pass, options.details);
    if (text) {
      tell(*text);
      std::fflush(stdout);
      continue;
    }
    note(kBenchCommand,
         fmt::format("{}: {}\n{}", shape.name, text.status().message(), text.status().detail()));
    exit_code = kNegative;
  }
  return exit_code;
}

#endif

int run_overhead(Device& device, Json& json) {
  const Result<Overhead> overhead = measure_overhead(device);
  if (!overhead) return fail(kBenchCommand, overhead.status());
  const double more_us = overhead->with_workspace_us - overhead->bare_us;
  tell(
      fmt::format("host time of one forward(), median, in microseconds\n"
                  "{:8.2f}  with the caller's workspace\n"
                  "{:8.2f}  with a workspace from the pool\n"
                  "{:8.2f}  the same tensor maps and launches, straight to the driver\n"
                  "{:8.2f}  what jfa adds\n",
                  overhead->with_workspace_us, overhead->with_pool_us, overhead->bare_us, more_us));
  json["overhead_us"] = {{"with_workspace", overhead->with_workspace_us},
                         {"with_pool", overhead->with_pool_us},
                         {"bare", overhead->bare_us},
                         {"added", more_us}};
  return kSuccess;
}

int bench(const BenchOptions& options) {
  if (options.shapes_file.empty() && !options.overhead)
    return fail(kBenchCommand,
                Status::invalid_argument("nothing to measure: give --shapes FILE, --overhead, or both"));
  const Result<Pass> pass = parse_pass(options.pass);
  if (!pass) return fail(kBenchCommand, pass.status());
  Result<std::vector<BenchShape>> shapes = std::vector<BenchShape>();
  if (!options.shapes_file.empty()) shapes = read_shapes(options);
  if (!shapes) return fail(kBenchCommand, shapes.status());
  Result<std::optional<OutputFile>> json_file = open_if_given(options.json_file);
  if (!json_file) return fail(kBenchCommand, json_file.status());
  Result<Device> device = Device::open(options.device);
  if (!device) return fail(kBenchCommand, device.status());
#ifdef JFA_HAS_SIMULATOR
  if (times_launches(*device)) return run_models(*device, *shapes, options, *pass);
#endif
  const Device::Impl& impl = device->impl();
  int driver_version = 0;
  (void)impl.driver.cuDriverGetVersion(&driver_version);  // for the record only
  tell(fmt::format("{} on {} ({}), kernels for {}, median of {}\n", options.pass, device->name(),
                   impl.gpu_name, device->target(), options.repeats));
  if (device->simulated())
    note(kBenchCommand, "times are those of the simulator on this machine, not a GPU's");
  Json json{{"jfa", version_and_commit()},
            {"device", device->name()},
            {"gpu", impl.gpu_name},
            {"simulated", device->simulated()},
            {"cuda_of_driver", fmt::format("{}.{}", driver_version / 1000, driver_version % 1000 / 10)},
            {"target", device->target()},
            {"pass", options.pass},
            {"repeats", options.repeats}};
  int exit_code = kSuccess;
  if (options.overhead) exit_code = run_overhead(*device, json);
  if (exit_code == kSuccess && !options.shapes_file.empty())
    exit_code = run_shapes(*device, *shapes, options, *pass, json);
  if (exit_code == kFailure || !*json_file) return exit_code;
  const Status status = (*json_file)->write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  return status.ok() ? exit_code : fail(kBenchCommand, status);
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App& command = *app.add_subcommand("bench", "Measure attentions of given shapes");
  command.footer(
      "FILE is JSON like bench/shapes.json. Times are taken on the device, with a cold L2 cache and random "
      "data; the\n"
      "first runs do not count. TFLOP/s count exactly the pairs that the shape has (2.5 times the forward's "
      "for a\n"
      "backward), GB/s the bytes that must move once.\n"
      "Exit status: 0, 1 if some shape could not be measured, 2 on any other error.");
  command.add_option("--shapes", options->shapes_file, "what to measure")->type_name("FILE");
  list(command.add_option("--only", options->only, "only the shapes of these names, in this order"))
      ->type_name("NAME");
  command.add_option("--device", options->device, "cuda:N, or a simulated GPU, for a trial with tiny shapes")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--pass", options->pass, "of the attention")
      ->type_name("forward|backward")
      ->capture_default_str();
  whole<int>(command.add_option("--repeat", options->repeats, "how many runs to take the median of"), 1,
             100000)
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--json", options->json_file, "where to write all numbers; - is stdout")
      ->type_name("OUT");
  command.add_flag("--overhead", options->overhead,
                   "the host's time for one call, beside that of the same bare launches");
  command.add_flag("--details", options->details,
                   "of a simulated GPU with timing=1: what the warps of each entry waited for");
  command.callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace jfa::tools
