// What is asked of the compiler, and the key that names it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/digest.h"
#include "jfa/status.h"

namespace jfa {

/// One compilation. The key covers source, target and options; `name` and `precompile_command` are for
/// people.
struct CompileRequest {
  std::string name;                  // of the configuration: "forward-bf16-d128-sm_100f"
  std::string source;                // self-contained: includes nothing
  std::string target;                // "sm_100f"
  std::vector<std::string> options;  // of the compiler, in order, without the architecture
  std::string precompile_command;    // a command line that would put this kernel into a cache; may be empty
};

/// kInvalidArgument if files that the key does not cover could change the result: an #include in the source,
/// an include path, a pre-include or a precompiled header among the options.
Status check_self_contained(const CompileRequest& request);

/// The fields that are hashed, as the key sees them. The source goes in by its own digest, so that an entry,
/// which does not keep the source, can still prove its key.
struct RequestFields {
  Digest source;
  std::string target;
  std::vector<std::string> options;

  bool operator==(const RequestFields&) const = default;
};

RequestFields fields_of(const CompileRequest& request);

/// SHA-256 over the fields, each preceded by its type and length. Paths, times, the driver and the compiler
/// are left out; the compiler joins in the names of the writable directory.
Digest request_key(const RequestFields& fields);
Digest request_key(const CompileRequest& request);

/// A key's fields as printable name-value lines, in a fixed order, so that two explanations can be diffed.
using Explanation = std::vector<std::pair<std::string, std::string>>;
Explanation explain(const CompileRequest& request, const std::string& compiler);
Explanation explain(const RequestFields& fields, std::uint64_t source_bytes, const std::string& name,
                    const std::string& compiler);
std::string to_text(const Explanation& explanation);
/// The lines that differ, as "field: left -> right"; empty if none does.
std::vector<std::string> difference(const Explanation& left, const Explanation& right);

}  // namespace jfa
