#include "tools/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

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

using Cycles = std::array<double, std::size(timing::kConstantSets)>;
using EntryCycles = std::map<std::string, Cycles>;  // of all SMs together

constexpr double kSms = 148;  // of a B200
constexpr std::int64_t kTileKeys = 128;
constexpr std::size_t kMostClasses = 5;  // of lengths that are played; between them it is interpolated
constexpr std::int64_t kSequences = 2;   // of a class: so many, and twice as many

// The kernels of a call, and what ptxas made of them.
struct Kernels {
  KernelSource source;
  SharedImage image;
  machine_code::Cubin cubin;
};

Result<Kernels> kernels_of(const BenchShape& shape, Pass pass, const Device& device) {
  const Result<KernelSpec> spec = specialize(configuration_of(shape, pass, device));
  if (!spec) return spec.status();
  Result<KernelSource> source = source_of(*spec, device.impl().tuning);
  if (!source) return source.status();
  Result<SharedImage> image = machine_code_of(*source);
  if (!image) return image.status();
  auto cubin = machine_code::read_cubin((*image)->name, (*image)->cubin);
  if (!cubin) return cubin.status();
  return Kernels{*std::move(source), *image, *std::move(cubin)};
}

// So many sequences of one length, of one key head.
BenchProblem sequences(const BenchShape& shape, std::int64_t count, std::int64_t keys, std::int64_t queries) {
  BenchShape one = shape;
  one.batch = count;
  one.heads = shape.groups;
  one.max_kv = keys;
  one.max_q = queries;
  one.fill_kv = one.fill_q = 1;
  return draw(one);
}

// Plays a call; `text` gets what there is to say of its entries, if not null.
Result<EntryCycles> play(Device& device, const Kernels& kernels, const BenchProblem& problem, Pass pass,
                         std::string* text) {
  Result<BenchTensors> tensors = BenchTensors::make(device, problem, pass);
  if (!tensors) return tensors.status();
  (void)timing::take_timed_launches(&device.impl().driver);
  if (Status status = run(device, *tensors, pass); !status.ok()) return status;
  EntryCycles cycles;
  for (const timing::TimedLaunch& launch : timing::take_timed_launches(&device.impl().driver)) {
    const auto modelled = timing::model(kernels.image->name, kernels.cubin, launch);
    if (!modelled) return modelled.status();
    // Entries without products are one CTA's, or read and write memory and nothing else.
    if ((*modelled)->nominal().has_products()) {
      Cycles& sum = cycles[launch.entry->name];
      for (std::size_t set = 0; set < sum.size(); ++set)
        sum[set] += (*modelled)->played[set].cycles_of_all_sms();
    }
    if (text != nullptr) *text += timing::text_of(timing::summarize(launch, **modelled, kernels.source.text));
  }
  return cycles;
}

// What one more sequence of a length costs, entry by entry, in cycles of one SM.
struct LengthClass {
  std::int64_t tiles = 0;  // of keys
  EntryCycles cycles;
};

Result<LengthClass> cost_of(Device& device, const Kernels& kernels, const BenchShape& shape, Pass pass,
                            std::int64_t keys, std::int64_t queries, std::string* text) {
  const auto few = play(device, kernels, sequences(shape, kSequences, keys, queries), pass, nullptr);
  if (!few) return few.status();
  auto many = play(device, kernels, sequences(shape, 2 * kSequences, keys, queries), pass, text);
  if (!many) return many.status();
  LengthClass result{(keys + kTileKeys - 1) / kTileKeys, *std::move(many)};
  for (auto& [entry, cycles] : result.cycles) {
    const auto before = few->find(entry);
    for (std::size_t set = 0; set < cycles.size(); ++set) {
      if (before != few->end()) cycles[set] -= before->second[set];
      cycles[set] = std::max(0.0, cycles[set] / kSequences);
    }
  }
  return result;
}

double interpolate(const std::vector<LengthClass>& classes, const std::string& entry, std::size_t set,
                   std::int64_t tiles) {
  const auto at = [&](std::size_t i) {
    const auto found = classes[i].cycles.find(entry);
    return found == classes[i].cycles.end() ? 0.0 : found->second[set];
  };
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (tiles > classes[i].tiles) continue;
    if (tiles == classes[i].tiles || i == 0)
      return at(i) * static_cast<double>(tiles) / static_cast<double>(classes[i].tiles);
    const double part = static_cast<double>(tiles - classes[i - 1].tiles) /
                        static_cast<double>(classes[i].tiles - classes[i - 1].tiles);
    return at(i - 1) + part * (at(i) - at(i - 1));
  }
  return at(classes.size() - 1);
}

