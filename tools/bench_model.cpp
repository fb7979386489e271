#include "tools/bench_model.h"

#include <fmt/format.h>

#include "generator/emit.h"
#include "generator/target.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "simulator/timing/modelled_launch.h"
#include "simulator/timing/report.h"
#include "tools/bench_data.h"

namespace jfa::tools {
namespace {

namespace timing = simulator::timing;

Configuration configuration_of(const BenchShape& shape, Pass pass, const Device& device) {
  Configuration configuration;
  configuration.target = device.target();
  configuration.pass = pass;
  configuration.dtype = shape.dtype;
  configuration.head_dim = shape.head_dim;
  configuration.window = shape.window;
  configuration.broadcast_q = shape.kind == BenchShape::Kind::kPma;
  configuration.groups = shape.groups;
  return configuration;
}

// Of the PTX that simulated devices run, what ptxas makes for a GPU.
Result<SharedImage> machine_code_of(const KernelSource& simulated) {
  KernelSpec spec = simulated.spec;
  for (const Target target : all_targets())
    if (!is_virtual(target) && virtual_target(target) == spec.target) {
      spec.target = target;
      return compile(source_of(spec, simulated.tuning, true).value());
    }
  return Status::internal(fmt::format("no target has the PTX of {}", to_string(spec.target)));
}

Status run(Device& device, const BenchTensors& tensors, Pass pass) {
  if (Status status = forward(device, tensors.call, tensors.output, tensors.lse, tensors.workspace);
      !status.ok())
    return status;
  if (Status status = device.synchronize(); !status.ok() || pass == Pass::forward) return status;
  (void)timing::take_timed_launches(&device.impl().driver);  // the forward's
  if (Status status =
          backward(device, tensors.call, tensors.output, tensors.lse, tensors.output_grad, 0,
                   tensors.query_grad, tensors.key_grad, tensors.value_grad, tensors.backward_workspace);
      !status.ok())
    return status;
  return device.synchronize();
}

}  // namespace

bool times_launches(const Device& device) { return timing::times_launches(&device.impl().driver); }

Result<std::string> model_shape(Device& device, const BenchProblem& problem, Pass pass) {
  Result<BenchTensors> tensors = BenchTensors::make(device, problem, pass);
  if (!tensors) return tensors.status();
  const Result<KernelSpec> spec = specialize(configuration_of(problem.shape, pass, device));
  if (!spec) return spec.status();
  const Result<KernelSource> source = source_of(*spec, device.impl().tuning);
  if (!source) return source.status();
  const Result<SharedImage> image = machine_code_of(*source);
  if (!image) return image.status();
  const auto cubin = machine_code::read_cubin((*image)->name, (*image)->cubin);
  if (!cubin) return cubin.status();
  (void)timing::take_timed_launches(&device.impl().driver);
  if (Status status = run(device, *tensors, pass); !status.ok()) return status;
  std::string text;
  for (const timing::TimedLaunch& launch : timing::take_timed_launches(&device.impl().driver)) {
    const auto modelled = timing::model((*image)->name, *cubin, launch);
    if (!modelled) {
      text += fmt::format("{}: not modelled: {}\n{}", launch.entry->name, modelled.status().message(),
                          modelled.status().detail());
      continue;
    }
    text += timing::text_of(timing::summarize(launch, **modelled, source->text));
  }
  return text;
}

}  // namespace jfa::tools
