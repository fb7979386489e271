// A launch as the command line describes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/host_array.h"
#include "simulator/campaign/recording.h"

namespace jfa::sim {

/// What the arguments of a kernel look like on the command line.
inline constexpr const char* kArgumentHelp =
    "one for each parameter, in order: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64, as in i32:5; "
    "a buffer's address, as in:FILE, inout:FILE[=RESULT], out:ARRAY[=RESULT] (poisoned before), zero:ARRAY, "
    "buffer:NAME[+BYTES]; a tensor map, map:FILE.json#NAME; a struct of such fields, struct:FIELD;FIELD. "
    "FILE: x.npy or x.safetensors#TENSOR; ARRAY: a number of bytes or F32[128,64]; RESULT: x.npy, or - for "
    "stdout";

struct LaunchDescription {
  std::string entry;
  simulator::Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::string> buffers;    // NAME=in:…, inout:…, out:…, zero:…
  std::vector<std::string> arguments;  // see kArgumentHelp
};

/// A buffer whose contents are wanted afterwards.
struct ResultFile {
  std::size_t buffer = 0;  // index into Recording::buffers
  std::string path;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

struct PreparedLaunch {
  simulator::Recording recording;
  std::vector<ResultFile> results;
};

/// Reads the files and lays the parameters out for the entry. Errors name the argument, its place and value.
Result<PreparedLaunch> prepare_launch(const LaunchDescription& description, const std::string& ptx);

/// "4", "4,2", "4,2,1".
std::optional<simulator::Dim3> parse_dim3(const std::string& text);

}  // namespace jfa::sim
