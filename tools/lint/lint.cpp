#include "tools/lint/lint.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>

#include "machine_code/cubin.h"
#include "machine_code/instruction.h"
#include "machine_code/loops.h"

namespace jfa::lint {
namespace {

// Fewer are those of a rescaling, of an LSE or of a sum of parts, not those of a tile.
constexpr int kExponentialsOfTile = 16;
// A load that is waited for in fewer issue cycles hides nothing of its latency.
constexpr int kAtOnceCycles = 16;

int cycles_of(const Instruction& instruction) { return std::max(1, static_cast<int>(instruction.stall)); }

template <class... Names>
bool is_any(const Instruction& instruction, Names... names) {
  return (instruction.is(names) || ...);
}
bool is_compare(const Instruction& instruction) { return is_any(instruction, "ISETP", "FSETP"); }
bool is_select(const Instruction& instruction) { return is_any(instruction, "FSEL", "SEL"); }
bool is_maximum(const Instruction& instruction) { return is_any(instruction, "FMNMX", "FMNMX3"); }
bool is_product(const Instruction& instruction) {
  return instruction.opcode != nullptr && instruction.opcode->pipe == Pipe::tensor;
}

// A loop's own blocks, and their instructions one after the other.
struct Body {
  std::vector<std::size_t> blocks;
  std::vector<const Instruction*> code;
};

Body body_of(const std::vector<Instruction>& instructions, const FlowGraph& graph, const Loop& loop) {
  std::set<std::size_t> inner;
  const std::set<std::size_t> all(loop.blocks.begin(), loop.blocks.end());
  for (const Loop& other : graph.loops)
    if (&other != &loop && !other.waits && other.depth > loop.depth && all.contains(other.head))
      inner.insert(other.blocks.begin(), other.blocks.end());
  Body body;
  for (const std::size_t block : loop.blocks) {
    if (inner.contains(block)) continue;
    body.blocks.push_back(block);
    for (std::size_t i = graph.blocks[block].begin; i < graph.blocks[block].end; ++i)
      body.code.push_back(&instructions[i]);
  }
  return body;
}

void count(LoopFigures& figures, const Instruction& instruction) {
  ++figures.instructions;
  figures.issue_cycles += cycles_of(instruction);
  figures.scoreboard_waits += instruction.waits != 0;
  if (instruction.opcode == nullptr) {
    ++figures.unknown[instruction.name()];
    return;
  }
  const auto pipe = static_cast<std::size_t>(instruction.opcode->pipe);
  ++figures.by_pipe[pipe];
  figures.pipe_cycles[pipe] += instruction.opcode->cycles;
  figures.exponentials += instruction.is_exponential();
  figures.branches += is_any(instruction, "BRA", "BRX", "CALL", "RET");
  figures.to_uniform += instruction.is("R2UR");
  figures.packed += is_any(instruction, "FFMA2", "FADD2", "FMUL2");
  figures.unpacked += is_any(instruction, "FFMA", "FADD", "FMUL");
  figures.compares += is_compare(instruction);
  figures.selects += is_select(instruction);
  figures.tensor_loads += instruction.is("LDTM");
  figures.tensor_stores += instruction.is("STTM");
}

Role role_of(const LoopFigures& figures, const Body& body) {
  const auto has = [&](auto... names) {
    return std::any_of(body.code.begin(), body.code.end(),
                       [&](const Instruction* instruction) { return is_any(*instruction, names...); });
  };
  if (figures.exponentials >= kExponentialsOfTile) return Role::attend;
  if (figures.by_pipe[static_cast<std::size_t>(Pipe::tensor)] > 0) return Role::multiply;
  if (figures.tensor_loads + figures.tensor_stores > 0) return Role::unload;
  if (has("UTMALDG", "UBLKCP")) return Role::load;
  if (has("UTMASTG", "UTMAREDG", "UBLKRED")) return Role::store;
  if (has("LDG", "STG", "LD", "ST", "ATOMG", "REDG", "LDGSTS")) return Role::memory;
  return Role::other;
}

// Loads of tensor memory are waited for through the scoreboards that they release. The body is passed twice,
// as what is loaded at its end may be waited for at its beginning, and counted the second time.
int lone_tensor_loads(const Body& body) {
  struct Load {
    unsigned scoreboard;
    int issued;
  };
  std::vector<Load> in_flight;
  int cycles = 0;
  int lone = 0;
  for (const bool counted : {false, true}) {
    for (const Instruction* instruction : body.code) {
      const auto waited = [&](const Load& load) { return (instruction->waits >> load.scoreboard & 1) != 0; };
      if (counted && in_flight.size() == 1 && waited(in_flight[0]) &&
          cycles - in_flight[0].issued < kAtOnceCycles)
        ++lone;
      std::erase_if(in_flight, waited);
      if (instruction->is("LDTM") && instruction->write_scoreboard != kNoScoreboard)
        in_flight.push_back({instruction->write_scoreboard, cycles});
      cycles += cycles_of(*instruction);
    }
  }
  return lone;
}

std::vector<ProductWait> product_waits(const Body& body) {
  std::vector<ProductWait> waits;
  std::optional<ProductWait> since;  // the latest group
  for (const bool counted : {false, true}) {
    for (std::size_t i = 0; i < body.code.size(); ++i) {
      const Instruction& instruction = *body.code[i];
      if (since) {
        since->cycles_behind += cycles_of(*body.code[(i + body.code.size() - 1) % body.code.size()]);
        since->exponentials_between += instruction.is_exponential();
      }
      if (instruction.commits_products()) since = ProductWait{};
      const std::optional<unsigned> left = instruction.product_groups_left();
      if (!since || !left) continue;
      ProductWait wait = *since;
      ++since->earlier_waits;
      if (!counted) continue;
      wait.groups_left = *left;
      for (std::size_t k = 1; k < body.code.size(); ++k) {
        const Instruction& later = *body.code[(i + k) % body.code.size()];
        if (is_product(later)) break;
        wait.exponentials_behind += later.is_exponential();
      }
      waits.push_back(wait);
    }
  }
  return waits;
}

// The way through the body from its head back to it that has the most exponentials, then the fewest compares
// and selects.
void count_unmasked(LoopFigures& figures, const std::vector<Instruction>& instructions,
                    const FlowGraph& graph, const Loop& loop, const Body& body) {
  struct Way {
    int work_left_out = std::numeric_limits<int>::max();
    int compares_and_selects = 0, compares = 0;
    auto operator<=>(const Way&) const = default;
  };
  const std::set<std::size_t> own(body.blocks.begin(), body.blocks.end());
  std::map<std::size_t, Way> best;  // to a block's beginning
  std::map<std::size_t, std::size_t> place;
  for (std::size_t i = 0; i < loop.blocks.size(); ++i) place[loop.blocks[i]] = i;
  best[loop.head] = {0, 0, 0};
  Way back;
  for (const std::size_t block : loop.blocks) {  // behind those that lead to it
    const auto found = best.find(block);
    if (found == best.end()) continue;
    Way way = found->second;
    if (own.contains(block)) {
      for (std::size_t i = graph.blocks[block].begin; i < graph.blocks[block].end; ++i) {
        way.work_left_out -= instructions[i].is_exponential() || is_maximum(instructions[i]);
        way.compares += is_compare(instructions[i]);
        way.compares_and_selects += is_compare(instructions[i]) || is_select(instructions[i]);
      }
    }
    for (const std::size_t next : graph.blocks[block].next) {
      if (next == loop.head) {
        back = std::min(back, way);
      } else if (const auto to = place.find(next); to != place.end() && to->second > place[block]) {
        const auto [old, first] = best.try_emplace(next, way);
        if (!first) old->second = std::min(old->second, way);
      }
    }
  }
  figures.unmasked_compares = back.compares;
  figures.unmasked_selects = back.compares_and_selects - back.compares;
}

LoopFigures figures_of(const std::vector<Instruction>& instructions, const FlowGraph& graph,
                       const Loop& loop) {
  LoopFigures figures;
  const Body body = body_of(instructions, graph, loop);
  for (const Instruction* instruction : body.code) count(figures, *instruction);
  figures.role = role_of(figures, body);
  figures.innermost = loop.innermost;
  figures.address = instructions[graph.blocks[loop.head].begin].address;
  figures.depth = loop.depth;
  figures.lone_tensor_loads = lone_tensor_loads(body);
  figures.product_waits = product_waits(body);
  count_unmasked(figures, instructions, graph, loop, body);
  return figures;
}

EntryFigures figures_of(std::string_view name, const std::vector<Instruction>& instructions,
                        const IndirectTargets& indirect) {
  EntryFigures figures;
  figures.name = name;
  const FlowGraph graph = flow_graph(instructions, indirect);
  figures.instructions = static_cast<int>(instructions.size());
  figures.not_reached = figures.instructions;
  for (const std::size_t block : graph.order)
    figures.not_reached -= static_cast<int>(graph.blocks[block].end - graph.blocks[block].begin);
  figures.irreducible_loops = graph.irreducible;
  for (const Instruction& instruction : instructions)
    if (instruction.opcode == nullptr) ++figures.unknown[instruction.name()];
  for (const Loop& loop : graph.loops) {
    if (loop.waits)
      ++figures.waiting_loops;
    else
      figures.loops.push_back(figures_of(instructions, graph, loop));
  }
  return figures;
}

}  // namespace

std::string_view to_string(Role role) {
  static constexpr std::array<std::string_view, 7> kNames{"attend", "multiply", "unload", "load",
                                                          "store",  "memory",   "other"};
  return kNames[static_cast<std::size_t>(role)];
}

Result<Figures> lint(std::string_view where, std::string_view cubin) {
  const Result<Cubin> read = read_cubin(where, cubin);
  if (!read) return read.status();
  Figures figures;
  figures.compute_capability = read->compute_capability;
  for (const CubinEntry& entry : read->entries) {
    const Result<std::vector<Instruction>> instructions = decode(where, entry);
    if (!instructions) return instructions.status();
    figures.entries.push_back(figures_of(entry.name, *instructions, entry.indirect));
  }
  return figures;
}

}  // namespace jfa::lint
