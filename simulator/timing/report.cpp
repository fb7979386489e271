#include "simulator/timing/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace jfa::simulator::timing {
namespace {

constexpr std::size_t kDearestLines = 10;
constexpr std::size_t kMostShares = 8;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Share> dearest(const std::map<std::string, double>& cycles, std::size_t most) {
  std::vector<Share> shares;
  for (const auto& [who, count] : cycles) shares.push_back({who, count});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.cycles > b.cycles; });
  if (shares.size() > most) shares.resize(most);
  return shares;
}

// Warps of which at least half of the instructions are common.
bool same_code(const std::set<std::uint32_t>& a, const std::set<std::uint32_t>& b) {
  const auto common =
      std::count_if(a.begin(), a.end(), [&](std::uint32_t instruction) { return b.contains(instruction); });
  return 2 * static_cast<std::size_t>(common) >= std::max(a.size(), b.size());
}

// A line, 1-based, without what it is indented by.
std::string_view line_of(std::string_view text, int line) {
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view{} : text.substr(begin);
}

class Summarizer {
 public:
  Summarizer(const TimedLaunch& launch, const ModelledLaunch& modelled, std::string_view source)
      : launch_(launch), modelled_(modelled), played_(modelled.nominal()), source_(source) {}

  LaunchSummary run() {
    summary_.entry = launch_.entry->name;
    summary_.warps = modelled_.work.size();
    summary_.segments = modelled_.segments;
    summary_.ambiguous = modelled_.ambiguous;
    summary_.cycles = {modelled_.played[0].cycles, modelled_.played[1].cycles, modelled_.played[2].cycles};
    find_roles();
    for (RoleSummary& role : summary_.roles) describe(role);
    const double cycles = std::max(1.0, played_.cycles);
    const auto busy = [&](const std::map<int, double>& by_sm) {
      return by_sm.empty() ? 0.0 : by_sm.begin()->second / cycles;
    };
    summary_.tensor_share = busy(played_.tensor_busy);
    summary_.shared_share = busy(played_.shared_busy);
    summary_.copy_share = busy(played_.copy_busy);
    walk_chain();
    return std::move(summary_);
  }

 private:
  void find_roles() {
    std::set<std::uint32_t> last_code;
    for (const WarpWork& work : modelled_.work) {
      std::set<std::uint32_t> code;
      for (const Step& step : work.way->steps) code.insert(step.instruction);
      RoleSummary* last = summary_.roles.empty() ? nullptr : &summary_.roles.back();
      if (last != nullptr && last->sm == work.actor.sm && same_code(code, last_code)) {
        last->last = work.actor.warp;
      } else {
        RoleSummary role;
        role.sm = work.actor.sm;
        role.first = role.last = work.actor.warp;
        summary_.roles.push_back(role);
        last_code = std::move(code);
      }
    }
    const bool many = !summary_.roles.empty() && summary_.roles.back().sm != summary_.roles.front().sm;
    for (RoleSummary& role : summary_.roles) {
      role.name = role.first == role.last ? fmt::format("warp {}", role.first)
                                          : fmt::format("warps {}-{}", role.first, role.last);
      if (many) role.name += fmt::format(" of SM {}", role.sm);
    }
  }

  std::string name_of(const Actor& actor) const {
    if (actor.warp == Actor::kTensorCore) return "tensor core";
    if (actor.warp == Actor::kCopies) return "copies";
    for (const RoleSummary& role : summary_.roles)
      if (role.sm == actor.sm && actor.warp >= role.first && actor.warp <= role.last) return role.name;
    return "?";
  }

  void describe(RoleSummary& role) {
    std::map<std::string, double> waits;
    std::map<std::uint32_t, std::size_t> visits;
    double warps = 0;
    for (int warp = role.first; warp <= role.last; ++warp) {
      const auto found = played_.by_actor.find({role.sm, warp});
      if (found == played_.by_actor.end()) continue;
      ++warps;
      double before = played_.happenings[found->second.front()].time;
      role.cycles = std::max(role.cycles, played_.happenings[found->second.back()].time - before);
      for (const std::uint32_t index : found->second) {
        const Happening& one = played_.happenings[index];
        role.by_cause[static_cast<std::size_t>(one.cause)] += one.time - before;
        if (one.because != Happening::kNone) {
          const std::string who = name_of(played_.happenings[one.because].actor);
          const bool other = who != role.name || one.cause == Cause::sync;
          if (other && one.cause != Cause::slot) waits[who] += one.time - before;
        }
        before = one.time;
        const Anchor anchor = modelled_.machine.anchors[one.instruction];
        if (warp == role.first && (anchor == Anchor::mbarrier_wait || anchor == Anchor::product ||
                                   anchor == Anchor::copy_in || anchor == Anchor::tensor_load))
          ++visits[one.instruction];
      }
      role.instructions += static_cast<double>(found->second.size());
    }
    if (warps == 0) return;
    role.instructions /= warps;
    for (double& cycles : role.by_cause) cycles /= warps;
    for (auto& [who, cycles] : waits) cycles /= warps;
    role.waits = dearest(waits, kMostShares);
    const auto most = std::max_element(visits.begin(), visits.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == visits.end()) return;
    role.landmark = modelled_.machine.code[most->first].name();
    role.landmark_line = source_line(most->first);
    role.visits = most->second;
    const auto period = [&](const Played& played) {
      std::vector<double> gaps;
      double before = -1;
      for (const std::uint32_t index : played.by_actor.at({role.sm, role.first})) {
        const Happening& one = played.happenings[index];
        if (one.instruction != most->first) continue;
        if (before >= 0) gaps.push_back(one.time - before);
        before = one.time;
      }
      return median(std::move(gaps));
    };
    role.period = {period(modelled_.played[0]), period(modelled_.played[1]), period(modelled_.played[2])};
  }

