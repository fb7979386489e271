#include "runtime/call_watch.h"

#include <fmt/format.h>

#include "cache/log_record.h"
#include "runtime/error_names.h"
#include "runtime/log.h"

namespace jfa {

void CallWatch::describe(const KernelSpec& spec, const ValidCall& valid, std::uint64_t bytes) {
  kernel_ = name(spec);
  batch_ = valid.batch;
  query_rows_ = valid.query.rows;
  key_rows_ = valid.key.rows;
  query_heads_ = valid.query.heads;
  key_heads_ = valid.key.heads;
  head_dim_ = valid.query.head_dim;
  bytes_ = bytes;
}

void CallWatch::launched(std::string_view entry) {
  if (!entries_.empty()) entries_ += '+';
  entries_ += entry;
}

void CallWatch::ended(const Status& status) const {
  const double host_us = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::string result = jfa::name_of(status.kind());
  if (!status.ok()) result += ": " + status.message();
  log(LogLevel::kTrace,
      log_record({"exec", device_.name, name_of(pass_), kernel_, request_, entries_, number(batch_),
                  number(query_rows_), number(key_rows_), number(query_heads_), number(key_heads_),
                  number(head_dim_), number(bytes_), fmt::format("{:.1f}", host_us), result}));
}

}  // namespace jfa
