#include "simulator/machine/report.h"

#include <fmt/format.h>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

const StatementPlace* place_of(const ProgramPoint& point) {
  if (point.instruction == nullptr || point.cta == nullptr) return nullptr;
  return &point.cta->machine().entry().statements[point.instruction->statement];
}

std::string shorten(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 1) + "…";
}

std::string strip(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \t");
  return from == std::string::npos ? std::string() : text.substr(from);
}

std::string file_name(const Module& module, int file) {
  const auto index = static_cast<std::size_t>(file);
  return index < module.files().size() ? module.files()[index] : std::string();
}

}  // namespace

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnknownInstruction:
      return "unknown instruction";
    case ErrorKind::kMalformedPtx:
      return "malformed PTX";
    case ErrorKind::kOutOfBounds:
      return "out of bounds";
    case ErrorKind::kUseAfterFree:
      return "use after free";
    case ErrorKind::kMisaligned:
      return "misaligned";
    case ErrorKind::kUninitialised:
      return "uninitialised";
    case ErrorKind::kInFlight:
      return "in flight";
    case ErrorKind::kRace:
      return "race";
    case ErrorKind::kMissingFence:
      return "missing fence";
    case ErrorKind::kBarrier:
      return "barrier misuse";
    case ErrorKind::kTransaction:
      return "transaction count";
    case ErrorKind::kTensorMemory:
      return "tensor memory";
    case ErrorKind::kDescriptor:
      return "descriptor";
    case ErrorKind::kDivergence:
      return "divergence";
    case ErrorKind::kDeadlock:
      return "deadlock";
    case ErrorKind::kLivelock:
      return "livelock";
    case ErrorKind::kTrap:
      return "trap";
    case ErrorKind::kLaunch:
      return "launch";
    case ErrorKind::kInvalidOperand:
      return "invalid operand";
  }
  return "?";
}

std::string ProgramPoint::describe() const {
  const StatementPlace* place = place_of(*this);
  std::string text;
  if (place != nullptr) {
    const Module& module = cta->machine().module();
    text = fmt::format("`{}` (PTX line {}", shorten(place->text, 160), place->ptx_line);
    if (place->source_line > 0) {
      text += fmt::format(", {}:{}", file_name(module, place->file), place->source_line);
      const std::string line = strip(module.source_line(place->file, place->source_line));
      if (!line.empty()) text += fmt::format(" `{}`", shorten(line, 120));
    }
    text += ")";
  }
  if (cta != nullptr) {
    const Dim3& c = cta->index();
    text += fmt::format("{}CTA ({},{},{})", text.empty() ? "" : " by ", c.x, c.y, c.z);
    if (warp >= 0) text += fmt::format(" warp {}", warp);
    if (lane >= 0) text += fmt::format(" lane {}", lane);
  }
  return text;
}

std::string Report::text() const {
  std::string result = fmt::format("{}: {}\n", to_string(kind), message);
  if (!entry.empty()) result += fmt::format("  entry        {}\n", entry);
  if (!instruction.empty()) result += fmt::format("  instruction  {} (PTX line {})\n", instruction, ptx_line);
  if (source_line > 0)
    result += fmt::format("  source       {}:{}  {}\n", source_file, source_line, source_text);
  if (cta[0] >= 0) {
    result += fmt::format("  thread       CTA ({},{},{})", cta[0], cta[1], cta[2]);
    if (warp >= 0) result += fmt::format(", warp {}", warp);
    if (lane >= 0) result += fmt::format(", lane {} (thread {})", lane, warp * kWarpSize + lane);
    result += "\n";
  }
  if (has_address) result += fmt::format("  address      {:#x}\n", address);
  if (!detail.empty()) result += detail + (detail.back() == '\n' ? "" : "\n");
  return result;
}

namespace {

Report make_report(ErrorKind kind, const ProgramPoint& point, std::string message, std::string detail) {
  Report r;
  r.kind = kind;
  r.message = std::move(message);
  r.detail = std::move(detail);
  r.warp = point.warp;
  r.lane = point.lane;
  if (const StatementPlace* place = place_of(point)) {
    const Module& module = point.cta->machine().module();
    r.instruction = place->text;
    r.ptx_line = place->ptx_line;
    r.source_line = place->source_line;
    r.source_file = file_name(module, place->file);
    r.source_text = strip(module.source_line(place->file, place->source_line));
  }
  if (point.cta != nullptr) {
    r.entry = point.cta->machine().entry().name;
    r.cta[0] = static_cast<int>(point.cta->index().x);
    r.cta[1] = static_cast<int>(point.cta->index().y);
    r.cta[2] = static_cast<int>(point.cta->index().z);
  }
  return r;
}

}  // namespace

void fail(ErrorKind kind, const ProgramPoint& point, std::string message, std::string detail) {
  throw SimulationError(make_report(kind, point, std::move(message), std::move(detail)));
}

void fail_at(ErrorKind kind, const ProgramPoint& point, std::uint64_t address, std::string message,
             std::string detail) {
  Report report = make_report(kind, point, std::move(message), std::move(detail));
  report.has_address = true;
  report.address = address;
  throw SimulationError(std::move(report));
}

}  // namespace jfa::simulator
