#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <optional>

#include "simulator/ptx/ptx.h"
#include "simulator/ptx/ptx_cursor.h"

namespace jfa::simulator {
namespace {

// Bits of a type such as `.b32`; 0 if it is none.
int type_bits(std::string_view word) {
  if (word.empty() || word[0] != '.') return 0;
  const std::string_view type = word.substr(1);
  if (type == "pred") return 1;
  if (type == "f16x2" || type == "bf16x2") return 32;
  if (type == "f32x2") return 64;
  if (type.size() < 2 || std::strchr("bsuf", type[0]) == nullptr) return 0;
  const std::string_view digits = type.substr(1);
  if (digits == "8") return 8;
  if (digits == "16") return 16;
  if (digits == "32") return 32;
  if (digits == "64") return 64;
  if (digits == "128") return 128;
  return 0;
}

std::optional<Space> space_of(std::string_view word) {
  if (word == ".global") return Space::kGlobal;
  if (word == ".const") return Space::kConst;
  if (word == ".shared") return Space::kShared;
  if (word == ".local") return Space::kLocal;
  if (word == ".param") return Space::kParam;
  return std::nullopt;
}

// Bounds on what a text may ask for, far above what kernels need and far below what would hurt.
constexpr std::uint64_t kMaxVariableBytes = 1ull << 30;
constexpr std::uint64_t kMaxAlignment = 1ull << 16;
constexpr std::uint64_t kMaxRegisters = 10'000'000;
constexpr int kMaxNesting = 64;  // of operands and initialisers

class Parser {
 public:
  explicit Parser(std::string_view text) : cursor_(text) {}

  PtxModule parse() {
    while (!cursor_.at_end()) module_item();
    return std::move(module_);
  }

 private:
  void module_item() {
    cursor_.peek();  // to the word's line
    const std::size_t start = cursor_.position();
    const int line = cursor_.line();
    const std::string_view word = cursor_.word();
    if (word == ".version") {
      module_.version = std::string(cursor_.word());
    } else if (word == ".target") {
      module_.target = std::string(cursor_.word());
      while (cursor_.accept(',')) cursor_.word();
    } else if (word == ".address_size") {
      if (cursor_.integer() != 64) cursor_.fail("only .address_size 64 is supported");
    } else if (word == ".file") {
      file_directive();
    } else if (word == ".section") {
      cursor_.word();
      cursor_.skip_braces();
    } else if (word == ".loc") {
      cursor_.rest_of_line();
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      return;  // linkage says nothing here
    } else if (word == ".extern") {
      external_ = true;
      return;
    } else if (word == ".pragma") {
      cursor_.string_literal();
      cursor_.expect(';');
    } else if (word == ".entry") {
      function(true);
    } else if (word == ".func") {
      function(false);
    } else if (word == ".alias") {
      skip_words(';');
    } else if (const auto space = space_of(word)) {
      for (Variable& v : variable_list(*space)) module_.variables.push_back(std::move(v));
    } else if (!word.empty() && cursor_.accept(':')) {
      skip_data();  // $L__info_string0: .b8 …
    } else {
      throw PtxError{line,
                     "`" + std::string(word.empty() ? cursor_.between(start, start + 1) : word) +
                         "` is not known at module level",
                     {}};
    }
    external_ = false;
  }

  // Words and commas up to `end`, which is taken too.
  void skip_words(char end) {
    while (!cursor_.accept(end))
      if (cursor_.word().empty() && !cursor_.accept(',')) cursor_.expect(end);
  }

  // The bytes behind a stray debug label.
  void skip_data() {
    while (cursor_.peek_word().substr(0, 2) == ".b") cursor_.rest_of_line();
  }

