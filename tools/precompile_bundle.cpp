#include "tools/precompile_bundle.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cache/bundle.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "tools/shard.h"
#include "tuning/bundled.h"

namespace jfa::tools {
Result<std::vector<TunedSpec>> shard_of(const std::vector<TunedSpec>& specs, const std::string& text,
                                        bool line_info) {
  const auto shard = parse_shard(text);
  if (!shard) return Status::invalid_argument("--shard '" + text + "' is not I/N with I from 0 to N-1");
  std::vector<TunedSpec> own;
  for (const TunedSpec& kernel : specs) {
    const Result<KernelSource> source = source_of(kernel.spec, kernel.tuning, line_info);
    if (!source) return source.status();
    const Digest key = request_key(compile_request(*source));
    if (jfa::shard_of(key, shard->count) == shard->index) own.push_back(kernel);
  }
  return own;
}

Result<std::uint64_t> write_bundle(KernelCache& cache, const std::vector<TunedSpec>& specs,
                                   const std::vector<TuningRecord>& records, bool line_info,
                                   OutputFile& output) {
  std::map<Digest, std::optional<TunedSpec>> sorted;  // nullopt: the database
  if (!records.empty()) sorted[bundled_key()] = std::nullopt;
  for (const TunedSpec& kernel : specs) {
    const Result<KernelSource> source = source_of(kernel.spec, kernel.tuning, line_info);
    if (!source) return source.status();
    sorted[request_key(compile_request(*source))] = kernel;
  }
  BundleWriter writer([&](std::string_view bytes) { return output.append(bytes); });
  for (const auto& [key, kernel] : sorted) {
    Status status;
    if (!kernel) {
      status = writer.add(bundled_entry(records));
    } else {
      const KernelSource source = source_of(kernel->spec, kernel->tuning, line_info).value();
      const CompileRequest request = compile_request(source);
      const Result<SharedImage> image = compile(cache, source);
      if (!image) return image.status();
      status = writer.add({fields_of(request), request.source.size(), **image});
    }
    if (!status.ok()) return status;
  }
  Status status = writer.finish();
  if (status.ok()) status = output.commit();
  if (!status.ok()) return status;
  return writer.bytes();
}

std::vector<TunedSpec> winners_of(const std::vector<TuningRecord>& records) {
  std::set<TunedSpec> winners;
  for (const TuningRecord& record : records) winners.insert({record.problem.spec, record.winner});
  return {winners.begin(), winners.end()};
}

}  // namespace jfa::tools
