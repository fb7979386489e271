// call: of functions with a body, and of the two that the system provides, vprintf and __assertfail.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <bit>
#include <cstring>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

struct SystemCall {
  std::vector<u32> results, arguments;  // offsets in local memory
};

template <class T>
T local_value(Warp& warp, int lane, u32 offset) {
  T value;
  std::memcpy(&value, warp.local(lane) + offset, sizeof value);
  return value;
}

constexpr std::size_t kLongestText = 4096;

// The text at a generic address.
std::string text_at(Warp& warp, u64 address, const ProgramPoint& point) {
  std::string text;
  for (char c = 0; text.size() < kLongestText; text += c) {
    warp.read(Space::kGeneric, address + text.size(), 1, &c, point);
    if (c == 0) break;
  }
  return text;
}

// Takes the arguments of a printf one after the other from where vprintf's second parameter points.
class ArgumentReader {
 public:
  ArgumentReader(Warp& warp, u64 address, const ProgramPoint& point)
      : warp_(warp), address_(address), point_(point) {}
  template <class T>
  T take() {
    T value;
    address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    warp_.read(Space::kGeneric, address_, sizeof(T), &value, point_);
    address_ += sizeof(T);
    return value;
  }

 private:
  Warp& warp_;
  u64 address_;
  const ProgramPoint& point_;
};

std::string format_one(Warp& warp, const std::string& spec, bool is_long, char conversion,
                       ArgumentReader& next, const ProgramPoint& point) {
  const std::string format = spec + conversion;
  switch (conversion) {
    case 'd':
    case 'i':
      return is_long ? fmt::sprintf(format, next.take<s64>()) : fmt::sprintf(format, next.take<s32>());
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return is_long ? fmt::sprintf(format, next.take<u64>()) : fmt::sprintf(format, next.take<u32>());
    case 'c':
      return fmt::sprintf(format, static_cast<char>(next.take<s32>()));
    case 'p':
      return fmt::format("{:#x}", next.take<u64>());
    case 's':
      return fmt::sprintf(format, text_at(warp, next.take<u64>(), point));
    default:
      return fmt::sprintf(format, next.take<double>());
  }
}

std::string format_text(Warp& warp, const std::string& format, ArgumentReader next,
                        const ProgramPoint& point) {
  std::string text;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      text += '%', ++i;
      continue;
    }
    const std::size_t end = format.find_first_of("diuxXocpsfFeEgGaA", i + 1);
    const std::size_t flags_end = format.find_first_not_of("-+ #0123456789.", i + 1);
    const std::size_t length_end = format.find_first_not_of("hlLqjzt", std::min(flags_end, format.size()));
    if (end == std::string::npos || end != length_end)
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("a format of printf that is not known: \"{}\"", format));
    const std::string length = format.substr(flags_end, end - flags_end);
    const bool is_long = length.find_first_of("lqjzt") != std::string::npos;
    text += format_one(warp, format.substr(i, flags_end - i), is_long, format[end], next, point);
    i = end;
  }
  return text;
}

// int vprintf(const char* format, void* arguments)
Step print(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& call = in.data<SystemCall>();
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!(active >> lane & 1)) continue;
    const ProgramPoint point = warp.point(in, lane);
    const std::string format = text_at(warp, local_value<u64>(warp, lane, call.arguments[0]), point);
    const ArgumentReader arguments(warp, local_value<u64>(warp, lane, call.arguments[1]), point);
    const std::string text = format_text(warp, format, arguments, point);
    warp.machine().print(text);
    if (!call.results.empty()) {
      const auto length = static_cast<s32>(text.size());
      std::memcpy(warp.local(lane) + call.results[0], &length, sizeof length);
    }
  }
  return Step::kNext;
}

// void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t)
Step assertion_failed(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& call = in.data<SystemCall>();
  const int lane = std::countr_zero(active);
  const ProgramPoint point = warp.point(in, lane);
  const auto text = [&](std::size_t argument) {
    const u64 address = local_value<u64>(warp, lane, call.arguments[argument]);
    return address == 0 ? std::string("?") : text_at(warp, address, point);
  };
  fail(ErrorKind::kTrap, point,
       fmt::format("assertion `{}` failed in {} ({}:{})", text(0), text(3), text(1),
                   local_value<u32>(warp, lane, call.arguments[2])));
}

void decode_call(Decoder& d) {
  const CallOperands call = d.call();
  const auto system_call = [&](Handler handler, std::size_t arguments) {
    if (call.arguments.size() != arguments)
      d.fail(fmt::format("`{}` takes {} arguments, not {}", call.callee, arguments, call.arguments.size()));
    d.emit(handler).extra = d.attach(SystemCall{call.results, call.arguments});
  };
  if (call.callee == "vprintf") return system_call(print, 2);
  if (call.callee == "__assertfail") return system_call(assertion_failed, 5);
  d.inline_call(call);
}

}  // namespace

void register_call(InstructionTable& t) { t.add("call.uni?", decode_call); }

}  // namespace jfa::simulator
