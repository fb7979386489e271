// PTX as parsed: a module of variables and functions, functions of statements. Registers and labels are
// resolved to their scopes; nothing is known of what instructions mean.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/ptx/types.h"

namespace jfa::simulator {

/// A register that some scope declares. Only its width matters: instructions say their types.
struct RegisterId {
  int index = -1;
  int bits = 0;  // 1: a predicate
};

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,  // name, reg
    kSpecial,   // name: "%tid.x"
    kSymbol,    // name: variable, parameter, label, function
    kInteger,   // value
    kFloat32,   // value: the bits of 0f…
    kFloat64,   // value: the bits of 0d… or of a decimal
    kVector,    // elements
    kAddress,   // elements[0] is the base, elements[1…] the coordinates; displacement
    kSink,      // _
  };
  Kind kind = Kind::kSink;
  bool negated = false;  // !p
  RegisterId reg;
  std::uint64_t value = 0;
  std::int64_t displacement = 0;
  std::string name;
  std::vector<Operand> elements;
  std::shared_ptr<Operand> second;  // d|p
};

struct Statement {
  std::string opcode;  // with its modifiers; empty: only a place for labels at the end
  std::vector<Operand> operands;
  RegisterId guard;
  bool guard_negated = false;
  int scope = 0;
  int ptx_line = 0;
  int file = 0;
  int source_line = 0;
  std::size_t begin = 0, end = 0;  // in the PTX text: guard, opcode, operands and semicolon
  std::string text;
};

/// .global, .const, .shared, .local or .param
struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  std::uint32_t alignment = 1;
  std::uint64_t size_bytes = 0;
  bool external = false;  // .extern
  int ptx_line = 0;
  std::vector<std::byte> initial;  // may be shorter than size_bytes; the rest is 0
  struct Relocation {
    std::uint64_t offset = 0;  // in `initial`, 8 bytes
    std::string symbol;
    std::int64_t addend = 0;
  };
  std::vector<Relocation> relocations;
};

/// A `{ }` block, or the function itself.
struct Scope {
  struct Registers {
    int first = 0;
    int count = 0;  // of %r<count>; 0: one register of exactly that name
    int bits = 32;
  };
  int parent = -1;
  std::map<std::string, Registers, std::less<>> registers;  // by name, or by prefix of %r<N>
  std::map<std::string, int, std::less<>> labels;           // statement index
  std::map<std::string, Variable, std::less<>> variables;
  std::map<std::string, std::vector<std::string>, std::less<>>
      branch_targets;  // labels, by their list's label
};

struct Function {
  std::string name;
  bool is_entry = false;
  int ptx_line = 0;
  std::vector<Variable> results, parameters;
  bool has_register_parameters = false;  // .reg among them: not supported, and left out of the lists
  std::vector<Scope> scopes;
  std::vector<Statement> statements;
  int register_count = 0;
  Dim3 max_block{0, 0, 0};       // .maxntid
  Dim3 required_block{0, 0, 0};  // .reqntid
  Dim3 required_cluster{0, 0, 0};
  std::uint32_t min_ctas_per_sm = 0;
  std::uint32_t max_registers = 0;

  /// Statement index of a label seen from a scope, or -1.
  int find_label(int scope, std::string_view name) const;
  /// The labels of a .branchtargets list seen from a scope, or null.
  const std::vector<std::string>* find_branch_targets(int scope, std::string_view name) const;
  /// A variable of the function's scopes, or null.
  const Variable* find_variable(int scope, std::string_view name) const;

  /// The value of `map_of(scope).at(name)` in the nearest scope that has it, or null.
  template <class MapOf>
  auto find_in_scopes(int scope, std::string_view name, MapOf map_of) const
      -> decltype(&map_of(scopes[0]).find(name)->second) {
    for (; scope >= 0; scope = scopes[static_cast<std::size_t>(scope)].parent) {
      const auto& map = map_of(scopes[static_cast<std::size_t>(scope)]);
      if (const auto it = map.find(name); it != map.end()) return &it->second;
    }
    return nullptr;
  }
};

struct PtxModule {
  std::string version, target;
  std::vector<std::string> files;  // by number
  std::vector<Variable> variables;
  std::vector<Function> functions;  // those with a body
};

/// A text that is not PTX as we know it.
struct PtxError {
  int line = 0;
  std::string message;
  std::string statement;
};

/// Parses a PTX text; throws PtxError.
PtxModule parse_ptx(std::string_view text);

}  // namespace jfa::simulator
