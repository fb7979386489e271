#include "simulator/timing/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

namespace jfa::simulator::timing {
namespace {

using machine_code::Flow;
using machine_code::Instruction;

constexpr std::uint32_t kExit = 0xfffffffeu;  // a segment that ends with the warp's exit
constexpr std::size_t kWaysPerBlock = 6;      // that a search goes on with
constexpr std::size_t kWaysPerAnchor = 6;
constexpr double kPollCost = 4;
constexpr double kSameCost = 1e-9;
constexpr std::size_t kMostBlocks = 4000;  // of one way between two anchors

}  // namespace

// From behind an anchor to the next one.
struct Matcher::Segment {
  std::uint32_t target = kExit;                                 // statement
  std::unordered_map<std::uint32_t, std::uint32_t> statements;  // executed in it, and how often
  std::set<std::uint32_t> near;                                 // executed in the segments beside it
  std::uint64_t hash = 0;                                       // of all that
};

struct Matcher::Candidate {
  std::uint32_t end = 0;  // the machine instruction that realizes the target
  double cost = 0;
  std::vector<std::uint32_t> path;  // machine instructions up to and with `end`
  bool ambiguous = false;           // another one to the same end costs no more
};

namespace {

// A wait is a try and, elsewhere, a loop of tries for when it fails, and the compiler says the line of one of
// them. The try is what realizes it; what the loop does until the phase is complete is waiting.
void settle_waits(MachineEntry& machine) {
  constexpr std::size_t kMostBetween = 4;  // from a branch's target to its first try
  const auto tries = [&](std::size_t i) { return machine.code[i].is("SYNCS.PHASECHK"); };
  for (const machine_code::Block& block : machine.graph.blocks) {
    const Instruction& last = machine.code[block.end - 1];
    if (last.flow != Flow::conditional) continue;
    std::size_t attempt = block.end - 1;
    while (attempt > block.begin && !tries(attempt)) --attempt;
    if (!tries(attempt) || block.end - attempt > kMostBetween) continue;
    const std::size_t begin = last.target / machine_code::kInstructionBytes;
    // A loop's own branch back leads to the try that it is behind.
    if (begin <= attempt && attempt < begin + kMostBetween) continue;
    std::size_t loop = begin;
    while (loop < machine.code.size() && loop < begin + kMostBetween && !tries(loop)) ++loop;
    if (loop >= machine.code.size() || !tries(loop)) continue;
    // Behind it a branch back to it: else it is the next wait.
    const auto back = [&](std::size_t i) {
      const Instruction& branch = machine.code[i];
      const std::size_t to = branch.target / machine_code::kInstructionBytes;
      return branch.flow == Flow::conditional && begin <= to && to <= loop;
    };
    std::size_t end = loop + 1;
    while (end < machine.code.size() && end < loop + kMostBetween && !back(end)) ++end;
    if (end >= machine.code.size() || end >= loop + kMostBetween) continue;
    if (machine.anchors[attempt] == Anchor::none) {
      machine.statements[attempt] = machine.statements[loop];
      machine.anchors[attempt] = machine.anchors[loop];
    }
    for (std::size_t i = loop; i < end; ++i)
      if (tries(i)) machine.anchors[i] = Anchor::none;
  }
}

}  // namespace

Result<MachineEntry> machine_entry(std::string_view where, const machine_code::Cubin& cubin,
                                   const Entry& entry) {
  const auto found = std::find_if(cubin.entries.begin(), cubin.entries.end(),
                                  [&](const auto& one) { return one.name == entry.name; });
  if (found == cubin.entries.end())
    return Status::invalid_argument(fmt::format("{}: has no entry '{}'", where, entry.name));
  if (found->ptx_lines.empty())
    return Status::invalid_argument(fmt::format(
        "{}: entry '{}' has no lines of its PTX: compile it with line information", where, entry.name));
  for (const StatementPlace& statement : entry.statements)
    if (const std::string_view name = unmodelled(statement.text); !name.empty())
      return Status::invalid_argument(fmt::format("{}: PTX line {}: the timing model does not know {}",
                                                  entry.name, statement.ptx_line, name));
  auto code = machine_code::decode(where, *found);
  if (!code) return code.status();
  MachineEntry machine;
  machine.name = entry.name;
  machine.code = *std::move(code);
  machine.ptx_lines = found->ptx_lines;
  machine.graph = machine_code::flow_graph(machine.code, found->indirect);
  // A line may have several statements: an instruction is of the one that it realizes, or of the first.
  std::unordered_map<int, std::vector<std::uint32_t>> statements_of_line;
  for (std::uint32_t i = 0; i < entry.statements.size(); ++i)
    statements_of_line[entry.statements[i].ptx_line].push_back(i);
  for (std::size_t i = 0; i < machine.code.size(); ++i) {
    const auto found = statements_of_line.find(machine.ptx_lines[i]);
    machine.statements.push_back(found == statements_of_line.end() ? MachineEntry::kNoStatement
                                                                   : found->second.front());
    machine.anchors.push_back(Anchor::none);
    if (found == statements_of_line.end()) continue;
    for (const std::uint32_t statement : found->second) {
      const Anchor anchor = anchor_of(entry.statements[statement].text);
      if (!realizes(machine.code[i], anchor)) continue;
      machine.statements.back() = statement;
      machine.anchors.back() = anchor;
      break;
    }
  }
  settle_waits(machine);
  return machine;
}

Matcher::Matcher(const Entry& entry, const MachineEntry& machine)
    : entry_(entry),
      machine_(machine),
      anchors_(entry.statements.size(), Anchor::none),
      sites_(entry.statements.size()),
      block_of_(machine.code.size()) {
  for (std::size_t pc = 0; pc < entry.code.size(); ++pc)
    begins_statement_.push_back(pc == 0 || entry.code[pc].statement != entry.code[pc - 1].statement);
  for (std::size_t i = 0; i < machine.code.size(); ++i) {
    if (machine.statements[i] == MachineEntry::kNoStatement) continue;
    ++sites_[machine.statements[i]];
    if (machine.anchors[i] != Anchor::none) anchors_[machine.statements[i]] = machine.anchors[i];
  }
  for (std::uint32_t b = 0; b < machine.graph.blocks.size(); ++b)
    for (std::size_t i = machine.graph.blocks[b].begin; i < machine.graph.blocks[b].end; ++i)
      block_of_[i] = b;
}

Matcher::~Matcher() = default;

std::string Matcher::place(std::uint32_t statement) const {
  if (statement == kExit) return "the end";
  const StatementPlace& where = entry_.statements[statement];
  return fmt::format("PTX line {} ({}), source line {}", where.ptx_line,
                     where.text.substr(0, where.text.find(' ')), where.source_line);
}

// All ways from a place to a segment's target, block by block; of those that meet at a block the best go on.
class Matcher::Search {
 public:
  Search(const Matcher& matcher, const Segment& segment) : matcher_(matcher), segment_(segment) {}

