#include "runtime/compile.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "generator/dtype.h"
#include "jfa/cache.h"
#include "runtime/device.h"
#include "runtime/nvrtc.h"

namespace jfa {
namespace {

std::string precompile_command(const KernelSpec& spec) {
  std::string command = fmt::format(
      "jfa precompile --target {} --pass {} --head-dim {} --dtype {}", to_string(spec.target),
      spec.pass == Pass::forward ? "forward" : "backward", spec.padded_dim, row_of(spec.dtype).name);
  if (spec.window) command += fmt::format(" --window {}", *spec.window);
  if (spec.broadcast_q) command += " --broadcast-q";
  if (spec.groups != 1) command += fmt::format(" --groups {}", spec.groups);
  return command;
}

}  // namespace

CompileRequest compile_request(const KernelSource& source) {
  return {source.name, source.text, source.target, source.options,
          source.tuning.empty() ? precompile_command(source.spec) : std::string()};
}

namespace {

// The compiler behind a cache that files under the identity `compiler`. That was read from the file on disk;
// what another NVRTC makes must not be filed under it, and is kInternal.
Result<KernelImage> compile_as(const std::string& compiler, const KernelSource& source) {
  const auto nvrtc = Nvrtc::instance();
  if (!nvrtc) return nvrtc.status();
  if (!compiler.empty() && (*nvrtc)->identity() != compiler)
    return Status::internal("another NVRTC than the one found on disk was opened: " + (*nvrtc)->path());
  return (*nvrtc)->compile(source);
}

// Never destroyed: used until the process ends.
struct ProcessCache {
  std::mutex mutex;
  KernelCache* cache = nullptr;
  CacheEventCallback on_event;
};
ProcessCache& the_process_cache() {
  static auto* process = new ProcessCache;
  return *process;
}

}  // namespace

Result<KernelCache*> process_cache() {
  ProcessCache& process = the_process_cache();
  std::lock_guard lock(process.mutex);
  if (!process.cache) {
    Result<CacheOptions> options = cache_options_from_environment();
    if (!options) return options.status();
    // A process that finds all its kernels never loads NVRTC; without NVRTC, what others compiled is still
    // served.
    if (const auto identity = Nvrtc::find_identity(NvrtcSearch::from_environment())) {
      options->compiler = *identity;
    } else if (const auto nvrtc = Nvrtc::instance()) {
      options->compiler = (*nvrtc)->identity();
    }
    options->on_event = process.on_event;
    process.cache = new KernelCache(*std::move(options));
  }
  return process.cache;
}

Result<CacheStats> cache_stats() {
  const Result<KernelCache*> cache = process_cache();
  if (!cache) return cache.status();
  return (*cache)->stats();
}

Status watch_cache(CacheEventCallback callback) {
  ProcessCache& process = the_process_cache();
  std::lock_guard lock(process.mutex);
  if (process.cache)
    return Status::invalid_argument(
        "the kernel cache is in use already: watch it before the first kernel is asked for");
  process.on_event = std::move(callback);
  return {};
}

Status prepare_in_background(Device& device, const Configuration& configuration) {
  const Device::Impl& impl = device.impl();
  const Result<KernelSpec> spec = specialize(configuration, impl.target);
  if (!spec) return spec.status();
  const Result<KernelSource> source = source_of(*spec, relevant(impl.tuning, *spec));
  if (!source) return source.status();
  const Result<KernelCache*> cache = process_cache();
  if (!cache) return cache.status();
  (*cache)->prepare(compile_request(*source), [source = *source, compiler = (*cache)->options().compiler] {
    return compile_as(compiler, source);
  });
  return {};
}

Result<SharedImage> compile(KernelCache& cache, const KernelSource& source, bool* compiled) {
  bool called = false;
  Result<SharedImage> image = cache.get_or_compile(compile_request(source), [&] {
    called = true;
    return compile_as(cache.options().compiler, source);
  });
  if (compiled) *compiled = called;
  if (image || image.status().kind() != ErrorKind::kInternal) return image;
  // Another NVRTC than the one the cache files under: right all the same, but not for the cache.
  const auto nvrtc = Nvrtc::instance();
  if (!nvrtc) return nvrtc.status();
  Result<KernelImage> fresh = (*nvrtc)->compile(source);
  if (!fresh) return fresh.status();
  if (compiled) *compiled = true;
  return std::make_shared<const KernelImage>(*std::move(fresh));
}

Result<SharedImage> compile(const KernelSource& source, bool* compiled) {
  const Result<KernelCache*> cache = process_cache();
  if (!cache) return cache.status();
  return compile(**cache, source, compiled);
}

void discard(const KernelSource& source, const KernelImage& image, std::string_view reason) {
  if (const Result<KernelCache*> cache = process_cache())
    (*cache)->discard(compile_request(source), image, reason);
}

}  // namespace jfa
