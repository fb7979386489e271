#include "tools/precompile_bundle.h"

#include <map>
#include <utility>

#include "cache/bundle.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "tools/shard.h"

namespace jfa::tools {
Result<std::vector<KernelSpec>> shard_of(const std::vector<KernelSpec>& specs, const std::string& text,
                                         bool line_info) {
  const auto shard = parse_shard(text);
  if (!shard) return Status::invalid_argument("--shard '" + text + "' is not I/N with I from 0 to N-1");
  std::vector<KernelSpec> own;
  for (const KernelSpec& spec : specs) {
    const Result<KernelSource> source = source_of(spec, {}, line_info);
    if (!source) return source.status();
    const Digest key = request_key(compile_request(*source));
    if (jfa::shard_of(key, shard->count) == shard->index) own.push_back(spec);
  }
  return own;
}

Result<std::uint64_t> write_bundle(KernelCache& cache, const std::vector<KernelSpec>& specs, bool line_info,
                                   OutputFile& output) {
  std::map<Digest, KernelSpec> sorted;
  for (const KernelSpec& spec : specs) {
    const Result<KernelSource> source = source_of(spec, {}, line_info);
    if (!source) return source.status();
    sorted[request_key(compile_request(*source))] = spec;
  }
  BundleWriter writer([&](std::string_view bytes) { return output.append(bytes); });
  for (const auto& [key, spec] : sorted) {
    const KernelSource source = source_of(spec, {}, line_info).value();
    const CompileRequest request = compile_request(source);
    const Result<SharedImage> image = compile(cache, source);
    if (!image) return image.status();
    const Status status = writer.add({fields_of(request), request.source.size(), **image});
    if (!status.ok()) return status;
  }
  Status status = writer.finish();
  if (status.ok()) status = output.commit();
  if (!status.ok()) return status;
  return writer.bytes();
}

}  // namespace jfa::tools
