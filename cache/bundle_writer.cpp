#include <algorithm>
#include <utility>

#include "cache/bundle.h"
#include "cache/bundle_format.h"
#include "cache/maintenance.h"
#include "jfa/version.h"

namespace jfa {
namespace {

std::string header_bytes() {
  std::string header(bundle_format::kMagic);
  append_u32(header, bundle_format::kVersion);
  append_u32(header, 0);
  return header;
}

std::string row_bytes(const BundleRow& row) {
  std::string bytes(row.request.view());
  bytes += row.compiler.view();
  append_u64(bytes, row.offset);
  append_u64(bytes, row.bytes);
  bytes += row.checksum.view();
  return bytes;
}

}  // namespace

BundleWriter::BundleWriter(Append append) : append_(std::move(append)) {}

Status BundleWriter::append(std::string_view bytes) {
  bytes_ += bytes.size();
  return append_(bytes);
}

Status BundleWriter::begin() { return bytes_ == 0 ? append(header_bytes()) : Status(); }

Status BundleWriter::add(const Entry& entry) {
  Entry timeless = entry;
  timeless.image.compile_ms = 0;
  timeless.written_by = version_and_commit();  // of the bundle, whoever compiled the kernel
  const auto bytes = encode_entry(timeless);
  if (!bytes.ok()) return bytes.status();
  BundleRow row;
  row.request = request_key(entry.fields);
  row.compiler = sha256(entry.image.compiler);
  row.bytes = bytes->size();
  row.checksum = entry_checksum(*bytes);
  return add(row, *bytes);
}

Status BundleWriter::add(const BundleRow& row, const std::string& bytes) {
  if (const Status status = begin(); !status.ok()) return status;
  if (!rows_.empty() && !bundle_format::ordered(rows_.back(), row))
    return Status::invalid_argument("entry " + row.request.hex() + " comes out of order or twice");
  rows_.push_back(row);
  rows_.back().offset = bytes_;
  return append(bytes);
}

Status BundleWriter::finish() {
  if (const Status status = begin(); !status.ok()) return status;
  std::string index;
  for (const BundleRow& row : rows_) index += row_bytes(row);
  std::string footer;
  append_u64(footer, bytes_);
  append_u64(footer, rows_.size());
  footer += bundle_format::index_checksum(header_bytes(), index, footer).view();
  footer += bundle_format::kEndMagic;
  return append(index + footer);
}

Status merge_bundles(const std::vector<std::shared_ptr<const Bundle>>& bundles, BundleWriter& writer) {
  struct Source {
    const Bundle* bundle;
    const BundleRow* row;
  };
  std::vector<Source> sources;
  for (const auto& bundle : bundles) {
    for (const BundleRow& row : bundle->rows()) sources.push_back({bundle.get(), &row});
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const Source& a, const Source& b) { return bundle_format::ordered(*a.row, *b.row); });
  const auto read = [](const Source& source) {
    auto bytes = source.bundle->read(*source.row);
    if (bytes.ok()) return bytes;
    return Result<std::string>(Status::unavailable("bundle " + source.bundle->path() + ", request " +
                                                   source.row->request.hex() + ": " +
                                                   bytes.status().message()));
  };
  const Source* previous = nullptr;
  std::string written;  // of the previous one
  for (const Source& source : sources) {
    if (previous != nullptr && !bundle_format::ordered(*previous->row, *source.row)) {
      if (previous->row->checksum == source.row->checksum) continue;
      const auto other = read(source);
      if (!other.ok()) return other.status();
      if (same_content(decode_entry(written).value(), decode_entry(*other).value())) continue;
      return Status::invalid_argument("bundles " + previous->bundle->path() + " and " +
                                      source.bundle->path() + " have different images for request " +
                                      source.row->request.hex());
    }
    auto bytes = read(source);
    if (!bytes.ok()) return bytes.status();
    if (const Status status = writer.add(*source.row, *bytes); !status.ok()) return status;
    written = *std::move(bytes);
    previous = &source;
  }
  return {};
}

Status add_directory(EntryDirectory& directory, BundleWriter& writer,
                     const std::function<bool(const Entry&)>& wanted) {
  // Their names sort like the rows of a bundle.
  for (const StoredEntry& stored : stored_entries(directory)) {
    std::string bytes;
    const auto error = read_file(directory.files(), stored.path, kMaxEntryBytes, bytes);
    if (error == std::errc::no_such_file_or_directory) continue;  // evicted meanwhile
    if (error) return Status::unavailable(stored.path + ": " + reason(error));
    const auto entry = decode_entry(bytes);
    if (!entry.ok()) return Status::unavailable(stored.path + ": " + entry.status().message());
    if (request_key(entry->fields) != stored.name.request) {
      return Status::unavailable(stored.path + ": holds another request");
    }
    if (!wanted(*entry)) continue;
    if (const Status status = writer.add(*entry); !status.ok()) return status;
  }
  return {};
}

std::uint32_t shard_of(const Digest& request, std::uint32_t shards) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | request.bytes[static_cast<std::size_t>(i)];
  return shards == 0 ? 0 : value % shards;
}

}  // namespace jfa