  void file_directive() {
    const std::size_t number = cursor_.integer();
    if (number > 100'000) cursor_.fail("a .file number of " + std::to_string(number));
    if (module_.files.size() <= number) module_.files.resize(number + 1);
    module_.files[number] = cursor_.string_literal();
    cursor_.rest_of_line();  // an optional timestamp and size
  }

  // --- variables: `.align 16 .b8 name[256] = {…};` the space has been read. Also parameters, which end with
  // , or ).
  Variable variable(Space space, bool initialisers) {
    Variable v;
    v.space = space;
    v.external = external_;
    v.ptx_line = cursor_.line();
    int element_bytes = 0;
    std::uint64_t lanes = 1;
    bool is_pointer =
        false;  // `.param .u64 .ptr .global .align 16 name`: what follows .ptr tells of the target
    while (cursor_.peek() == '.') {
      const std::string_view word = cursor_.word();
      if (word == ".align") {
        const std::uint64_t alignment = cursor_.integer();
        if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
          cursor_.fail("an alignment of " + std::to_string(alignment));
        if (!is_pointer) v.alignment = static_cast<std::uint32_t>(alignment);
      } else if (word == ".ptr" || space_of(word)) {
        is_pointer = true;
      } else if (word == ".attribute") {
        cursor_.expect('(');
        skip_words(')');
      } else if (word == ".v2" || word == ".v4") {
        lanes = word == ".v2" ? 2 : 4;
      } else if (const int bits = type_bits(word); bits >= 8) {
        element_bytes = bits / 8;
      } else {
        cursor_.fail("`" + std::string(word) + "` is not known in a variable");
      }
    }
    v.name = std::string(cursor_.word());
    if (v.name.empty() || element_bytes == 0) cursor_.fail("a variable without name or type");
    std::uint64_t count = lanes;
    bool unsized = false;
    while (cursor_.accept('[')) {
      if (cursor_.accept(']')) {
        unsized = true;
        continue;
      }
      const std::uint64_t extent = cursor_.integer();
      if (extent != 0 && count > kMaxVariableBytes / extent)
        cursor_.fail("`" + v.name + "` has more than " + std::to_string(kMaxVariableBytes) + " elements");
      count *= extent;
      cursor_.expect(']');
    }
    if (count > kMaxVariableBytes / static_cast<std::uint64_t>(element_bytes))
      cursor_.fail("`" + v.name + "` has more than " + std::to_string(kMaxVariableBytes) + " bytes");
    v.size_bytes = unsized ? 0 : count * static_cast<std::uint64_t>(element_bytes);
    v.alignment = std::max(v.alignment, static_cast<std::uint32_t>(element_bytes));
    if (initialisers && cursor_.accept('=')) {
      initialiser(v, element_bytes);
      if (unsized || v.size_bytes < v.initial.size()) v.size_bytes = v.initial.size();
    }
    return v;
  }

  std::vector<Variable> variable_list(Space space) {
    std::vector<Variable> list;
    list.push_back(variable(space, true));
    while (cursor_.accept(',')) {  // `.shared .b32 a, b;`
      Variable next = list.back();
      next.name = std::string(cursor_.word());
      list.push_back(std::move(next));
    }
    cursor_.expect(';');
    return list;
  }

  void initialiser(Variable& v, int element_bytes, int depth = 0) {
    if (depth > kMaxNesting) cursor_.fail("an initialiser nested too deeply");
    if (cursor_.accept('{')) {
      while (!cursor_.accept('}')) {
        if (cursor_.peek() == '{')
          initialiser(v, element_bytes, depth + 1);
        else
          initial_value(v, element_bytes);
        cursor_.accept(',');
      }
    } else {
      initial_value(v, element_bytes);
    }
  }

  void initial_value(Variable& v, int element_bytes) {
    const std::size_t offset = v.initial.size();
    v.initial.resize(offset + static_cast<std::size_t>(element_bytes));
    Operand value;
    const std::string word = number_word();
    if (word.empty()) cursor_.fail("the value of `" + v.name + "` does not end");
    if (parse_number(word, value)) {
      std::memcpy(v.initial.data() + offset, &value.value, static_cast<std::size_t>(element_bytes));
      return;
    }
    if (element_bytes != 8)
      cursor_.fail("an address in a variable of " + std::to_string(element_bytes) + " bytes");
    Variable::Relocation relocation{offset, word, 0};
    if (word == "generic") {
      cursor_.expect('(');
      relocation.symbol = std::string(cursor_.word());
      cursor_.expect(')');
    }
    if (cursor_.peek() == '+' || cursor_.peek() == '-') relocation.addend = cursor_.signed_integer();
    v.relocations.push_back(std::move(relocation));
  }

  std::string number_word() {
    std::string word;
    if (cursor_.accept('-')) word.push_back('-');
    word.append(cursor_.word());
    return word;
  }

  // --- functions
  void function(bool is_entry) {
    Function f;
    f.is_entry = is_entry;
    f.ptx_line = cursor_.line();
    f.scopes.emplace_back();
    if (!is_entry && cursor_.accept('(')) f.results = parameter_list(f);
    f.name = std::string(cursor_.word());
    if (cursor_.accept('(')) f.parameters = parameter_list(f);
    while (cursor_.peek() == '.') entry_directive(f);
    external_ = false;
    if (cursor_.accept(';')) return;  // a declaration
    cursor_.expect('{');
    function_ = &f;
    scope_ = 0;
    file_ = source_line_ = 0;
    while (scope_ >= 0) body_item();
    function_ = nullptr;
    f.statements.emplace_back();  // where labels at the very end point
    module_.functions.push_back(std::move(f));
  }

  std::vector<Variable> parameter_list(Function& f) {
    std::vector<Variable> list;
    while (!cursor_.accept(')')) {
      const std::string_view word = cursor_.word();
      if (word == ".reg") {
        cursor_.word(), cursor_.word();
        f.has_register_parameters = true;
      } else if (word == ".param") {
        list.push_back(variable(Space::kParam, false));
      } else {
        cursor_.fail("`" + std::string(word) + "` is not known in a parameter list");
      }
      cursor_.accept(',');
    }
    return list;
  }

  Dim3 dimensions() {
    Dim3 d;
    d.x = static_cast<std::uint32_t>(cursor_.integer());
    if (cursor_.accept(',')) d.y = static_cast<std::uint32_t>(cursor_.integer());
    if (cursor_.accept(',')) d.z = static_cast<std::uint32_t>(cursor_.integer());
    return d;
  }

  void entry_directive(Function& f) {
    const std::string_view word = cursor_.word();
    if (word == ".maxntid") {
      f.max_block = dimensions();
    } else if (word == ".reqntid") {
      f.required_block = dimensions();
    } else if (word == ".reqnctapercluster") {
      f.required_cluster = dimensions();
    } else if (word == ".minnctapersm") {
      f.min_ctas_per_sm = static_cast<std::uint32_t>(cursor_.integer());
    } else if (word == ".maxnreg") {
      f.max_registers = static_cast<std::uint32_t>(cursor_.integer());
    } else if (word == ".maxclusterrank") {
      cursor_.integer();
    } else if (word == ".explicitcluster" || word == ".blocksareclusters" || word == ".noreturn") {
    } else if (word == ".pragma") {
      cursor_.string_literal();
      cursor_.expect(';');
    } else if (word == ".attribute") {
      cursor_.expect('(');
      skip_words(')');
    } else {
      cursor_.fail("entry directive `" + std::string(word) + "` is not known");
    }
  }

  void body_item() {
    Function& f = *function_;
    if (cursor_.accept('{')) {
      f.scopes.emplace_back();
      f.scopes.back().parent = scope_;
      scope_ = static_cast<int>(f.scopes.size()) - 1;
      return;
    }
    if (cursor_.accept('}')) {
      scope_ = f.scopes[static_cast<std::size_t>(scope_)].parent;
      return;
    }
    if (cursor_.accept(';')) return;
    if (cursor_.at_end()) cursor_.fail("function `" + f.name + "` does not end");
    const std::string_view word = cursor_.peek() == '@' ? std::string_view() : cursor_.peek_word();
    if (!word.empty() && word[0] == '.') return directive();
    statement();
  }

  void directive() {
    Scope& scope = function_->scopes[static_cast<std::size_t>(scope_)];
    const std::string_view word = cursor_.word();
    if (word == ".reg") {
      declare_registers(scope);
    } else if (word == ".loc") {
      location();
    } else if (word == ".pragma") {
      cursor_.string_literal();
      cursor_.expect(';');
    } else if (word == ".file") {
      file_directive();
    } else if (word == ".branchtargets") {
      auto& targets = scope.branch_targets[last_label_];
      do {
        targets.emplace_back(cursor_.word());
      } while (cursor_.accept(','));
      cursor_.expect(';');
    } else if (word == ".callprototype" || word == ".calltargets") {
      // Of indirect calls, which are refused where they stand.
      while (!cursor_.accept(';')) {
        if (cursor_.at_end()) cursor_.fail("`" + std::string(word) + "` does not end");
        if (cursor_.word().empty()) cursor_.accept(cursor_.peek());
      }
    } else if (const auto space = space_of(word)) {
      for (Variable& v : variable_list(*space)) {
        std::string name = v.name;
        scope.variables.insert_or_assign(std::move(name), std::move(v));
      }
    } else {
      cursor_.fail("directive `" + std::string(word) + "` is not known");
    }
  }

  void declare_registers(Scope& scope) {
    std::string_view type = cursor_.word();
    const int bits = type_bits(type);
    if (bits == 0) cursor_.fail("a register of type `" + std::string(type) + "`");
    do {
      std::string name(cursor_.word());
      Scope::Registers registers{function_->register_count, 0, bits};
      if (cursor_.accept('<')) {
        const std::uint64_t count = cursor_.integer();
        if (count > kMaxRegisters - std::min<std::uint64_t>(
                                        kMaxRegisters, static_cast<std::uint64_t>(function_->register_count)))
          cursor_.fail(std::to_string(count) + " registers more than " +
                       std::to_string(function_->register_count));
        registers.count = static_cast<int>(count);
        cursor_.expect('>');
      }
      function_->register_count += std::max(registers.count, 1);
      scope.registers[std::move(name)] = registers;
    } while (cursor_.accept(','));
    cursor_.expect(';');
  }

  // `.loc 1 57 5, function_name $L__info_string3, inlined_at 1 120 3`: the innermost place is what a reader
  // wants.
  void location() {
    file_ = static_cast<int>(cursor_.integer());
    source_line_ = static_cast<int>(cursor_.integer());
    cursor_.rest_of_line();
  }

  // --- statements
  void statement() {
    cursor_.peek();
    const std::size_t start = cursor_.position();
    Statement s;
    s.ptx_line = cursor_.line();
    s.scope = scope_;
    s.file = file_;
    s.source_line = source_line_;
    if (cursor_.accept('@')) {
      s.guard_negated = cursor_.accept('!');
      const std::string_view name = cursor_.word();
      s.guard = find_register(name);
      if (s.guard.index < 0) cursor_.fail("guard `" + std::string(name) + "` is not declared");
    } else {
      // A label is a word and one colon.
      const std::string_view label = cursor_.peek_word();
      const std::size_t end = cursor_.position() + label.size();
      const std::string_view behind = cursor_.between(end, end + 2);
      if (!behind.empty() && behind[0] == ':' && behind != "::") {
        cursor_.word();
        cursor_.expect(':');
        last_label_ = label;
        function_->scopes[static_cast<std::size_t>(scope_)].labels[std::string(label)] =
            static_cast<int>(function_->statements.size());
        return;
      }
    }
    s.opcode = std::string(cursor_.word(true));
    if (s.opcode.empty()) cursor_.fail(std::string("unexpected '") + cursor_.peek() + "'");
    if (!cursor_.accept(';')) {
      do {
        s.operands.push_back(operand());
      } while (cursor_.accept(','));
      cursor_.expect(';');
    }
    s.begin = start;
    s.end = cursor_.position();
    s.text = one_line(cursor_.between(s.begin, s.end));
    function_->statements.push_back(std::move(s));
  }

  static std::string one_line(std::string_view text) {
    std::string result;
    for (const char c : text) {
      const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
      if (!space)
        result += c;
      else if (!result.empty() && result.back() != ' ')
        result += ' ';
    }
    return result;
  }

  Operand operand(int depth = 0) {
    if (depth > kMaxNesting) cursor_.fail("an operand nested too deeply");
    Operand o;
    const char c = cursor_.peek();
    if (c == '{' || c == '(') {  // a vector, or the arguments of a call
      cursor_.accept(c);
      o.kind = Operand::Kind::kVector;
      const char close = c == '{' ? '}' : ')';
      while (!cursor_.accept(close)) {
        o.elements.push_back(operand(depth + 1));
        if (cursor_.peek() != close) cursor_.expect(',');
      }
      return o;
    }
    if (cursor_.accept('[')) {
      o.kind = Operand::Kind::kAddress;
      o.elements.push_back(operand(depth + 1));
      o.displacement = o.elements[0].displacement;
      if (cursor_.peek() == '+' || cursor_.peek() == '-') o.displacement += displacement();
      while (cursor_.accept(',')) {
        Operand coordinate = operand(depth + 1);
        if (coordinate.kind == Operand::Kind::kVector)
          for (Operand& e : coordinate.elements) o.elements.push_back(std::move(e));
        else
          o.elements.push_back(std::move(coordinate));
      }
      cursor_.expect(']');
      return o;
    }
    o.negated = cursor_.accept('!');
    o.name = number_word();
    if (o.name.empty()) cursor_.fail(std::string("unexpected '") + c + "' in an operand");
    resolve(o);
    if (o.kind == Operand::Kind::kSymbol && cursor_.peek() == '+') o.displacement = displacement();
    if (cursor_.accept('|')) o.second = std::make_shared<Operand>(operand(depth + 1));
    return o;
  }

  // `+16`, `-16` or `+-16`
  std::int64_t displacement() {
    const bool minus = cursor_.accept('-');
    if (!minus) cursor_.expect('+');
    const std::int64_t value = cursor_.signed_integer();
    return minus ? -value : value;
  }

  void resolve(Operand& o) {
    if (o.name == "_") {
      o.kind = Operand::Kind::kSink;
    } else if (parse_number(o.name, o)) {
    } else if (o.reg = find_register(o.name); o.reg.index >= 0) {
      o.kind = Operand::Kind::kRegister;
    } else if (o.name == "WARP_SZ") {
      o.kind = Operand::Kind::kInteger;
      o.value = kWarpSize;
    } else {
      o.kind = o.name[0] == '%' ? Operand::Kind::kSpecial : Operand::Kind::kSymbol;
    }
  }

  RegisterId find_register(std::string_view name) const {
    std::size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
    for (int s = scope_; s >= 0;) {
      const Scope& scope = function_->scopes[static_cast<std::size_t>(s)];
      if (const auto it = scope.registers.find(name); it != scope.registers.end() && it->second.count == 0)
        return {it->second.first, it->second.bits};
      if (digits < name.size() && name.size() - digits < 9) {
        const auto it = scope.registers.find(name.substr(0, digits));
        const int number = std::stoi(std::string(name.substr(digits)));
        if (it != scope.registers.end() && number < it->second.count)
          return {it->second.first + number, it->second.bits};
      }
      s = scope.parent;
    }
    return {};
  }

  PtxCursor cursor_;
  PtxModule module_;
  Function* function_ = nullptr;
  int scope_ = -1;
  int file_ = 0, source_line_ = 0;
  std::string last_label_;
  bool external_ = false;
};

}  // namespace

int Function::find_label(int scope, std::string_view name) const {
  const int* statement = find_in_scopes(
      scope, name, [](const Scope& s) -> auto& { return s.labels; });
  return statement == nullptr ? -1 : *statement;
}

const std::vector<std::string>* Function::find_branch_targets(int scope, std::string_view name) const {
  return find_in_scopes(
      scope, name, [](const Scope& s) -> auto& { return s.branch_targets; });
}

const Variable* Function::find_variable(int scope, std::string_view name) const {
  return find_in_scopes(
      scope, name, [](const Scope& s) -> auto& { return s.variables; });
}

PtxModule parse_ptx(std::string_view text) { return Parser(text).parse(); }

}  // namespace jfa::simulator
