#include "machine_code/loops.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace jfa::machine_code {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
// A wait: an mbarrier's try_wait, a branch back, and the arithmetic of an address between them.
constexpr std::size_t kMaxWaitInstructions = 16;

std::vector<std::size_t> successors(const Instruction& last, std::size_t following,
                                    const IndirectTargets& indirect) {
  const auto index_of = [](std::uint32_t address) { return address / kInstructionBytes; };
  switch (last.flow) {
    case Flow::next:
      return {following};
    case Flow::branch:
      return {index_of(last.target)};
    case Flow::conditional:
      return {following, index_of(last.target)};
    case Flow::indirect: {
      std::vector<std::size_t> targets;
      for (const std::uint32_t target : indirect.at(last.address)) targets.push_back(index_of(target));
      return targets;
    }
    case Flow::end:
      break;
  }
  return {};
}

std::vector<Block> blocks_of(const std::vector<Instruction>& instructions, const IndirectTargets& indirect) {
  std::set<std::size_t> begins{0};
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].flow == Flow::next) continue;
    begins.insert(i + 1);
    for (const std::size_t target : successors(instructions[i], i + 1, indirect)) begins.insert(target);
  }
  begins.insert(instructions.size());

  std::vector<Block> blocks;
  std::map<std::size_t, std::size_t> block_at;
  for (auto begin = begins.begin(); std::next(begin) != begins.end(); ++begin) {
    block_at[*begin] = blocks.size();
    blocks.push_back({*begin, *std::next(begin), {}});
  }
  for (Block& block : blocks) {
    for (const std::size_t target : successors(instructions[block.end - 1], block.end, indirect))
      if (const auto found = block_at.find(target); found != block_at.end())
        block.next.push_back(found->second);
  }
  return blocks;
}

// Reverse postorder. A block's last successor is visited first, so its first one comes right behind it.
std::vector<std::size_t> order_of(const std::vector<Block>& blocks) {
  std::vector<std::size_t> order;
  std::vector<bool> seen(blocks.size());
  std::vector<std::pair<std::size_t, std::size_t>> path;  // block, successors left to visit
  const auto visit = [&](std::size_t block) {
    seen[block] = true;
    path.emplace_back(block, blocks[block].next.size());
  };
  if (!blocks.empty()) visit(0);
  while (!path.empty()) {
    auto& [block, left] = path.back();
    if (left == 0) {
      order.push_back(block);
      path.pop_back();
    } else if (const std::size_t next = blocks[block].next[--left]; !seen[next]) {
      visit(next);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// Every block's place in the order; kNone of what is not reached.
std::vector<std::size_t> places_of(const FlowGraph& graph) {
  std::vector<std::size_t> places(graph.blocks.size(), kNone);
  for (std::size_t i = 0; i < graph.order.size(); ++i) places[graph.order[i]] = i;
  return places;
}

using Edges = std::vector<std::vector<std::size_t>>;

// By place: the nearest block that every way from the entry passes (Cooper, Harvey and Kennedy).
std::vector<std::size_t> dominators(const Edges& previous) {
  std::vector<std::size_t> nearest(previous.size(), kNone);
  if (!nearest.empty()) nearest[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t at = 1; at < previous.size(); ++at) {
      std::size_t common = kNone;
      for (std::size_t other : previous[at]) {
        if (nearest[other] == kNone) continue;
        if (common == kNone) common = other;
        while (common != other) (common > other ? common : other) = nearest[std::max(common, other)];
      }
      changed |= nearest[at] != common;
      nearest[at] = common;
    }
  }
  return nearest;
}

bool dominates(const std::vector<std::size_t>& nearest, std::size_t head, std::size_t place) {
  while (place > head) place = nearest[place];
  return place == head;
}

// Places of the blocks from which `tails` are reached without passing the head.
std::set<std::size_t> body_of(const Edges& previous, std::size_t head,
                              const std::vector<std::size_t>& tails) {
  std::set<std::size_t> body{head};
  std::vector<std::size_t> left = tails;
  while (!left.empty()) {
    const std::size_t place = left.back();
    left.pop_back();
    if (body.insert(place).second) left.insert(left.end(), previous[place].begin(), previous[place].end());
  }
  return body;
}

// Whether the loop polls a barrier, and works on nothing.
bool is_wait(const std::vector<Instruction>& instructions, const FlowGraph& graph, const Loop& loop) {
  std::size_t count = 0;
  bool polls = false;
  for (const std::size_t block : loop.blocks) {
    for (std::size_t i = graph.blocks[block].begin; i < graph.blocks[block].end; ++i, ++count) {
      const Instruction& instruction = instructions[i];
      polls |= instruction.is("SYNCS.PHASECHK") || instruction.is("NANOSLEEP");
      const Pipe pipe = instruction.opcode != nullptr ? instruction.opcode->pipe : Pipe::other;
      if (pipe == Pipe::tensor || pipe == Pipe::tensor_memory || pipe == Pipe::bulk || pipe == Pipe::xu ||
          pipe == Pipe::lsu)
        return false;
    }
  }
  return polls && count <= kMaxWaitInstructions;
}

}  // namespace

FlowGraph flow_graph(const std::vector<Instruction>& instructions, const IndirectTargets& indirect) {
  FlowGraph graph;
  if (instructions.empty()) return graph;
  graph.blocks = blocks_of(instructions, indirect);
  graph.order = order_of(graph.blocks);
  const std::vector<std::size_t> places = places_of(graph);
  Edges previous(graph.order.size());
  for (std::size_t at = 0; at < graph.order.size(); ++at)
    for (const std::size_t next : graph.blocks[graph.order[at]].next) previous[places[next]].push_back(at);

  const std::vector<std::size_t> nearest = dominators(previous);
  std::vector<std::set<std::size_t>> bodies;  // of the loops, by place
  for (std::size_t head = 0; head < previous.size(); ++head) {
    std::vector<std::size_t> tails;
    for (const std::size_t tail : previous[head]) {
      if (tail < head) continue;
      if (dominates(nearest, head, tail))
        tails.push_back(tail);
      else
        ++graph.irreducible;
    }
    if (tails.empty()) continue;
    Loop loop;
    loop.head = graph.order[head];
    bodies.push_back(body_of(previous, head, tails));
    for (const std::size_t place : bodies.back()) loop.blocks.push_back(graph.order[place]);
    graph.loops.push_back(std::move(loop));
  }
  // A loop's head lies behind those of the loops around it.
  for (std::size_t inner = graph.loops.size(); inner-- > 0;) {
    Loop& loop = graph.loops[inner];
    loop.waits = loop.innermost && is_wait(instructions, graph, loop);
    for (std::size_t outer = 0; outer < inner; ++outer) {
      if (!bodies[outer].contains(places[loop.head])) continue;
      ++loop.depth;
      if (!loop.waits) graph.loops[outer].innermost = false;
    }
  }
  return graph;
}

}  // namespace jfa::machine_code