std::string text_of(const Cycles& values, int digits) {
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", values[1], digits, values[0], digits, values[2], digits);
}

// Lengths of keys that are played, one a class of key tiles: the mean of those that the shape has.
std::map<std::int64_t, std::int64_t> lengths_to_play(const BenchProblem& problem) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> sums;  // by tiles: sum and count
  for (std::size_t i = 0; i + 1 < problem.key_offset.size(); ++i) {
    const std::int64_t keys = problem.key_offset[i + 1] - problem.key_offset[i];
    if (keys == 0) continue;
    auto& [sum, count] = sums[(keys + kTileKeys - 1) / kTileKeys];
    sum += keys;
    ++count;
  }
  std::vector<std::int64_t> tiles;
  for (const auto& [count, sum] : sums) tiles.push_back(count);
  std::map<std::int64_t, std::int64_t> lengths;
  for (std::size_t i = 0; i < std::min(kMostClasses, tiles.size()); ++i) {
    const std::size_t steps = std::min(kMostClasses, tiles.size()) - 1;
    const std::int64_t chosen = tiles[steps == 0 ? 0 : i * (tiles.size() - 1) / steps];
    lengths[chosen] = sums[chosen].first / sums[chosen].second;
  }
  return lengths;
}

}  // namespace

bool times_launches(const Device& device) { return timing::times_launches(&device.impl().driver); }

Result<std::string> model_shape(Device& device, const BenchProblem& problem, Pass pass, bool details) {
  const BenchShape& shape = problem.shape;
  // Few sequences are no reason to cut them: the whole shape has enough.
  if (pass == Pass::forward) device.impl().tuning = parse_tuning("split_parts=1").value();
  const Result<Kernels> kernels = kernels_of(shape, pass, device);
  if (!kernels) return kernels.status();
  const std::int64_t queries =
      std::max<std::int64_t>(1, problem.output_rows() / std::max<std::int64_t>(1, shape.batch));
  const std::map<std::int64_t, std::int64_t> lengths = lengths_to_play(problem);
  if (lengths.empty()) return Status::invalid_argument("no sequence of the shape has a key");
  std::string text;
  std::vector<LengthClass> classes;
  for (const auto& [tiles, keys] : lengths) {
    const bool longest = tiles == lengths.rbegin()->first;
    auto cost = cost_of(device, *kernels, shape, pass, keys, queries, details && longest ? &text : nullptr);
    if (!cost) return cost.status();
    classes.push_back(*std::move(cost));
  }

  Cycles total{}, milliseconds{}, memory{};
  std::string entries;
  for (const auto& [entry, unused] : classes.back().cycles) {
    Cycles sum{};
    for (std::size_t set = 0; set < sum.size(); ++set) {
      for (std::size_t i = 0; i + 1 < problem.key_offset.size(); ++i) {
        const std::int64_t keys = problem.key_offset[i + 1] - problem.key_offset[i];
        const double scale =
            shape.kind == BenchShape::Kind::kCross
                ? static_cast<double>(problem.query_offset[i + 1] - problem.query_offset[i]) /
                      static_cast<double>(queries)
                : 1.0;
        if (keys > 0)
          sum[set] += scale * interpolate(classes, entry, set, (keys + kTileKeys - 1) / kTileKeys);
      }
      sum[set] *= static_cast<double>(shape.key_heads()) / kSms;
      total[set] += sum[set];
    }
    if (sum[1] >= 1) entries += fmt::format("  {}: {} cycles an SM\n", entry, text_of(sum, 0));
  }
  for (const timing::ConstantSet set : timing::kConstantSets) {
    const timing::Constants constants = timing::constants(set);
    const auto i = static_cast<std::size_t>(set);
    memory[i] = bytes(problem, pass) / (kSms * constants.hbm_bytes);
    milliseconds[i] = std::max(total[i], memory[i]) / constants.clock_ghz / 1e6;
  }
  text += fmt::format(
      "{}: {} ms on {:.0f} SMs at {:.3f} GHz, {} by memory; {}\n{}"
      "  in perfect balance; without launches and entries that have no products; {} classes of "
      "lengths played\n",
      shape.name, text_of(milliseconds, 3), kSms, timing::constants(timing::ConstantSet::nominal).clock_ghz,
      total[1] >= memory[1] ? "not bound" : "bound", timing::label(), entries, classes.size());
  return text;
}

}  // namespace jfa::tools
