// What the reader and the writer of bundles share; bundle.h has the picture.
#pragma once

#include <string_view>
#include <tuple>

#include "cache/bundle.h"
#include "cache/byte_order.h"

namespace jfa::bundle_format {

inline constexpr std::string_view kMagic = "JFABUNDL";
inline constexpr std::string_view kEndMagic = "JFABEND\n";
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint64_t kHeaderBytes = 16;
inline constexpr std::uint64_t kRowBytes = 112;
inline constexpr std::uint64_t kIndexFieldBytes = 16;  // of the footer: offset and count
inline constexpr std::uint64_t kFooterBytes = kIndexFieldBytes + Digest::kBytes + 8;

inline bool ordered(const BundleRow& first, const BundleRow& second) {
  return std::tie(first.request, first.compiler) < std::tie(second.request, second.compiler);
}

/// footer: at least its first two fields.
inline Digest index_checksum(std::string_view header, std::string_view index, std::string_view footer) {
  return Sha256().append(header).append(index).append(footer.substr(0, kIndexFieldBytes)).finish();
}

}  // namespace jfa::bundle_format
