#include "runtime/compile.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "generator/dtype.h"
#include "jfa/cache.h"
#include "runtime/device.h"
#include "runtime/log.h"
#include "runtime/nvrtc.h"
#include "runtime/tuned.h"

namespace jfa {
namespace {

std::string precompile_command(const KernelSource& source) {
  const KernelSpec& spec = source.spec;
  std::string command = fmt::format(
      "jfa precompile --target {} --pass {} --head-dim {} --dtype {}", to_string(spec.target),
      spec.pass == Pass::forward ? "forward" : "backward", spec.padded_dim, row_of(spec.dtype).name);
  if (!spec.visibility.full()) command += fmt::format(" --window {}", window_text(spec.visibility));
  if (spec.broadcast_q) command += " --broadcast-q";
  if (spec.groups != 1) command += fmt::format(" --groups {}", spec.groups);
  if (has_line_info(source) && !is_virtual(spec.target)) command += " --line-info";
  return command;
}

}  // namespace

CompileRequest compile_request(const KernelSource& source) {
  return {source.name, source.text, source.target, source.options,
          source.tuning.empty() ? precompile_command(source) : std::string()};
}

namespace {

// What is worth keeping of a compilation. PTX beside machine code is for the driver of a later device of the
// same family; an `a` target's becomes machine code of its own generation only, which is at hand.
bool keeps_ptx(Target target) { return is_virtual(target) || to_string(target).ends_with('f'); }

Result<KernelImage> compile_with(const Nvrtc& nvrtc, const KernelSource& source) {
  Result<KernelImage> image = nvrtc.compile(source);
  if (image.ok() && !keeps_ptx(source.spec.target)) image->ptx.clear();
  return image;
}

// The compiler behind a cache that files under the identity `compiler`. That was read from the file on disk;
// what another NVRTC makes must not be filed under it, and is kInternal.
Result<KernelImage> compile_as(const std::string& compiler, const KernelSource& source) {
  const auto nvrtc = Nvrtc::instance();
  if (!nvrtc) return nvrtc.status();
  if (!compiler.empty() && (*nvrtc)->identity() != compiler)
    return Status::internal("another NVRTC than the one found on disk was opened: " + (*nvrtc)->path());
  return compile_with(**nvrtc, source);
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

thread_local std::vector<CacheEvent>* held_events = nullptr;

// What the cache tells its watcher on this thread while one lives, it is told at its end. Made before the
// process's lock is taken, which the calls of a callback want, too.
class HeldEvents {
 public:
  HeldEvents() { held_events = &events_; }
  ~HeldEvents() {
    held_events = nullptr;
    for (const CacheEvent& event : events_) the_process_cache().on_event(event);
  }
  HeldEvents(const HeldEvents&) = delete;
  HeldEvents& operator=(const HeldEvents&) = delete;

 private:
  std::vector<CacheEvent> events_;
};

void tell_watcher(const CacheEvent& event) {
  if (held_events)
    held_events->push_back(event);
  else
    the_process_cache().on_event(event);
}

}  // namespace

Result<KernelCache*> process_cache() {
  ProcessCache& process = the_process_cache();
  const HeldLog held_log;  // a callback may ask for kernels, or count them
  const HeldEvents held;
  std::lock_guard lock(process.mutex);
  if (!process.cache) {
    if (Status status = read_log_environment(); !status.ok()) return status;
    Result<CacheOptions> options = cache_options_from_environment();
    if (!options) return options.status();
    // A process that finds all its kernels never loads NVRTC; without NVRTC, what others compiled is still
    // served.
    if (const auto identity = Nvrtc::find_identity(NvrtcSearch::from_process())) {
      options->compiler = *identity;
    } else if (const auto nvrtc = Nvrtc::instance()) {
      options->compiler = (*nvrtc)->identity();
    }
    if (process.on_event) options->on_event = tell_watcher;
    options->log = process_log();
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
  const Result<KernelCache*> cache = process_cache();
  if (!cache) return cache.status();
  const std::vector<Tuning> tunings = tunings_of(impl, *spec, configuration.tuning);
  for (const Tuning& tuning : tunings) {
    const Result<KernelSource> source = source_of(*spec, tuning, impl.line_info);
    // One of a database, beside the defaults: whoever loads it tells why it is left out.
    if (!source && tunings.size() > 1 && !tuning.empty()) continue;
    if (!source) return source.status();
    (*cache)->prepare(compile_request(*source), [source = *source, compiler = (*cache)->options().compiler] {
      return compile_as(compiler, source);
    });
  }
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
  Result<KernelImage> fresh = compile_with(**nvrtc, source);
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
