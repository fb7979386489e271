// One cache entry as bytes: self-describing, checksummed, the same in directories and in bundles.
//
//   offset  size  field
//        0     8  magic "JFAENTRY"
//        8     4  format version, 2
//       12     4  m, bytes of metadata
//       16     8  c, compressed bytes of cubin; 0 if there is none
//       24     8  p, compressed bytes of PTX; 0 if there is none
//       32     m  metadata, a JSON object (see entry.cpp)
//     32+m     c  cubin, an ELF file, as one frame of Zstandard (see compression.h)
//   32+m+c     p  PTX, text, likewise
//  32+m+c+p   32  SHA-256 of everything before it
//
// There is a cubin or PTX. Integers are little-endian. Nothing follows, so a file of another size is damaged.
// The checksum is looked at before anything is decompressed. The metadata holds the fields of the request
// key, so an entry proves under which key it may be served.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cache/digest.h"
#include "cache/image.h"
#include "cache/request.h"
#include "jfa/status.h"

namespace jfa {

struct Entry {
  RequestFields fields;
  std::uint64_t source_bytes = 0;
  KernelImage image;
  std::string written_by = {};  // version and commit of the jfa that wrote it; empty: not known
};

inline constexpr std::uint32_t kEntryVersion = 2;
inline constexpr std::uint64_t kMaxEntryBytes = 256ull << 20;

/// kInvalidArgument if the entry could not be read back: no code, text that is not UTF-8, too large.
Result<std::string> encode_entry(const Entry& entry);

/// kUnavailable saying what is wrong with the bytes. Whatever they are, nothing is read past their end, and a
/// result passed its checksum and belongs to request_key(result.fields).
Result<Entry> decode_entry(std::string_view bytes);

/// The metadata alone, for lists: `bytes` may end before the cubin, and image has neither cubin nor PTX.
/// Checks no checksum: never serve from it.
Result<Entry> peek_entry(std::string_view bytes);

Explanation explain(const Entry& entry);

/// Whether both hold the same kernel by the same compiler. Their bytes may differ: compressed by other
/// versions of the library, or compiled in another time.
bool same_content(const Entry& left, const Entry& right);

/// The checksum that encoded bytes end with.
Digest entry_checksum(std::string_view bytes);

}  // namespace jfa
