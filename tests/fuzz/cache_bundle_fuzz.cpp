// libFuzzer: the reader of bundles, with the bytes as they are and with an index checksum that fits them.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cache/bundle_format.h"
#include "memory_file_system.h"

namespace {

using namespace jfa;

void check(const std::string& bytes) {
  const auto bundle = Bundle::open(std::make_shared<fuzz::MemoryFileSystem>(bytes), "/fuzz.jfab");
  if (!bundle.ok()) return;
  for (const BundleRow& row : (*bundle)->rows()) {
    if (row.offset > bytes.size() || row.bytes > bytes.size() - row.offset) std::abort();
    (void)(*bundle)->peek(row);
    const Lookup lookup = (*bundle)->find(row.request);
    if (lookup.image != nullptr && lookup.image->cubin.empty() && lookup.image->ptx.empty()) std::abort();
  }
  (void)verify(**bundle);
}

// The same bytes with a right checksum of the index, if the sizes allow one.
std::string sealed(std::string bytes) {
  using namespace bundle_format;
  if (bytes.size() < kHeaderBytes + kFooterBytes) return bytes;
  const std::size_t footer_offset = bytes.size() - kFooterBytes;
  ByteReader footer(std::string_view(bytes).substr(footer_offset));
  const std::uint64_t index_offset = footer.u64();
  if (index_offset < kHeaderBytes || index_offset > footer_offset) return bytes;
  const std::string_view view = bytes;
  const Digest checksum =
      index_checksum(view.substr(0, kHeaderBytes), view.substr(index_offset, footer_offset - index_offset),
                     view.substr(footer_offset));
  bytes.replace(footer_offset + kIndexFieldBytes, Digest::kBytes, checksum.view());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  check(sealed(bytes));
  return 0;
}
