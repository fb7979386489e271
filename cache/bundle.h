// Many entries in one relocatable file, for images and machines without a compiler.
//
//   offset  size  field
//        0     8  magic "JFABUNDL"
//        8     4  format version, 2: the entries are of theirs
//       12     4  0
//       16     …  entries, as in entry.h, one after the other, in the order of the index
//        i  112n  index: n rows, ascending by request, then by compiler
//  i+112n     8   i, offset of the index
//        +    8   n
//        +   32   SHA-256 of bytes 0…15, the index and the two fields above
//        +    8   magic "JFABEND\n", and the file ends
//
//  row: request key 32 | SHA-256 of the compiler's identity 32 | offset 8 | bytes 8 | the entry's checksum 32
//
// Integers are little-endian. The entries fill the space up to the index without gaps, so every bit of the
// file is covered by one of the checksums. Compile times are left out and nothing says when or where the file
// was made: the same kernels by the same compiler and the same libzstd give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.h"
#include "cache/entry_directory.h"
#include "cache/file_system.h"

namespace jfa {

struct BundleRow {
  Digest request;
  Digest compiler;  // SHA-256 of the identity
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Digest checksum;
};

/// An open bundle. Keeps the file open, so replacing it under its name is safe. Safe to use from many
/// threads.
class Bundle {
 public:
  /// Reads and checks the index, not the entries. kUnavailable names the file and what is wrong with it.
  static Result<std::shared_ptr<const Bundle>> open(const std::shared_ptr<FileSystem>& files,
                                                    const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<BundleRow>& rows() const { return rows_; }

  /// Checks the entry before it serves it. A request that several compilers made: the first row.
  Lookup find(const Digest& request) const;
  /// The checked bytes of one entry; kUnavailable says what is wrong with them.
  Result<std::string> read(const BundleRow& row) const;
  /// The metadata alone, unchecked; for lists and explanations.
  Result<Entry> peek(const BundleRow& row) const;

 private:
  Bundle() = default;
  /// The checked entry, and the bytes it came from.
  Result<Entry> load(const BundleRow& row, std::string& bytes) const;

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<BundleRow> rows_;
};

/// Writes a bundle entry by entry. Where the bytes go, and that nobody takes an unfinished bundle for a whole
/// one, is the caller's affair.
class BundleWriter {
 public:
  using Append = std::function<Status(std::string_view bytes)>;
  explicit BundleWriter(Append append);

  /// Entries come ascending by request, then by the SHA-256 of their compiler's identity: kInvalidArgument if
  /// not.
  Status add(const Entry& entry);
  /// For merging: bytes that Bundle::read() gave.
  Status add(const BundleRow& row, const std::string& bytes);
  /// The index. A bundle may be empty.
  Status finish();

  std::uint64_t entries() const { return rows_.size(); }
  std::uint64_t bytes() const { return bytes_; }  ///< appended so far

 private:
  Status append(std::string_view bytes);
  Status begin();

  Append append_;
  std::uint64_t bytes_ = 0;
  std::vector<BundleRow> rows_;
};

struct BundleDamage {
  BundleRow row;
  std::string damage;
};

/// Reads and checks every entry.
std::vector<BundleDamage> verify(const Bundle& bundle);

/// One bundle with the entries of all. An entry that several have is written once, as the first has it;
/// kInvalidArgument if two have different images for one request and compiler, kUnavailable at a damaged
/// entry.
Status merge_bundles(const std::vector<std::shared_ptr<const Bundle>>& bundles, BundleWriter& writer);

/// Adds the entries of a directory that `wanted` accepts. kUnavailable at a damaged entry: a bundle that
/// silently lacks a kernel is worse than none.
Status add_directory(EntryDirectory& directory, BundleWriter& writer,
                     const std::function<bool(const Entry&)>& wanted);

/// Which of n shards a request belongs to, 0 … n-1; even, and the same on every machine.
std::uint32_t shard_of(const Digest& request, std::uint32_t shards);

}  // namespace jfa
