// libFuzzer: the reader of cache entries, with the bytes as they are and with a checksum that fits them.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cache/entry.h"

namespace {

void check(const std::string& bytes) {
  (void)jfa::peek_entry(bytes);
  const auto entry = jfa::decode_entry(bytes);
  if (!entry.ok()) return;
  // What was accepted can be written, and is read back as the same.
  const auto again = jfa::encode_entry(*entry);
  if (!again.ok()) std::abort();
  const auto second = jfa::decode_entry(*again);
  if (!second.ok() || !(second->fields == entry->fields) || second->image.cubin != entry->image.cubin ||
      second->image.ptx != entry->image.ptx || second->image.facts.size() != entry->image.facts.size()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  if (size < jfa::Digest::kBytes) return 0;
  // Random bytes never pass the checksum; what lies behind it must hold as well.
  const std::string body = bytes.substr(0, size - jfa::Digest::kBytes);
  check(body + std::string(jfa::sha256(body).view()));
  return 0;
}
