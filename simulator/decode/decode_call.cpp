// Calls: a called function is decoded in place of each call, with registers of its own. Its parameters are
// local variables of the thread. That does away with recursion and with calls through pointers, which are
// refused.
#include <algorithm>

#include "simulator/decode/decode.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::size_t kMostInstructions = 1 << 19;  // functions that call each other twice grow fast

Step jump(Warp& warp, const Instruction& in, LaneMask active) { return warp.branch(in, active); }

}  // namespace

void EntryBuilder::emit_behind_guard(const std::function<void()>& emit_body) {
  const bool guarded = statement_->guard.index >= 0 && !ignore_guard_;
  const std::size_t around = entry_.code.size();
  if (guarded) {
    Instruction& in = emit(jump);
    in.flow = Flow::kBranch;
    in.guard_negated = !in.guard_negated;
  }
  const bool outer = std::exchange(ignore_guard_, true);
  emit_body();
  ignore_guard_ = outer;
  if (guarded) entry_.code[around].target = static_cast<std::uint32_t>(entry_.code.size());
}

void EntryBuilder::inline_call(const Decoder& decoder, const CallOperands& call) {
  const auto found = std::find_if(module_.functions.begin(), module_.functions.end(),
                                  [&](const Function& f) { return !f.is_entry && f.name == call.callee; });
  if (found == module_.functions.end()) decoder.fail("function `" + call.callee + "` has no body here");
  for (const Frame* f = frame_; f != nullptr; f = f->caller)
    if (&f->function == &*found) decoder.fail("`" + call.callee + "` calls itself, which is not supported");
  if (found->has_register_parameters)
    decoder.fail("`" + call.callee + "` takes parameters in registers, which is not supported");
  if (entry_.code.size() > kMostInstructions) decoder.fail("with all its calls the entry is too long");

  Frame callee(*found, frame_);
  const auto bind = [&](const char* what, const std::vector<Variable>& formal,
                        const std::vector<std::uint32_t>& actual) {
    if (formal.size() != actual.size())
      decoder.fail("`" + call.callee + "` has " + std::to_string(formal.size()) + " " + what + ", the call " +
                   std::to_string(actual.size()));
    for (std::size_t i = 0; i < formal.size(); ++i) callee.parameters[formal[i].name] = actual[i];
  };
  bind("results", found->results, call.results);
  bind("parameters", found->parameters, call.arguments);

  Frame* const caller = frame_;
  const Statement* const statement = statement_;
  const std::uint64_t touched = touched_;
  emit_behind_guard([&] {
    ignore_guard_ = false;  // the function's statements have guards of their own
    decode_statements(callee);
  });
  frame_ = caller;
  statement_ = statement;
  touched_ = touched;
}

const std::vector<std::string>& Decoder::branch_targets(int index) {
  const Operand& o = at(index);
  const std::vector<std::string>* targets =
      builder_.frame_->function.find_branch_targets(statement_.scope, o.name);
  if (o.kind != Operand::Kind::kSymbol || targets == nullptr)
    fail("`" + o.name + "` is no list of .branchtargets");
  return *targets;
}

void Decoder::emit_behind_guard(const std::function<void()>& emit_body) {
  builder_.emit_behind_guard(emit_body);
}

bool Decoder::is_called() const { return builder_.frame_->caller != nullptr; }

Instruction& Decoder::emit_return(Handler handler) {
  auto& frame = *builder_.frame_;
  frame.branches.emplace_back(builder_.entry_.code.size(),
                              static_cast<int>(frame.function.statements.size()) - 1);
  Instruction& in = emit(handler);
  in.flow = Flow::kBranch;
  return in;
}

bool Decoder::is_call_parameter(int index) const {
  const Operand& o = at(index);
  if (o.kind != Operand::Kind::kAddress || o.elements[0].kind != Operand::Kind::kSymbol) return false;
  const std::string& name = o.elements[0].name;
  const Variable* v = builder_.frame_->function.find_variable(statement_.scope, name);
  return v != nullptr ? v->space == Space::kParam
                      : is_called() && builder_.frame_->parameters.count(name) != 0;
}

CallOperands Decoder::call() {
  CallOperands call;
  const auto offsets = [&](int index) {
    std::vector<std::uint32_t> list;
    for (const Operand& o : at(index).elements) {
      const Variable* v = o.kind == Operand::Kind::kSymbol
                              ? builder_.frame_->function.find_variable(statement_.scope, o.name)
                              : nullptr;
      if (v == nullptr || v->space != Space::kParam)
        fail("argument `" + o.name + "` of a call is no .param variable of the caller");
      list.push_back(builder_.local_offset(*v, *this));
    }
    return list;
  };
  int next = 0;
  if (is_vector(next)) call.results = offsets(next++);
  if (at(next).kind != Operand::Kind::kSymbol) fail("calls through pointers are not supported");
  call.callee = at(next++).name;
  if (is_vector(next)) call.arguments = offsets(next);
  return call;
}

void Decoder::inline_call(const CallOperands& call) { builder_.inline_call(*this, call); }

}  // namespace jfa::simulator
