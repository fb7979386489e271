#include <algorithm>
#include <utility>

#include "cache/bundle.h"
#include "cache/bundle_format.h"

namespace jfa {
namespace {

Digest take_digest(ByteReader& reader) {
  Digest digest;
  reader.take(Digest::kBytes).copy(reinterpret_cast<char*>(digest.bytes.data()), Digest::kBytes);
  return digest;
}

// Everything about the index that its checksum does not already say; a writer with a defect is found here.
std::string wrong_with(const std::vector<BundleRow>& rows, std::uint64_t index_offset) {
  std::uint64_t offset = bundle_format::kHeaderBytes;
  const BundleRow* previous = nullptr;
  for (const BundleRow& row : rows) {
    if (previous != nullptr && !bundle_format::ordered(*previous, row)) return "the index is not sorted";
    if (row.offset != offset || row.bytes > index_offset - offset) return "the entries overlap or leave gaps";
    offset += row.bytes;
    previous = &row;
  }
  return offset == index_offset ? "" : "the entries do not end where the index begins";
}

}  // namespace

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::shared_ptr<FileSystem>& files,
                                                   const std::string& path) {
  using namespace bundle_format;
  const auto damaged = [&](const std::string& what) {
    return Status::unavailable("bundle " + path + ": " + what);
  };

  const std::shared_ptr<Bundle> bundle(new Bundle);
  bundle->path_ = path;
  std::string resolved;  // a bundle may be a symbolic link: its name was given, not found
  FileInfo info;
  std::error_code error = files->resolve(path, resolved);
  if (!error) error = files->open(resolved, bundle->file_);
  if (!error) error = bundle->file_->info(info);
  if (error) return damaged(reason(error));
  if (info.type != FileType::kFile) return damaged("no regular file");
  if ((info.mode & 0002) != 0) return damaged("can be written by everybody");
  if (info.size_bytes < kHeaderBytes + kFooterBytes) return damaged("too short for a bundle");

  std::string header;
  std::string footer;
  const std::uint64_t footer_offset = info.size_bytes - kFooterBytes;
  error = bundle->file_->read(0, kHeaderBytes, header);
  if (!error) error = bundle->file_->read(footer_offset, kFooterBytes, footer);
  if (error) return damaged(reason(error));
  ByteReader start(header);
  if (start.take(kMagic.size()) != kMagic) return damaged("no bundle: wrong magic");
  if (const std::uint32_t version = start.u32(); version != kVersion) {
    return damaged("format version " + std::to_string(version) + ", this library reads " +
                   std::to_string(kVersion));
  }
  ByteReader end(footer);
  const std::uint64_t index_offset = end.u64();
  const std::uint64_t count = end.u64();
  const Digest checksum = take_digest(end);
  if (end.take(kEndMagic.size()) != kEndMagic) return damaged("its end is missing: truncated?");
  if (index_offset < kHeaderBytes || index_offset > footer_offset ||
      (footer_offset - index_offset) % kRowBytes != 0 ||
      (footer_offset - index_offset) / kRowBytes != count) {
    return damaged("the index does not fit the file");
  }
  std::string index;
  if ((error = bundle->file_->read(index_offset, count * kRowBytes, index))) return damaged(reason(error));
  if (index.size() != count * kRowBytes) return damaged("shorter than its index says");
  if (index_checksum(header, index, footer) != checksum) return damaged("the checksum of the index is wrong");

  ByteReader reader(index);
  bundle->rows_.resize(count);
  for (BundleRow& row : bundle->rows_) {
    row.request = take_digest(reader);
    row.compiler = take_digest(reader);
    row.offset = reader.u64();
    row.bytes = reader.u64();
    row.checksum = take_digest(reader);
  }
  if (const std::string wrong = wrong_with(bundle->rows_, index_offset); !wrong.empty())
    return damaged(wrong);
  return std::shared_ptr<const Bundle>(bundle);
}

Result<Entry> Bundle::load(const BundleRow& row, std::string& bytes) const {
  if (row.bytes > kMaxEntryBytes) return Status::unavailable("larger than any entry");
  if (const auto error = file_->read(row.offset, row.bytes, bytes)) return Status::unavailable(reason(error));
  if (bytes.size() != row.bytes) return Status::unavailable("the file ends within the entry");
  if (entry_checksum(bytes) != row.checksum) return Status::unavailable("the index has another checksum");
  auto entry = decode_entry(bytes);
  if (!entry.ok()) return entry;
  if (request_key(entry->fields) != row.request)
    return Status::unavailable("the entry holds another request");
  if (sha256(entry->image.compiler) != row.compiler)
    return Status::unavailable("the entry is another compiler's");
  return entry;
}

Result<std::string> Bundle::read(const BundleRow& row) const {
  std::string bytes;
  const auto entry = load(row, bytes);
  if (!entry.ok()) return entry.status();
  return bytes;
}

Result<Entry> Bundle::peek(const BundleRow& row) const {
  constexpr std::uint64_t kEnough = 64 << 10;
  std::string start;
  if (const auto error = file_->read(row.offset, std::min(row.bytes, kEnough), start)) {
    return Status::unavailable(reason(error));
  }
  return peek_entry(start);
}

Lookup Bundle::find(const Digest& request) const {
  Lookup lookup;
  auto row = std::lower_bound(rows_.begin(), rows_.end(), request,
                              [](const BundleRow& a, const Digest& b) { return a.request < b; });
  for (; row != rows_.end() && row->request == request; ++row) {
    lookup.where = path_;
    std::string bytes;
    auto entry = load(*row, bytes);
    if (entry.ok()) {
      lookup.image = std::make_shared<const KernelImage>(std::move(entry->image));
      lookup.damage.clear();
      return lookup;
    }
    lookup.damage = entry.status().message();
  }
  return lookup;
}

std::vector<BundleDamage> verify(const Bundle& bundle) {
  std::vector<BundleDamage> damage;
  for (const BundleRow& row : bundle.rows()) {
    if (const auto bytes = bundle.read(row); !bytes.ok()) damage.push_back({row, bytes.status().message()});
  }
  return damage;
}

}  // namespace jfa
