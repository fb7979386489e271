// Housekeeping of a directory of entries: counting, trimming, sweeping, verifying. Touches only files whose
// whole names are of our own patterns (entry_names.h), and follows no symbolic link below the root.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/entry_directory.h"
#include "cache/trim.h"

namespace jfa {

struct StoredEntry {
  EntryName name;
  std::string path;
  std::uint64_t bytes = 0;  // on disk
  std::int64_t last_use_s = 0;
};

/// The entries of a directory, by name. An entry that goes while this looks is left out.
std::vector<StoredEntry> stored_entries(EntryDirectory& directory);

/// The metadata of a stored entry, unchecked; for lists and explanations.
Result<Entry> peek(FileSystem& files, const StoredEntry& entry);

struct TrimOutcome {
  bool busy = false;          // another process trims
  std::uint64_t entries = 0;  // before
  std::uint64_t bytes = 0;    // before
  std::vector<StoredEntry> evicted;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t swept = 0;  // stale temporaries, abandoned locks, old damaged files and formats
};

/// Evicts by the policy and sweeps what killed processes left. One process trims at a time.
TrimOutcome trim(EntryDirectory& directory, const TrimPolicy& policy);

/// Adds `bytes` just published to the directory's running count; true if it is time to trim: the count passed
/// max_bytes, or nobody has counted for ten minutes.
bool note_published(EntryDirectory& directory, std::uint64_t bytes, std::uint64_t max_bytes);

struct DamagedEntry {
  std::string path;
  std::string damage;
};

/// Reads and checks every entry; moves the damaged ones aside if asked.
std::vector<DamagedEntry> verify(EntryDirectory& directory, bool move_aside);

struct ClearOutcome {
  std::uint64_t removed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;
  std::string failure;  // the first of them: "<path>: <reason>"
};

/// Removes every entry, of earlier format versions too, and every damaged file of ours; temporaries that may
/// still be written stay.
ClearOutcome clear(EntryDirectory& directory);

struct Leftovers {
  std::uint64_t temporaries = 0;
  std::uint64_t damaged = 0;  // moved aside
};
Leftovers leftovers(EntryDirectory& directory);

}  // namespace jfa
