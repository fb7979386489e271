// jfa doctor: what is there, what would be used, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/standard_streams.h"
#include "jfa/version.h"
#include "runtime/variables.h"
#include "tools/command_line.h"
#include "tools/doctor.h"
#include "tools/table.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of the JSON; goes up when a field changes its meaning or goes.
constexpr int kFormat = 1;

void line(std::string_view subject, std::string_view text) {
  tell(fmt::format("{:<12} {}\n", subject, text));
}

// "96 kernels (48 sm_100f, 48 sm_90a), 16.7 MiB"
std::string contents(const StoreFacts& store) {
  std::vector<std::string> targets;
  for (const auto& [target, count] : store.kernels)
    targets.push_back(fmt::format("{} {}", count, to_string(target)));
  std::string text = fmt::format("{} kernels", store.usable_kernels());
  if (!targets.empty()) text += fmt::format(" ({})", fmt::join(targets, ", "));
  if (store.other_version > 0) text += fmt::format(", {} never asked for", store.other_version);
  if (!store.damaged.empty()) text += fmt::format(", {} damaged", store.damaged.size());
  return text + ", " + human_bytes(store.bytes);
}

void print_hardware(const Diagnosis& found) {
  const DriverFacts& driver = found.driver;
  line("driver", driver.available ? fmt::format("CUDA {}.{}, {} GPUs", driver.cuda_major, driver.cuda_minor,
                                                found.gpus.size())
                                  : driver.message);
  for (const GpuFacts& gpu : found.gpus) {
    if (gpu.name.empty()) {
      line(gpu.device, gpu.message);
      continue;
    }
    line(gpu.device,
         fmt::format("{}, compute capability {}.{}, {:.0f} GiB, {}", gpu.name, gpu.major, gpu.minor,
                     static_cast<double>(gpu.memory_bytes) / 0x1p30,
                     gpu.target ? fmt::format("kernels built for {}", to_string(*gpu.target)) : gpu.message));
    if (!gpu.cluster_message.empty()) line("", gpu.cluster_message);
  }
}

void print_compiler(const CompilerFacts& compiler) {
  if (!compiler.available) {
    line("NVRTC", compiler.message);
    for (const NvrtcPlace& place : compiler.places)
      line("", fmt::format("looked for: {} ({})", place.where, place.origin));
    return;
  }
  line("NVRTC", fmt::format("{}, {} (found by {})", compiler.version, compiler.path, compiler.origin));
  if (!compiler.missing_builtins.empty())
    line("", fmt::format("its companion {} is missing: compiling will fail", compiler.missing_builtins));
  for (const auto& [target, message] : compiler.targets)
    line("", fmt::format("{}: {}", to_string(target), message.empty() ? "known" : message));
}

void print_cache(const Diagnosis& found) {
  bool first = true;
  const auto cache_line = [&](const std::string& text) {
    line(first ? "cache" : "", text);
    first = false;
  };
  if (!found.memory_only.empty()) cache_line("in memory only: " + found.memory_only);
  for (const StoreFacts& store : found.stores) {
    const char* const kinds[] = {"", "read only: ", "bundle: "};
    std::string text = kinds[static_cast<int>(store.kind)] + store.path;
    if (store.kind == StoreFacts::Kind::kDirectory)
      text += fmt::format(" ({}): ", store.writable ? "in use" : "not written: " + store.message);
    else
      text += ": ";
    cache_line(text + (store.usable ? contents(store) : store.message));
    for (const StoreFacts::Damage& damage : store.damaged)
      line("", fmt::format("  {}: {}", damage.kernel, damage.why));
  }
}

int print(const Diagnosis& found) {
  line("jfa", version_and_commit());
  print_hardware(found);
  print_compiler(found.compiler);
  print_cache(found);
  std::string subject = "environment";
  for (const auto& [name, value] : found.environment) {
    line(subject, fmt::format("{}={}", name, value));
    subject.clear();
  }
  if (found.environment.empty()) {
    std::vector<std::string_view> names;
    for (const Variable& variable : variables()) names.push_back(variable.name);
    line(subject, fmt::format("none of {} is set", fmt::join(names, ", ")));
  }
  line("jfa run",
       found.device.starts_with("cuda:")
           ? fmt::format("would use {}, the first usable GPU", found.device)
           : fmt::format("would use {}, a simulated GPU, as there is no usable real one", found.device));
  for (const std::string& warning : found.warnings) line("warning", warning);
  for (const std::string& problem : found.problems) line("problem", problem);
  line("health", found.problems.empty() ? "good" : "bad");
  return found.problems.empty() ? kSuccess : kNegative;
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json gpus_json(const Diagnosis& found) {
  Json gpus = Json::array();
  for (const GpuFacts& gpu : found.gpus)
    gpus.push_back({{"device", gpu.device},
                    {"name", or_null(gpu.name)},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"memory_bytes", gpu.memory_bytes},
                    {"target", gpu.target ? Json(to_string(*gpu.target)) : Json()},
                    {"message", or_null(gpu.message)},
                    {"clusters_of_two", gpu.clusters ? Json(*gpu.clusters) : Json()},
                    {"clusters_message", or_null(gpu.cluster_message)}});
  return gpus;
}

