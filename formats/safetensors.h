// The safetensors file format: eight bytes of little-endian header length, a JSON header, then the tensors'
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::safetensors {

/// The longest header that is read; the format's own limit.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// One tensor. `data` is row-major, little-endian and may be unaligned.
struct TensorView {
  std::string dtype;  ///< as in the file: "BF16", "F16", "F32", "F64", "I32", "I64", …
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;

  std::int64_t element_count() const;  ///< product of the shape
};

/// "BF16 [5, 2, 64]", for messages.
std::string describe(const TensorView& tensor);

using TensorMap = std::map<std::string, TensorView, std::less<>>;
using Metadata = std::map<std::string, std::string, std::less<>>;

struct Contents {
  TensorMap tensors;  ///< views into the bytes that were parsed
  Metadata metadata;
};

/// Takes a file's bytes apart. Everything is checked: header length, JSON, duplicate names, shape product,
/// and that the tensors tile the data without hole or overlap. A dtype may be any string, as the format
/// grows; only of one that is known the size is checked. Errors: kInvalidArgument, one line naming `file`,
/// the tensor and the value. Any bytes are safe input, and take time that is linear in them but for sorting
/// the names.
Result<Contents> parse(std::string_view file, std::span<const std::byte> bytes);

/// A file in memory. Move-only, for the views point into it.
struct File {
  std::vector<std::byte> bytes;
  Contents contents;

  File() = default;
  File(File&&) = default;
  File& operator=(File&&) = default;
};

/// Errors: kUnavailable if it cannot be read, else as parse().
Result<File> read(const std::string& path);

/// The bytes of a file; data starts at a multiple of 8.
std::vector<std::byte> serialize(const TensorMap& tensors, const Metadata& metadata = {});

}  // namespace jfa::safetensors
