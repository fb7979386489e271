// Cubins and PTX as they lie in an entry: one frame of Zstandard each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// The most that a frame may hold; a cubin of ours has about a quarter of a megabyte.
inline constexpr std::uint64_t kMaxContentBytes = 64ull << 20;

/// One frame that says how much it holds; "" for "". The same version of the library (libzstd) makes the same
/// bytes of the same content; another one may make others.
std::string compressed(std::string_view content);

/// kUnavailable saying what is wrong with the frame, whatever its bytes are. Nothing is allocated for a frame
/// that says it holds more than kMaxContentBytes, or does not say how much.
Result<std::string> decompressed(std::string_view frame);

}  // namespace jfa
