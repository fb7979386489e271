#include "cache/compression.h"

#include <zstd.h>

#include <new>

namespace jfa {
namespace {

// Higher ones take longer than they gain: 19 has a tenth less and ten times the time, which is a tenth of a
// compilation's. The time to decompress hardly depends on it.
constexpr int kLevel = 9;

}  // namespace

std::string compressed(std::string_view content) {
  if (content.empty()) return {};
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), content.data(), content.size(), kLevel);
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // nothing else can go wrong
  frame.resize(size);
  frame.shrink_to_fit();
  return frame;
}

Result<std::string> decompressed(std::string_view frame) {
  if (frame.empty()) return std::string();
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR) return Status::unavailable("no Zstandard frame");
  if (size == ZSTD_CONTENTSIZE_UNKNOWN) return Status::unavailable("a frame that does not say its size");
  if (size > kMaxContentBytes)
    return Status::unavailable("a frame of " + std::to_string(size) + " bytes, more than an entry may hold");
  std::string content(size, '\0');
  const std::size_t held = ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(held) != 0)
    return Status::unavailable(std::string("its frame: ") + ZSTD_getErrorName(held));
  if (held != size) return Status::unavailable("a frame that holds less than it says");
  return content;
}

}  // namespace jfa
