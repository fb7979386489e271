// Whole files, read into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace jfa::tools {

/// The longest text that is read: PTX, CUDA, JSON.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;
/// The longest file of arrays.
inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 40;

/// All bytes of a file or of a FIFO. Errors are kUnavailable and name the file: it cannot be read, is a
/// directory or a device, has more than max_bytes or more than there is memory for.
Result<std::vector<std::byte>> read_bytes(const std::string& path, std::uint64_t max_bytes = kMaxArrayBytes);
Result<std::string> read_text(const std::string& path, std::uint64_t max_bytes = kMaxTextBytes);

}  // namespace jfa::tools