  int source_line(std::uint32_t instruction) const {
    if (instruction == Happening::kNone) return 0;
    const std::uint32_t statement = modelled_.machine.statements[instruction];
    return statement == MachineEntry::kNoStatement ? 0 : launch_.entry->statements[statement].source_line;
  }

  std::string source_of(std::uint32_t instruction) const {
    const std::uint32_t statement = instruction == Happening::kNone
                                        ? MachineEntry::kNoStatement
                                        : modelled_.machine.statements[instruction];
    if (statement == MachineEntry::kNoStatement) return "(no line)";
    const StatementPlace& place = launch_.entry->statements[statement];
    if (place.source_line == 0) return fmt::format("PTX line {}", place.ptx_line);
    const std::string_view text = line_of(source_, place.source_line);
    return text.empty() ? fmt::format("line {}", place.source_line)
                        : fmt::format("line {}: {}", place.source_line, text);
  }

  // Back from the last warp to leave.
  void walk_chain() {
    std::uint32_t index = Happening::kNone;
    for (const WarpWork& work : modelled_.work) {
      const auto found = played_.by_actor.find(work.actor);
      if (found == played_.by_actor.end()) continue;
      const std::uint32_t last = found->second.back();
      if (index == Happening::kNone || played_.happenings[last].time > played_.happenings[index].time)
        index = last;
    }
    std::map<std::string, double> chain, lines;
    while (index != Happening::kNone) {
      const Happening& one = played_.happenings[index];
      if (one.because == Happening::kNone) break;
      const double cycles = one.time - played_.happenings[one.because].time;
      chain[fmt::format("{}: {}", name_of(one.actor), to_string(one.cause))] += cycles;
      lines[source_of(one.instruction)] += cycles;
      index = one.because;
    }
    summary_.chain = dearest(chain, kMostShares);
    summary_.lines = dearest(lines, kDearestLines);
  }

  const TimedLaunch& launch_;
  const ModelledLaunch& modelled_;
  const Played& played_;
  std::string_view source_;
  LaunchSummary summary_;
};

std::string text_of(const Range& range) {
  return fmt::format("{:.0f} ({:.0f} to {:.0f})", range.nominal, range.low, range.high);
}

}  // namespace

LaunchSummary summarize(const TimedLaunch& launch, const ModelledLaunch& modelled, std::string_view source) {
  return Summarizer(launch, modelled, source).run();
}

std::string label() {
  return fmt::format("model, constants {}, nominal (low to high); not measured on sm_100", constants_hash());
}

std::string text_of(const LaunchSummary& summary) {
  std::string text = fmt::format("{}: {} cycles; {}\n", summary.entry, text_of(summary.cycles), label());
  text += fmt::format("  {} warps, {} ways between anchors", summary.warps, summary.segments);
  if (summary.ambiguous > 0)
    text += fmt::format(", of {} the shortest of several that fit", summary.ambiguous);
  text += fmt::format("\n  busy: tensor core {:.0f} %, shared memory {:.0f} %, copies {:.0f} %\n",
                      100 * summary.tensor_share, 100 * summary.shared_share, 100 * summary.copy_share);
  for (const RoleSummary& role : summary.roles) {
    text += fmt::format("  {}: {:.0f} cycles, {:.0f} instructions a warp", role.name, role.cycles,
                        role.instructions);
    if (role.visits > 1)
      text += fmt::format("; {} of line {} every {} cycles, {} times", role.landmark, role.landmark_line,
                          text_of(role.period), role.visits);
    text += "\n    waited last for";
    double total = 0;
    for (const double cycles : role.by_cause) total += cycles;
    for (std::size_t i = 0; i < kCauseCount; ++i)
      if (total > 0 && role.by_cause[i] >= 0.005 * total)
        text += fmt::format(" {} {:.0f} %", to_string(static_cast<Cause>(i)), 100 * role.by_cause[i] / total);
    if (!role.waits.empty()) text += "\n    of others:";
    for (const Share& share : role.waits)
      if (total > 0 && share.cycles >= 0.005 * total)
        text += fmt::format(" {} {:.0f} %", share.who, 100 * share.cycles / total);
    text += "\n";
  }
  const auto list = [&](std::string_view title, const std::vector<Share>& shares) {
    text += fmt::format("  {}\n", title);
    for (const Share& share : shares)
      if (share.cycles >= 0.5) text += fmt::format("    {:>8.0f}  {}\n", share.cycles, share.who);
  };
  list("critical chain, cycles", summary.chain);
  list("its dearest lines, cycles", summary.lines);
  return text;
}

}  // namespace jfa::simulator::timing