  std::vector<Candidate> run(std::uint32_t from) {
    std::vector<Partial> front;
    front.push_back({});
    walk(std::move(front.back()), from);
    for (std::size_t blocks = 0; blocks < kMostBlocks && !next_.empty(); ++blocks) {
      std::map<std::uint32_t, std::vector<Partial>> here = std::move(next_);
      next_.clear();
      for (auto& [start, ways] : here) {
        std::stable_sort(ways.begin(), ways.end(),
                         [](const Partial& a, const Partial& b) { return a.cost < b.cost; });
        if (ways.size() > kWaysPerBlock) ways.resize(kWaysPerBlock);
        for (Partial& way : ways) walk(std::move(way), start);
      }
      // Nothing that is still on its way can become better than what has arrived.
      if (!found_.empty() && blocks > longest_) break;
    }
    return finish();
  }

 private:
  struct Partial {
    std::vector<std::uint32_t> path;
    std::unordered_map<std::uint32_t, std::uint32_t> seen;  // how often, by machine instruction
    double cost = 0;
  };

  // What it says for or against a way that it passes this instruction.
  void pass(Partial& way, std::uint32_t i) const {
    way.path.push_back(i);
    // Polls of a barrier beyond the first, behind which it was complete.
    const Instruction& instruction = matcher_.machine_.code[i];
    if (matcher_.machine_.anchors[i] == Anchor::none &&
        (instruction.is("SYNCS.PHASECHK") || instruction.is("NANOSLEEP")))
      way.cost += kPollCost;
    const std::uint32_t statement = matcher_.machine_.statements[i];
    if (statement == MachineEntry::kNoStatement) return;
    const auto executed = segment_.statements.find(statement);
    if (executed == segment_.statements.end()) {
      way.cost += segment_.near.contains(statement) ? 0 : 1;
      return;
    }
    const double sites = matcher_.sites_[statement];
    // As often as PTX did it, and each of its copies counts as its part of that.
    const std::uint32_t visits = way.seen[i]++;
    way.cost += visits < executed->second ? -1.0 / sites : 1;
  }

