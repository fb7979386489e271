#include "cache/entry.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "cache/byte_order.h"
#include "cache/compression.h"

namespace jfa {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "JFAENTRY";
constexpr std::size_t kHeaderBytes = 32;
constexpr std::uint32_t kMaxMetadataBytes = 1u << 20;

struct Header {
  std::uint32_t version = 0;
  std::uint32_t metadata_bytes = 0;
  std::uint64_t cubin_bytes = 0;
  std::uint64_t ptx_bytes = 0;
};

Status damaged(std::string what) { return Status::unavailable(std::move(what)); }

json facts_json(const EntryFacts& facts) {
  json object = {{"registers", facts.registers},
                 {"spill_store_bytes", facts.spill_store_bytes},
                 {"spill_load_bytes", facts.spill_load_bytes},
                 {"static_shared_bytes", facts.static_shared_bytes},
                 {"stack_bytes", facts.stack_bytes}};
  // Rare, and unknown to earlier versions of the same format.
  if (facts.serialized_products != 0) object["serialized_products"] = facts.serialized_products;
  return object;
}

// Keys come out sorted, so equal entries are equal bytes.
json metadata_json(const Entry& entry) {
  json facts = json::object();
  for (const auto& [name, of_entry] : entry.image.facts) facts[name] = facts_json(of_entry);
  json metadata = {{"request", request_key(entry.fields).hex()},
                   {"source_sha256", entry.fields.source.hex()},
                   {"source_bytes", entry.source_bytes},
                   {"target", entry.fields.target},
                   {"options", entry.fields.options},
                   {"compiler", entry.image.compiler},
                   {"name", entry.image.name},
                   {"compile_ms", entry.image.compile_ms},
                   {"facts", std::move(facts)}};
  if (!entry.written_by.empty()) metadata["written_by"] = entry.written_by;
  return metadata;
}

// Conversions of the JSON library accept 1.5 or 1e300 for an int; these do not.
int int_of(const json& object, const char* key) {
  const json& value = object.at(key);
  if (!value.is_number_integer()) throw std::domain_error(std::string(key) + " is no integer");
  const auto number = value.get<std::int64_t>();
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    throw std::domain_error(std::string(key) + " is out of range");
  }
  return static_cast<int>(number);
}

Digest digest_of(const json& object, const char* key) {
  const auto digest = parse_digest(object.at(key).get_ref<const std::string&>());
  if (!digest) throw std::domain_error(std::string(key) + " is no SHA-256");
  return *digest;
}

Entry entry_from(const json& metadata) {
  Entry entry;
  entry.fields.source = digest_of(metadata, "source_sha256");
  entry.fields.target = metadata.at("target").get<std::string>();
  entry.fields.options = metadata.at("options").get<std::vector<std::string>>();
  if (!metadata.at("source_bytes").is_number_unsigned())
    throw std::domain_error("source_bytes is no integer");
  entry.source_bytes = metadata.at("source_bytes").get<std::uint64_t>();
  entry.image.target = entry.fields.target;
  entry.image.compiler = metadata.at("compiler").get<std::string>();
  entry.image.name = metadata.at("name").get<std::string>();
  entry.image.compile_ms = metadata.at("compile_ms").get<double>();
  if (metadata.contains("written_by")) entry.written_by = metadata["written_by"].get<std::string>();
  for (const auto& [name, facts] : metadata.at("facts").items()) {
    entry.image.facts[name] = {
        int_of(facts, "registers"),
        int_of(facts, "spill_store_bytes"),
        int_of(facts, "spill_load_bytes"),
        int_of(facts, "static_shared_bytes"),
        int_of(facts, "stack_bytes"),
        facts.contains("serialized_products") ? int_of(facts, "serialized_products") : 0};
  }
  if (digest_of(metadata, "request") != request_key(entry.fields)) {
    throw std::domain_error("its key is not the key of its fields");
  }
  return entry;
}

Result<Header> read_header(ByteReader& reader) {
  const std::string_view magic = reader.take(kMagic.size());
  Header header;
  header.version = reader.u32();
  header.metadata_bytes = reader.u32();
  header.cubin_bytes = reader.u64();
  header.ptx_bytes = reader.u64();
  if (!reader.ok()) return damaged("shorter than a header");
  if (magic != kMagic) return damaged("no cache entry: wrong magic");
  if (header.version != kEntryVersion) {
    return damaged("format version " + std::to_string(header.version) + ", this library reads " +
                   std::to_string(kEntryVersion));
  }
  if (header.metadata_bytes > kMaxMetadataBytes || header.cubin_bytes > kMaxEntryBytes ||
      header.ptx_bytes > kMaxEntryBytes) {
    return damaged("sizes in the header are out of range");
  }
  return header;
}

