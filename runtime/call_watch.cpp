#include "runtime/call_watch.h"

#include <fmt/format.h>

#include "cache/log_record.h"
#include "runtime/error_names.h"
#include "runtime/log.h"

namespace jfa {
void CallWatch::begin(const Device::Impl& device, Pass pass) {
  Trace& trace = trace_.emplace();
  trace.device = &device;
  trace.pass = pass;
  trace.start = Clock::now();
}

void CallWatch::describe(const KernelSpec& spec, const ValidCall& valid, std::uint64_t bytes) {
  trace_->kernel = name(spec);
  trace_->batch = valid.batch;
  trace_->query_rows = valid.query.rows;
  trace_->key_rows = valid.key.rows;
  trace_->query_heads = valid.query.heads;
  trace_->key_heads = valid.key.heads;
  trace_->head_dim = valid.query.head_dim;
  trace_->bytes = bytes;
}

void CallWatch::loaded(const LoadedKernels& kernels) { trace_->request = kernels.request; }

void CallWatch::add(std::string_view entry) {
  if (!trace_->entries.empty()) trace_->entries += '+';
  trace_->entries += entry;
}

void CallWatch::tell(const Status& status) const {
  const double host_us = std::chrono::duration<double, std::micro>(Clock::now() - trace_->start).count();
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::string result = jfa::name_of(status.kind());
  if (!status.ok()) result += ": " + status.message();
  log(LogLevel::kTrace,
      log_record({"exec", trace_->device->name, name_of(trace_->pass), trace_->kernel, trace_->request,
                  trace_->entries, number(trace_->batch), number(trace_->query_rows),
                  number(trace_->key_rows), number(trace_->query_heads), number(trace_->key_heads),
                  number(trace_->head_dim), number(trace_->bytes), fmt::format("{:.1f}", host_us), result}));
}

}  // namespace jfa
