// Tensor maps described in JSON, since a kernel takes them as 128 opaque bytes:
//
//   {"query": {"buffer": "q", "type": "BF16", "extents": [64, 8, 1000], "strides_bytes": [128, 1024],
//              "box": [64, 1, 128], "swizzle": 128}}
//
// Innermost dimension first, as cuTensorMapEncodeTiled takes them. Optional: "offset_bytes" from the buffer's
// begin to the tensor's (0), which may be negative or beyond the end, "element_strides" (all 1), "swizzle" in
// bytes (0: none).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::sim {

/// Address and size of a buffer by name; an error naming it if there is none.
struct BufferPlace {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};
using FindBuffer = std::function<Result<BufferPlace>(std::string_view name)>;

/// The map of that name in the file, encoded for the simulated device. Errors name file, map, field and
/// value.
Result<std::vector<std::byte>> read_tensor_map(const std::string& path, const std::string& name,
                                               const FindBuffer& find_buffer);

/// The same of a file's text, whatever it is; messages begin with `path`.
Result<std::vector<std::byte>> parse_tensor_map(const std::string& path, std::string_view text,
                                                const std::string& name, const FindBuffer& find_buffer);

}  // namespace jfa::sim