  // From an instruction to the end of its block.
  void walk(Partial way, std::uint32_t i) {
    const MachineEntry& machine = matcher_.machine_;
    const machine_code::Block& block = machine.graph.blocks[matcher_.block_of_[i]];
    for (; i < block.end; ++i) {
      const Instruction& instruction = machine.code[i];
      if (machine.anchors[i] != Anchor::none) {
        if (machine.statements[i] == segment_.target) {
          Partial arrived = way;
          pass(arrived, i);
          arrive(std::move(arrived), i);
        }
        if (!instruction.guarded) return;  // it would have been done
      }
      pass(way, i);
      if (instruction.is("EXIT")) {
        if (segment_.target == kExit) {
          arrive(way, i);
          if (!instruction.guarded) return;
        } else if (!instruction.guarded) {
          return;
        }
      }
      if (instruction.is("BPT")) return;
    }
    for (const std::size_t next : block.next)
      next_[static_cast<std::uint32_t>(machine.graph.blocks[next].begin)].push_back(way);
  }

  void arrive(Partial way, std::uint32_t at) {
    // The executed statements that a way goes past are against it: all ways have them in common but for what
    // they pass.
    found_.push_back({at, way.cost, std::move(way.path), false});
    longest_ = std::max<std::size_t>(longest_, 2 * segment_.statements.size() + 60);
  }

  // The best way to each place that realizes the target.
  std::vector<Candidate> finish() {
    std::stable_sort(found_.begin(), found_.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.path.size() < b.path.size();
    });
    std::vector<Candidate> best;
    for (Candidate& one : found_) {
      const auto known = std::find_if(best.begin(), best.end(),
                                      [&](const Candidate& other) { return other.end == one.end; });
      if (known != best.end())
        known->ambiguous |= one.cost < known->cost + kSameCost;
      else if (best.size() < kWaysPerAnchor)
        best.push_back(std::move(one));
    }
    return best;
  }

  const Matcher& matcher_;
  const Segment& segment_;
  std::map<std::uint32_t, std::vector<Partial>> next_;  // by the instruction they stand at
  std::vector<Candidate> found_;
  std::size_t longest_ = 0;
};

const std::vector<Matcher::Candidate>& Matcher::ways(std::uint32_t from, const Segment& segment) {
  const std::vector<std::uint64_t> key{from, segment.target, segment.hash};
  const auto found = memory_.find(key);
  if (found != memory_.end()) return found->second;
  return memory_[key] = Search(*this, segment).run(from);
}

