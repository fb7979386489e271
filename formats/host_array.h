// A typed array on the host, and the files that hold one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::sim {

struct HostArray {
  std::string dtype = "U8";  // as in safetensors: "F32", "BF16", …
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian
};

/// Bytes of an element; nullopt for an unknown dtype.
std::optional<std::uint64_t> element_bytes(std::string_view dtype);

/// NumPy's file of one array, in C order. A two-byte void (V2), which is how NumPy writes the bfloat16 of
/// ml_dtypes, is read and written as BF16. Errors: kUnavailable, kInvalidArgument with the path and what is
/// wrong.
Result<HostArray> read_npy(const std::string& path);
/// The same of a file's bytes, whatever they are; messages begin with `path`.
Result<HostArray> parse_npy(const std::string& path, std::string_view file);
/// Such a file. Errors: kInvalidArgument for a dtype that NumPy lacks.
Result<std::string> npy_bytes(const HostArray& array);

/// An array from "file.npy", or from "file.safetensors#tensor".
Result<HostArray> read_array(const std::string& place);

/// "F32[128,64]" without the brackets' contents being read from anywhere: zero bytes of that type and shape.
/// A plain number is so many bytes of U8. Errors: kInvalidArgument.
Result<HostArray> empty_array(std::string_view description);

}  // namespace jfa::sim
