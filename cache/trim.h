// Which entries go when a directory holds too much. Pure: no clock, no disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace jfa {

/// How much older than its last use an entry's stamp may be. A use within it of the last stamp writes
/// nothing, so that a thousand processes that start together stamp an entry once.
inline constexpr std::int64_t kStampPrecision_s = 10;
/// An entry used within it stays, even above the cap.
inline constexpr std::int64_t kRecentUse_s = 60;

struct TrimCandidate {
  std::uint64_t bytes = 0;      // on disk
  std::int64_t last_use_s = 0;  // its stamp, in seconds since 1970
};

struct TrimPolicy {
  std::uint64_t max_bytes = 0;        // 0 = no bound
  std::uint64_t target_bytes = 0;     // what to trim to once max_bytes is passed; at most max_bytes
  std::uint64_t make_room_bytes = 0;  // to free in any case: the disk is full
  // A stamp younger than this keeps its entry, even above max_bytes.
  std::int64_t min_age_s = kRecentUse_s + kStampPrecision_s;
};

/// The policy of a byte cap: trims to nine tenths, so that not every new entry pays for a count.
TrimPolicy trim_policy(std::uint64_t max_bytes);

/// Indices to evict, least recently used first; equal stamps go by index. A stamp in the future (a clock was
/// set back) counts as just used.
std::vector<std::size_t> entries_to_evict(std::span<const TrimCandidate> candidates, const TrimPolicy& policy,
                                          std::int64_t now_s);

}  // namespace jfa
