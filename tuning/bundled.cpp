#include "tuning/bundled.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace jfa {
namespace {

constexpr const char* kName = "tuning-database";

RequestFields database_fields() { return {sha256(kName), kName, {}}; }

}  // namespace

Digest bundled_key() { return request_key(database_fields()); }

Entry bundled_entry(const std::vector<TuningRecord>& records) {
  Entry entry;
  entry.fields = database_fields();
  entry.image.name = kName;
  entry.image.ptx = to_text(records);
  entry.image.compiler = "sha256:" + sha256(entry.image.ptx).hex();
  entry.source_bytes = entry.image.ptx.size();
  return entry;
}

Result<std::vector<TuningRecord>> bundled_records(const Bundle& bundle) {
  const Digest key = bundled_key();
  std::vector<TuningRecord> records;
  const auto [first, last] = std::ranges::equal_range(bundle.rows(), key, {}, &BundleRow::request);
  for (auto row = first; row != last; ++row) {
    const Result<std::string> bytes = bundle.read(*row);
    if (!bytes) return bytes.status();
    const Result<Entry> entry = decode_entry(*bytes);
    if (!entry) return entry.status();
    Result<std::vector<TuningRecord>> some = parse_records(entry->image.ptx);
    if (!some) return Status::unavailable(bundle.path() + ": " + some.status().message());
    std::ranges::move(*some, std::back_inserter(records));
  }
  return records;
}

}  // namespace jfa
