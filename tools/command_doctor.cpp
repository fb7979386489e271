// jfa doctor: what is there, what would be used, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "generator/spec.h"
#include "jfa/attention.h"
#include "jfa/version.h"
#include "runtime/compile.h"
#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "tools/command_line.h"

namespace jfa::tools {
namespace {

// Variables that tell where NVRTC is; those of the cache come with it.
constexpr const char* kNvrtcVariables[] = {"JFA_NVRTC",  "JFA_NVRTC_FALLBACK", "JFA_IGNORE_TOOLKIT",
                                           "CUDA_PATH",  "CUDA_HOME",          "CONDA_PREFIX",
                                           "VIRTUAL_ENV"};

void line(std::string_view subject, std::string_view text) { fmt::print("{:<12} {}\n", subject, text); }

// Prints the driver and its GPUs; the name of the first that kernels exist for, or empty.
std::string report_gpus() {
  const Result<const DriverTable*> opened = open_cuda_driver();
  if (!opened) {
    line("driver", opened.status().message());
    return {};
  }
  const DriverTable& driver = **opened;
  int version = 0;
  int count = 0;
  if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
      driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    line("driver", "opened, but it does not answer");
    return {};
  }
  line("driver", fmt::format("CUDA {}.{}, {} GPUs", version / 1000, version % 1000 / 10, count));
  std::string usable;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string device_name = fmt::format("cuda:{}", ordinal);
    CUdevice device = 0;
    char gpu[256] = "unnamed";
    int major = 0;
    int minor = 0;
    std::size_t memory_bytes = 0;
    if (driver.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
        driver.cuDeviceGetName(gpu, sizeof gpu, device) != CUDA_SUCCESS ||
        driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
            CUDA_SUCCESS ||
        driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
            CUDA_SUCCESS ||
        driver.cuDeviceTotalMem(&memory_bytes, device) != CUDA_SUCCESS) {
      line(device_name, "does not answer");
      continue;
    }
    const Result<Target> target = target_for_device(major, minor);
    line(device_name, fmt::format("{}, compute capability {}.{}, {:.0f} GiB, {}", gpu, major, minor,
                                  static_cast<double>(memory_bytes) / 0x1p30,
                                  target ? fmt::format("kernels built for {}", to_string(*target))
                                         : target.status().message()));
    if (target && usable.empty()) usable = device_name;
  }
  return usable;
}

// Prints the compiler and the targets it knows; whether it can compile for the default target.
bool report_nvrtc() {
  const auto opened = Nvrtc::instance();
  if (!opened) {
    line("NVRTC", opened.status().message());
    return false;
  }
  const Nvrtc& nvrtc = **opened;
  line("NVRTC", fmt::format("{}, {} (found by {})", nvrtc.version(), nvrtc.path(), nvrtc.origin()));
  if (!nvrtc.missing_builtins().empty()) {
    line("", fmt::format("its companion {} is missing: compiling will fail", nvrtc.missing_builtins()));
  }
  for (const Target target : all_targets()) {
    const Status status = nvrtc.knows(std::string(to_string(target)));
    line("", fmt::format("{}: {}", to_string(target), status.ok() ? "known" : status.message()));
  }
  return nvrtc.missing_builtins().empty() && nvrtc.knows(std::string(to_string(all_targets().front()))).ok();
}

bool report_cache() {
  const Result<KernelCache*> cache = process_cache();
  if (!cache) {
    line("cache", cache.status().message());
    return false;
  }
  const KernelCache::State state = (*cache)->state();
  if (state.directory.empty()) {
    line("cache", fmt::format("in memory only: {}", state.reason));
  } else if (!state.reason.empty()) {
    line("cache", fmt::format("{} ({}): {}", state.directory, state.writable ? "in use" : "not written",
                              state.reason));
  } else {
    line("cache", fmt::format("{} ({})", state.directory, state.writable ? "in use" : "not written"));
  }
  for (const std::string& directory : (*cache)->options().read_only_directories)
    line("", "read only: " + directory);
  for (const std::string& bundle : (*cache)->options().bundles) line("", "bundle: " + bundle);
  return true;
}

void report_variables() {
  std::vector<std::string> names(std::begin(kNvrtcVariables), std::end(kNvrtcVariables));
  names.emplace_back("JFA_CHECK_OFFSETS");
  for (const CacheVariable& variable : cache_variables()) names.emplace_back(variable.name);
  bool any = false;
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());
    if (!value) continue;
    line(any ? "" : "environment", fmt::format("{}={}", name, value));
    any = true;
  }
  if (!any) line("environment", fmt::format("none of {} is set", fmt::join(names, ", ")));
}

int run() {
  line("jfa", version_and_commit());
  const std::string gpu = report_gpus();
  const bool compiles = report_nvrtc();
  const bool caches = report_cache();
  report_variables();
  const std::string device = gpu.empty() ? "sim:sm_100a, a simulated GPU, as there is no usable real one"
                                         : gpu + ", the first usable GPU";
  line("jfa run", fmt::format("would use {}", device));
  if (!compiles) line("", "only kernels that are in a cache can run: nothing can be compiled here");
  return compiles && caches ? kSuccess : kNegative;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App& command =
      *app.add_subcommand("doctor", "Show driver, GPUs, compiler and cache, and what would be used");
  command.footer("Exit status: 0, or 1 if kernels cannot be compiled or the cache's settings are wrong.");
  command.callback([&exit_code] { exit_code = run(); });
}

}  // namespace jfa::tools
