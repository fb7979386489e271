// A run as files for other programs: a trace for Perfetto, a picture of roles over time.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/timing/report.h"

namespace jfa::simulator::timing {
namespace {

// JSON strings of ours have nothing to escape but these.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

int thread_of(const Actor& actor) { return actor.warp >= 0 ? actor.warp : 1000 - actor.warp; }

std::string name_of(const Actor& actor) {
  if (actor.warp == Actor::kTensorCore) return "tensor core";
  if (actor.warp == Actor::kCopies) return "copies";
  return fmt::format("warp {}", actor.warp);
}

// Causes that are work, in colours that tell them apart; the others are waits.
constexpr std::string_view colour(Cause cause) {
  switch (cause) {
    case Cause::fma:
    case Cause::alu:
    case Cause::issue:
    case Cause::slot:
      return "#4c78a8";
    case Cause::mufu:
    case Cause::arithmetic:
      return "#f58518";
    case Cause::shared:
    case Cause::global:
      return "#72b7b2";
    case Cause::tensor_memory:
      return "#54a24b";
    case Cause::sync:
    case Cause::tensor:
    case Cause::copy:
    case Cause::bandwidth:
    case Cause::start:
      break;
  }
  return "#dddddd";
}

// Neighbours in time with one cause are one event.
struct Span {
  double begin = 0, end = 0;
  Cause cause = Cause::start;
};

std::vector<Span> spans_of(const Played& played, const std::vector<std::uint32_t>& happenings) {
  std::vector<Span> spans;
  double before = played.happenings[happenings.front()].time;
  for (const std::uint32_t index : happenings) {
    const Happening& one = played.happenings[index];
    if (one.time > before) {
      const bool same = !spans.empty() && colour(spans.back().cause) == colour(one.cause);
      if (same)
        spans.back().end = one.time;
      else
        spans.push_back({before, one.time, one.cause});
    }
    before = one.time;
  }
  return spans;
}

}  // namespace

std::string chrome_trace(const TimedLaunch& launch, const ModelledLaunch& modelled) {
  std::string text =
      fmt::format("{{\"otherData\":{{\"what\":{},\"unit\":\"cycles\"}},\"traceEvents\":[", quoted(label()));
  const Played& played = modelled.nominal();
  bool first = true;
  const auto add = [&](const std::string& event) {
    text += (first ? "\n" : ",\n") + event;
    first = false;
  };
  for (const auto& [actor, happenings] : played.by_actor) {
    add(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", actor.sm,
        thread_of(actor), quoted(name_of(actor))));
    if (actor.warp < 0) {
      for (const std::uint32_t index : happenings) {
        const Happening& one = played.happenings[index];
        const std::uint32_t statement = one.instruction == Happening::kNone
                                            ? MachineEntry::kNoStatement
                                            : modelled.machine.statements[one.instruction];
        const std::string what =
            statement == MachineEntry::kNoStatement
                ? std::string("work")
                : fmt::format("line {}", launch.entry->statements[statement].source_line);
        add(fmt::format("{{\"ph\":\"X\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{:.0f},\"dur\":{:.0f}}}",
                        quoted(what), actor.sm, thread_of(actor), one.time, one.end - one.time));
      }
      continue;
    }
    for (const Span& span : spans_of(played, happenings))
      add(fmt::format("{{\"ph\":\"X\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{:.0f},\"dur\":{:.0f}}}",
                      quoted(to_string(span.cause)), actor.sm, thread_of(actor), span.begin,
                      span.end - span.begin));
  }
  return text + "\n]}\n";
}

std::string svg(const LaunchSummary& summary, const ModelledLaunch& modelled, double most_cycles) {
  constexpr double kWidth = 1200, kLeft = 110, kRow = 16, kTop = 44;
  const Played& played = modelled.nominal();
  const double cycles = most_cycles > 0 ? std::min(most_cycles, played.cycles) : played.cycles;
  const auto x = [&](double time) { return kLeft + (kWidth - kLeft) * time / std::max(1.0, cycles); };
  double y = kTop;
  std::string rows;
  for (const auto& [actor, happenings] : played.by_actor) {
    rows += fmt::format("<text x=\"4\" y=\"{:.0f}\">{}</text>\n", y + 11, name_of(actor));
    const auto bar = [&](double begin, double end, std::string_view fill) {
      if (begin >= cycles) return;
      rows += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"12\" fill=\"{}\"/>\n",
                          x(begin), y, std::max(0.2, x(std::min(end, cycles)) - x(begin)), fill);
    };
    if (actor.warp < 0) {
      for (const std::uint32_t index : happenings)
        bar(played.happenings[index].time, played.happenings[index].end,
            actor.warp == Actor::kTensorCore ? "#b279a2" : "#9d755d");
    } else {
      for (const Span& span : spans_of(played, happenings)) bar(span.begin, span.end, colour(span.cause));
    }
    y += kRow;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "font-family=\"sans-serif\" "
             "font-size=\"11\">\n<text x=\"4\" y=\"14\">{}: {:.0f} cycles of {:.0f}; {}</text>\n"
             "<text x=\"4\" y=\"32\">blue: issue, FMA, ALU; orange: MUFU, votes, conversions; green: tensor "
             "memory; "
             "teal: shared and global memory; grey: waits</text>\n",
             kWidth, y + 8, summary.entry, cycles, played.cycles, label()) +
         rows + "</svg>\n";
}

}  // namespace jfa::simulator::timing
