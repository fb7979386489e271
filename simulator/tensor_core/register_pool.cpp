#include "simulator/tensor_core/register_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kRegistersPerSm = 65536;
constexpr std::uint32_t kMostRegisters = 255;  // that a thread can name
constexpr std::uint32_t kAllocationUnit = 8;   // a thread
constexpr std::size_t kSequenceWarps = 4;      // a warpgroup

std::uint32_t round_up(std::uint32_t registers) {
  return (registers + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
}

// Whether a setmaxnreg that gives registers back can be reached from a pc. immediate: the count.
bool reaches_decrease(const Entry& entry, std::uint32_t from) {
  std::vector<bool> seen(entry.code.size());
  std::vector<std::uint32_t> open{from};
  while (!open.empty()) {
    const std::uint32_t pc = open.back();
    open.pop_back();
    if (pc >= entry.code.size() || seen[pc]) continue;
    seen[pc] = true;
    const Instruction& instruction = entry.code[pc];
    if (entry.statements[instruction.statement].text.find("setmaxnreg.dec") != std::string::npos) return true;
    const bool guarded = instruction.guard != kNoSlot;
    if (instruction.flow == Flow::kBranch) open.push_back(instruction.target);
    if (instruction.flow == Flow::kNext || guarded) open.push_back(pc + 1);
  }
  return false;
}

}  // namespace

std::uint32_t registers_at_entry(const Entry& entry) {
  if (entry.max_registers != 0) return round_up(entry.max_registers);
  if (entry.min_ctas_per_sm == 0) return 0;  // PTX has it only together with .maxntid
  const std::uint32_t share =
      kRegistersPerSm / (entry.max_threads * entry.min_ctas_per_sm) / kAllocationUnit * kAllocationUnit;
  return round_up(std::min(share, kMostRegisters));
}

class RegisterPool::PoolWait : public Wait {
 public:
  PoolWait(const RegisterPool& pool, const Warp& warp, const Instruction& instruction)
      : pool_(pool), warp_(warp), instruction_(instruction) {}
  bool ready() const override {
    if (pool_.missing(pool_.warps_[static_cast<std::size_t>(warp_.index())]) <= pool_.free_) return true;
    // Others may poll for what this warp was to do, so that nobody would notice for long.
    constexpr int kPatience = 1024;
    if (++polls_ % kPatience == 0 && !pool_.may_grow())
      fail(ErrorKind::kDeadlock, warp_.point(instruction_),
           "deadlock: setmaxnreg.inc waits for registers that no warp will give back", describe());
    return false;
  }
  std::string describe() const override { return pool_.describe(warp_); }

 private:
  const RegisterPool& pool_;
  const Warp& warp_;
  const Instruction& instruction_;
  mutable int polls_ = 0;
};

RegisterPool::RegisterPool(Cta& cta) : cta_(cta), at_entry_(registers_at_entry(cta.machine().entry())) {
  warps_.resize(cta.warps().size(), {at_entry_});
  executed_.resize((warps_.size() + kSequenceWarps - 1) / kSequenceWarps);
}

void RegisterPool::check_collective(Warp& warp, const Instruction& instruction) {
  auto& sequence = executed_[static_cast<std::size_t>(warp.index()) / kSequenceWarps];
  const std::size_t position = state(warp).executed++;
  if (position == sequence.size()) sequence.push_back(&instruction);
  // Copies of one setmaxnreg in the code of different warps are the same to the device: Triton makes them.
  if (!cta_.machine().checks()) return;
  if (sequence[position]->handler != instruction.handler ||
      sequence[position]->immediate != instruction.immediate)
    fail(ErrorKind::kDivergence, warp.point(instruction),
         "the warps of a warpgroup must execute the same setmaxnreg",
         fmt::format("another warp executed {}", warp.point(*sequence[position]).describe()));
}

std::uint32_t RegisterPool::missing(const WarpState& warp) const {
  return (warp.wanted - warp.registers) * kWarpSize;
}

Step RegisterPool::set(Warp& warp, const Instruction& instruction, bool increase, std::uint32_t count) {
  WarpState& own = state(warp);
  if (own.wanted == 0) check_collective(warp, instruction);
  if (at_entry_ == 0) return Step::kNext;
  if (increase ? count < own.registers : count > own.registers)
    fail(ErrorKind::kInvalidOperand, warp.point(instruction),
         fmt::format("setmaxnreg.{} to {} registers: the warp has {}", increase ? "inc" : "dec", count,
                     own.registers));
  if (!increase) {
    free_ += (own.registers - count) * kWarpSize;
    own.registers = count;
    return Step::kNext;
  }
  own.wanted = count;
  const std::uint32_t needed = missing(own);
  if (needed > free_)
    return warp.wait_for(std::make_unique<PoolWait>(*this, warp, instruction), Resume::kRetry);
  free_ -= needed;
  own.registers = count;
  own.wanted = 0;
  return Step::kNext;
}

bool RegisterPool::may_grow() const {
  for (const auto& warp : cta_.warps()) {
    const WarpState& other = warps_[static_cast<std::size_t>(warp->index())];
    if (other.wanted != 0 && missing(other) > free_) continue;
    for (const Split& split : warp->splits)
      if (reaches_decrease(cta_.machine().entry(), split.pc)) return true;
  }
  return false;
}

std::string RegisterPool::describe(const Warp& warp) const {
  const WarpState& own = warps_[static_cast<std::size_t>(warp.index())];
  return fmt::format(
      "{} registers to go from {} to {} a thread; the pool has {}. The CTA started with {} registers: {} "
      "threads of {}",
      missing(own), own.registers, own.wanted, free_, warps_.size() * kWarpSize * at_entry_,
      warps_.size() * kWarpSize, at_entry_);
}

void RegisterPool::on_exit() {
  if (!cta_.machine().checks()) return;
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    const auto& sequence = executed_[i / kSequenceWarps];
    if (warps_[i].executed == sequence.size()) continue;
    fail(ErrorKind::kDivergence, cta_.warp(static_cast<int>(i)).point(*sequence[warps_[i].executed]),
         fmt::format("the CTA has exited, and warp {} of the warpgroup never executed this setmaxnreg", i));
  }
}

}  // namespace jfa::simulator