Result<Entry> read_metadata(std::string_view text) {
  try {
    return entry_from(json::parse(text));
  } catch (const std::exception& error) {  // of the JSON library, or ours
    return damaged(std::string("metadata: ") + error.what());
  }
}

}  // namespace

Result<std::string> encode_entry(const Entry& entry) {
  const KernelImage& image = entry.image;
  if (image.cubin.empty() && image.ptx.empty()) {
    return Status::invalid_argument("image '" + image.name + "': it has neither cubin nor PTX");
  }
  const std::uint64_t largest = std::max(image.cubin.size(), image.ptx.size());
  if (largest > kMaxContentBytes) {
    return Status::invalid_argument("image '" + image.name + "': " + std::to_string(largest) +
                                    " bytes are more than a cache entry may have");
  }
  std::string metadata;
  try {
    metadata = metadata_json(entry).dump();
  } catch (const json::exception& error) {
    return Status::invalid_argument("image '" + entry.image.name + "': " + error.what());
  }
  if (metadata.size() > kMaxMetadataBytes) {
    return Status::invalid_argument("image '" + image.name + "': " + std::to_string(metadata.size()) +
                                    " bytes of metadata are more than a cache entry may have");
  }
  const std::string cubin = compressed(image.cubin);
  const std::string ptx = compressed(image.ptx);
  std::string bytes;
  bytes.reserve(kHeaderBytes + metadata.size() + cubin.size() + ptx.size() + Digest::kBytes);
  bytes += kMagic;
  append_u32(bytes, kEntryVersion);
  append_u32(bytes, static_cast<std::uint32_t>(metadata.size()));
  append_u64(bytes, cubin.size());
  append_u64(bytes, ptx.size());
  bytes += metadata;
  bytes += cubin;
  bytes += ptx;
  bytes += sha256(bytes).view();
  return bytes;
}

Result<Entry> decode_entry(std::string_view bytes) {
  ByteReader reader(bytes);
  const auto header = read_header(reader);
  if (!header.ok()) return header.status();
  // Each size is at most 2^28, so the sum cannot wrap.
  const std::uint64_t expected =
      header->metadata_bytes + header->cubin_bytes + header->ptx_bytes + Digest::kBytes;
  if (reader.left() != expected) {
    return damaged("the file has " + std::to_string(bytes.size()) + " bytes, its header says " +
                   std::to_string(kHeaderBytes + expected));
  }
  if (header->cubin_bytes + header->ptx_bytes == 0) return damaged("it has neither cubin nor PTX");
  if (sha256(bytes.substr(0, bytes.size() - Digest::kBytes)) != entry_checksum(bytes)) {
    return damaged("the checksum is wrong");
  }
  auto entry = read_metadata(reader.take(header->metadata_bytes));
  if (!entry.ok()) return entry;
  Result<std::string> cubin = decompressed(reader.take(header->cubin_bytes));
  if (!cubin.ok()) return damaged("cubin: " + cubin.status().message());
  Result<std::string> ptx = decompressed(reader.take(header->ptx_bytes));
  if (!ptx.ok()) return damaged("PTX: " + ptx.status().message());
  entry->image.cubin = *std::move(cubin);
  entry->image.ptx = *std::move(ptx);
  if (entry->image.cubin.empty() && entry->image.ptx.empty()) return damaged("it has neither cubin nor PTX");
  return entry;
}

Result<Entry> peek_entry(std::string_view bytes) {
  ByteReader reader(bytes);
  const auto header = read_header(reader);
  if (!header.ok()) return header.status();
  const std::string_view metadata = reader.take(header->metadata_bytes);
  if (!reader.ok()) return damaged("shorter than its metadata");
  return read_metadata(metadata);
}

Explanation explain(const Entry& entry) {
  return explain(entry.fields, entry.source_bytes, entry.image.name, entry.image.compiler);
}

bool same_content(const Entry& left, const Entry& right) {
  return left.fields == right.fields && left.image.compiler == right.image.compiler &&
         left.image.cubin == right.image.cubin && left.image.ptx == right.image.ptx;
}

Digest entry_checksum(std::string_view bytes) {
  Digest digest;
  if (bytes.size() >= Digest::kBytes) {
    bytes.substr(bytes.size() - Digest::kBytes)
        .copy(reinterpret_cast<char*>(digest.bytes.data()), Digest::kBytes);
  }
  return digest;
}

}  // namespace jfa