Json compiler_json(const CompilerFacts& compiler) {
  Json targets = Json::object();
  for (const auto& [target, message] : compiler.targets)
    targets[std::string(to_string(target))] = or_null(message);
  Json places = Json::array();
  for (const NvrtcPlace& place : compiler.places)
    places.push_back({{"origin", place.origin}, {"where", place.where}, {"found", place.libraries}});
  return {{"available", compiler.available},
          {"usable", compiler.usable},
          {"version", or_null(compiler.version)},
          {"path", or_null(compiler.path)},
          {"origin", or_null(compiler.origin)},
          {"missing_companion", or_null(compiler.missing_builtins)},
          {"targets", targets},
          {"message", or_null(compiler.message)},
          {"searched", places}};
}

Json stores_json(const Diagnosis& found) {
  const char* const kinds[] = {"directory", "read_only_directory", "bundle"};
  Json stores = Json::array();
  for (const StoreFacts& store : found.stores) {
    Json kernels = Json::object();
    for (const auto& [target, count] : store.kernels) kernels[std::string(to_string(target))] = count;
    Json damaged = Json::array();
    for (const StoreFacts::Damage& damage : store.damaged)
      damaged.push_back({{"kernel", damage.kernel}, {"why", damage.why}});
    stores.push_back({{"kind", kinds[static_cast<int>(store.kind)]},
                      {"path", store.path},
                      {"usable", store.usable},
                      {"writable", store.writable},
                      {"message", or_null(store.message)},
                      {"bytes", store.bytes},
                      {"kernels", kernels},
                      {"other_version", store.other_version},
                      {"damaged", damaged}});
  }
  return stores;
}

int print_json(const Diagnosis& found) {
  Json environment = Json::object();
  for (const auto& [name, value] : found.environment) environment[name] = value;
  const DriverFacts& driver = found.driver;
  const Json json{
      {"format", kFormat},
      {"jfa", version_and_commit()},
      {"healthy", found.problems.empty()},
      {"problems", found.problems},
      {"warnings", found.warnings},
      {"driver",
       {{"available", driver.available},
        {"cuda",
         driver.available ? Json(fmt::format("{}.{}", driver.cuda_major, driver.cuda_minor)) : Json()},
        {"message", or_null(driver.message)}}},
      {"gpus", gpus_json(found)},
      {"compile", found.policy == CompilePolicy::kNever ? "never" : "auto"},
      {"nvrtc", compiler_json(found.compiler)},
      {"memory_only", or_null(found.memory_only)},
      {"stores", stores_json(found)},
      {"environment", environment},
      {"device", found.device}};
  tell(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return found.problems.empty() ? kSuccess : kNegative;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  struct Options {
    bool json = false;
    bool require_gpu = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand(
      "doctor", "Show driver, GPUs, compiler and kernels at hand, and what would be used");
  command.footer(
      "Exit status 0: kernels can be had, by compiling or from what is at hand. 1: there is a problem, which "
      "is\n"
      "one of: a JFA_ variable has a value that cannot be used; a bundle, a read-only directory or the "
      "directory\n"
      "JFA_CACHE_DIR that is named there cannot be used, or a bundle or read-only directory holds a damaged\n"
      "kernel; neither can kernels be compiled (JFA_COMPILE=never, no NVRTC or none that works) nor is one "
      "at\n"
      "hand that this version asks for, at all or for the target of some GPU; there is no usable GPU, if\n"
      "--require-gpu is given.");
  command.add_flag("--json", options->json, "for programs");
  command.add_flag("--require-gpu", options->require_gpu, "no usable GPU is a problem");
  command.callback([options, &exit_code] {
    const Diagnosis found = diagnose(options->require_gpu);
    exit_code = options->json ? print_json(found) : print(found);
  });
}

}  // namespace jfa::tools
