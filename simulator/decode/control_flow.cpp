// Where divergent paths meet again: immediate post-dominators, after Cooper, Harvey and Kennedy's simple
// algorithm on the reversed graph, over basic blocks, with one virtual exit.
#include <algorithm>
#include <map>

#include "simulator/decode/decode.h"

namespace jfa::simulator {
namespace {

struct Block {
  std::uint32_t first = 0, last = 0;  // instructions
  std::vector<int> successors;
  std::vector<int> predecessors;
};

std::vector<Block> find_blocks(const std::vector<Instruction>& code) {
  const auto size = static_cast<std::uint32_t>(code.size());
  std::vector<bool> leader(size + 1, false);
  leader[0] = true;
  for (std::uint32_t pc = 0; pc < size; ++pc) {
    if (code[pc].flow == Flow::kNext) continue;
    leader[pc + 1] = true;
    if (code[pc].flow == Flow::kBranch) leader[code[pc].target] = true;
  }
  std::vector<Block> blocks;
  std::vector<int> block_of(size + 1, -1);
  for (std::uint32_t pc = 0; pc < size; ++pc) {
    if (leader[pc]) blocks.push_back({pc, pc, {}, {}});
    blocks.back().last = pc;
    block_of[pc] = static_cast<int>(blocks.size()) - 1;
  }
  const int exit = static_cast<int>(blocks.size());
  block_of[size] = exit;
  blocks.emplace_back();  // the virtual exit
  for (int b = 0; b < exit; ++b) {
    const Instruction& last = code[blocks[static_cast<std::size_t>(b)].last];
    std::vector<int> successors;
    if (last.flow == Flow::kExit) successors.push_back(exit);
    if (last.flow == Flow::kBranch) successors.push_back(block_of[last.target]);
    const bool falls_through = last.flow == Flow::kNext || last.guard != kNoSlot;
    if (falls_through) successors.push_back(block_of[blocks[static_cast<std::size_t>(b)].last + 1]);
    for (const int s : successors) blocks[static_cast<std::size_t>(s)].predecessors.push_back(b);
    blocks[static_cast<std::size_t>(b)].successors = std::move(successors);
  }
  return blocks;
}

// Order in which the reversed graph is finished from the exit; -1 for blocks that never reach it.
std::vector<int> postorder_from_exit(const std::vector<Block>& blocks, std::vector<int>& order) {
  std::vector<int> number(blocks.size(), -1);
  std::vector<bool> seen(blocks.size(), false);
  std::vector<std::pair<int, std::size_t>> stack = {{static_cast<int>(blocks.size()) - 1, 0}};
  seen.back() = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    const auto& predecessors = blocks[static_cast<std::size_t>(block)].predecessors;
    if (next == predecessors.size()) {
      number[static_cast<std::size_t>(block)] = static_cast<int>(order.size());
      order.push_back(block);
      stack.pop_back();
    } else if (const int p = predecessors[next++]; !seen[static_cast<std::size_t>(p)]) {
      seen[static_cast<std::size_t>(p)] = true;
      stack.emplace_back(p, 0);
    }
  }
  return number;
}

}  // namespace

void compute_reconvergence(std::vector<Instruction>& code) {
  if (code.empty()) return;
  const std::vector<Block> blocks = find_blocks(code);
  std::vector<int> order;
  const std::vector<int> number = postorder_from_exit(blocks, order);
  const int exit = static_cast<int>(blocks.size()) - 1;
  std::vector<int> dominator(blocks.size(), -1);
  dominator[static_cast<std::size_t>(exit)] = exit;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (number[static_cast<std::size_t>(a)] < number[static_cast<std::size_t>(b)])
        a = dominator[static_cast<std::size_t>(a)];
      while (number[static_cast<std::size_t>(b)] < number[static_cast<std::size_t>(a)])
        b = dominator[static_cast<std::size_t>(b)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (*it == exit) continue;
      int best = -1;
      for (const int s : blocks[static_cast<std::size_t>(*it)].successors)
        if (dominator[static_cast<std::size_t>(s)] >= 0) best = best < 0 ? s : meet(best, s);
      if (best != dominator[static_cast<std::size_t>(*it)]) {
        dominator[static_cast<std::size_t>(*it)] = best;
        changed = true;
      }
    }
  }
  for (int b = 0; b < exit; ++b) {
    Instruction& last = code[blocks[static_cast<std::size_t>(b)].last];
    const int d = dominator[static_cast<std::size_t>(b)];
    if (last.flow == Flow::kBranch && d >= 0 && d != exit)
      last.reconvergence = blocks[static_cast<std::size_t>(d)].first;
  }
}

}  // namespace jfa::simulator