Result<Way> Matcher::match(const RecordedWarp& warp, std::string_view who) {
  // The warp's anchors, and what it did between them.
  struct Event {
    std::uint32_t statement, at;
  };
  std::vector<Event> events;
  std::vector<std::vector<std::uint32_t>> between(1);
  for (std::uint32_t at = 0; at < warp.instructions.size(); ++at) {
    const std::uint32_t pc = warp.instructions[at];
    const std::uint32_t statement = entry_.code[pc].statement;
    between.back().push_back(statement);
    if (!begins_statement_[pc]) continue;
    const Anchor anchor = anchors_[statement];
    if (anchor == Anchor::none) {
      if (!is_indispensable(anchor_of(entry_.statements[statement].text))) continue;
      return Status::invalid_argument(
          fmt::format("{}: the machine code has no instruction of {}", who, place(statement)));
    }
    events.push_back({statement, at});
    between.emplace_back();
  }

  struct State {
    std::uint32_t at = 0;  // where it stands: the instruction behind the last anchor
    double cost = 0;
    std::int64_t before = -1;  // index into all_states
    const Candidate* way = nullptr;
  };
  std::vector<State> all_states{State{}};
  std::vector<std::int64_t> front{0};
  Way result;
  for (std::size_t s = 0; s <= events.size(); ++s) {
    Segment segment;
    segment.target = s < events.size() ? events[s].statement : kExit;
    std::uint64_t hash = 1469598103934665603u;
    const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
    for (const std::uint32_t statement : between[s]) ++segment.statements[statement], mix(statement);
    for (const std::size_t other : {s - 1, s + 1}) {
      if (other >= between.size()) continue;
      mix(0xabcdef + other - s);
      for (const std::uint32_t statement : between[other]) segment.near.insert(statement), mix(statement);
    }
    segment.hash = hash;
    std::vector<std::int64_t> next;
    for (const std::int64_t index : front) {
      const State state = all_states[static_cast<std::size_t>(index)];
      if (state.at >= machine_.code.size()) continue;
      for (const Candidate& way : ways(state.at, segment)) {
        const State reached{way.end + 1, state.cost + way.cost, index, &way};
        const auto same = std::find_if(next.begin(), next.end(), [&](std::int64_t other) {
          return all_states[static_cast<std::size_t>(other)].at == reached.at;
        });
        if (same == next.end()) {
          next.push_back(static_cast<std::int64_t>(all_states.size()));
          all_states.push_back(reached);
        } else if (reached.cost < all_states[static_cast<std::size_t>(*same)].cost) {
          *same = static_cast<std::int64_t>(all_states.size());
          all_states.push_back(reached);
        }
      }
    }
    if (next.empty()) {
      const std::uint32_t at = all_states[static_cast<std::size_t>(front.front())].at;
      return Status::invalid_argument(
          fmt::format("{}: no way through the machine code of '{}' from {:#x}, behind {}, to {}", who,
                      machine_.name, at * machine_code::kInstructionBytes,
                      s == 0 ? "the start" : place(events[s - 1].statement), place(segment.target)));
    }
    std::sort(next.begin(), next.end(), [&](std::int64_t a, std::int64_t b) {
      return all_states[static_cast<std::size_t>(a)].cost < all_states[static_cast<std::size_t>(b)].cost;
    });
    if (next.size() > kWaysPerAnchor) next.resize(kWaysPerAnchor);
    front = std::move(next);
  }

  std::vector<const Candidate*> chosen;
  for (std::int64_t index = front.front(); all_states[static_cast<std::size_t>(index)].way != nullptr;
       index = all_states[static_cast<std::size_t>(index)].before)
    chosen.push_back(all_states[static_cast<std::size_t>(index)].way);
  std::reverse(chosen.begin(), chosen.end());
  // Shared accesses in the order in which PTX did them, statement by statement.
  std::unordered_map<std::uint32_t, std::pair<std::size_t, std::vector<std::uint32_t>>> accesses;
  for (std::uint32_t at = 0; at < warp.instructions.size(); ++at) {
    const std::uint32_t statement = entry_.code[warp.instructions[at]].statement;
    if (accesses_shared(entry_.statements[statement].text)) accesses[statement].second.push_back(at);
  }
  result.segments = chosen.size();
  for (std::size_t s = 0; s < chosen.size(); ++s) {
    result.ambiguous += chosen[s]->ambiguous ? 1 : 0;
    for (const std::uint32_t instruction : chosen[s]->path) {
      Step& step = result.steps.emplace_back(instruction, Step::kNoEvent);
      const Instruction& machine = machine_.code[instruction];
      if (!realizes_access(machine)) continue;
      const auto found = accesses.find(machine_.statements[instruction]);
      if (found == accesses.end()) continue;
      auto& [next, events_of] = found->second;
      // Those of a guarded instruction may be fewer: none is older than the anchor before the last.
      const std::uint32_t oldest = s >= 2 ? events[s - 2].at : 0;
      while (next < events_of.size() && events_of[next] < oldest) ++next;
      if (next < events_of.size()) step.event = events_of[next++];
    }
    if (s < events.size()) result.steps.back().event = events[s].at;
  }
  return result;
}

}  // namespace jfa::simulator::timing
