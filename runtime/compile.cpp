#include "runtime/compile.h"

#include <fmt/format.h>

#include <mutex>

#include "runtime/nvrtc.h"

namespace jfa {
namespace {

std::string precompile_command(const KernelSpec& spec) {
  std::string command =
      fmt::format("jfa precompile --target {} --pass forward --head-dim {} --dtype {}",
                  to_string(spec.target), spec.padded_dim, spec.dtype == DType::bf16 ? "bf16" : "fp16");
  if (spec.window) command += fmt::format(" --window {}", *spec.window);
  if (spec.broadcast_q) command += " --broadcast-q";
  if (spec.groups != 1) command += fmt::format(" --groups {}", spec.groups);
  return command;
}

}  // namespace

CompileRequest compile_request(const KernelSource& source, const KernelSpec& spec) {
  return {source.name, source.text, source.target, source.options, precompile_command(spec)};
}

Result<KernelCache*> process_cache() {
  static std::mutex mutex;
  static KernelCache* cache = nullptr;  // never destroyed: used until the process ends
  std::lock_guard lock(mutex);
  if (!cache) {
    Result<CacheOptions> options = cache_options_from_environment();
    if (!options) return options.status();
    // A process that finds all its kernels never loads NVRTC; without NVRTC, what others compiled is still
    // served.
    if (const auto identity = Nvrtc::find_identity(NvrtcSearch::from_environment())) {
      options->compiler = *identity;
    } else if (const auto nvrtc = Nvrtc::instance()) {
      options->compiler = (*nvrtc)->identity();
    }
    cache = new KernelCache(*std::move(options));
  }
  return cache;
}

Result<SharedImage> compile(KernelCache& cache, const KernelSource& source, const KernelSpec& spec) {
  std::string other_compiler;
  Result<SharedImage> image =
      cache.get_or_compile(compile_request(source, spec), [&]() -> Result<KernelImage> {
        const auto nvrtc = Nvrtc::instance();
        if (!nvrtc) return nvrtc.status();
        // The cache files under the compiler that was found on disk; what another one makes must not go
        // there.
        if (!cache.options().compiler.empty() && (*nvrtc)->identity() != cache.options().compiler) {
          other_compiler = (*nvrtc)->path();
          return Status::internal("another NVRTC than expected was opened: " + other_compiler);
        }
        return (*nvrtc)->compile(source);
      });
  if (image || other_compiler.empty()) return image;
  const auto nvrtc = Nvrtc::instance();
  if (!nvrtc) return nvrtc.status();
  Result<KernelImage> compiled = (*nvrtc)->compile(source);
  if (!compiled) return compiled.status();
  return std::make_shared<const KernelImage>(*std::move(compiled));
}

Result<SharedImage> compile(const KernelSource& source, const KernelSpec& spec) {
  const Result<KernelCache*> cache = process_cache();
  if (!cache) return cache.status();
  return compile(**cache, source, spec);
}

void discard(const KernelSource& source, const KernelSpec& spec, std::string_view reason) {
  if (const Result<KernelCache*> cache = process_cache())
    (*cache)->discard(compile_request(source, spec), reason);
}

}  // namespace jfa
