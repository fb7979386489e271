#include "simulator/checkers/wgmma_registers.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa::simulator {

const WgmmaRegisters::Product& WgmmaRegisters::find(std::uint64_t sequence) const {
  return *std::find_if(products_.begin(), products_.end(),
                       [&](const Product& p) { return p.sequence == sequence; });
}

void WgmmaRegisters::refuse_owned(std::uint16_t index, const char* what, const ProgramPoint& point) const {
  const State& state = states_[index];
  const bool accumulator = state.accumulator_of != 0;
  const Product& owner = find(accumulator ? state.accumulator_of : state.operand_of);
  fail(ErrorKind::kInFlight, point,
       fmt::format("{} register {}, {} of a wgmma that this warp has not waited for", what,
                   watch_.names[index], accumulator ? "part of the accumulator" : "part of the A operand"),
       fmt::format("it belongs to {}", owner.point.describe()));
}

void WgmmaRegisters::refuse_unfenced(std::uint16_t index, const char* role, const char* why,
                                     const ProgramPoint& point) const {
  fail(ErrorKind::kMissingFence, point,
       fmt::format("register {} of the {} {}, and no wgmma.fence has followed", watch_.names[index], role,
                   why));
}

void WgmmaRegisters::access(const Indices& registers, const ProgramPoint& point) {
  for (const std::uint16_t index : registers) {
    State& state = states_[index];
    if ((state.accumulator_of | state.operand_of) != 0) refuse_owned(index, "the instruction uses", point);
    state.accessed = epoch_;
  }
}

void WgmmaRegisters::take(const Product& product) {
  const ProgramPoint& point = product.point;
  constexpr const char* kAccessed = "has been used by another instruction (or never fenced)";
  for (const std::uint16_t index : *product.accumulator) {
    const State& state = states_[index];
    if (state.accessed == epoch_) refuse_unfenced(index, "accumulator", kAccessed, point);
    if (state.operand_of != 0) refuse_owned(index, "the accumulator takes", point);
    if (state.accumulator_of != 0) {
      const Product& owner = find(state.accumulator_of);
      if (owner.shape != product.shape || *owner.accumulator != *product.accumulator)
        refuse_owned(index, "another accumulator takes", point);
    } else if (state.shaped == epoch_ && state.shape != product.shape) {
      refuse_unfenced(index, "accumulator", "was accumulated in another shape", point);
    }
  }
  for (const std::uint16_t index : *product.a) {
    const State& state = states_[index];
    if (state.accumulator_of != 0) refuse_owned(index, "the A operand takes", point);
    if (state.accessed == epoch_) refuse_unfenced(index, "A operand", kAccessed, point);
    if (state.shaped == epoch_) refuse_unfenced(index, "A operand", "was an accumulator", point);
  }
  for (const std::uint16_t index : *product.a) states_[index].operand_of = product.sequence;
  for (const std::uint16_t index : *product.accumulator) {
    State& state = states_[index];
    state.accumulator_of = product.sequence;
    state.shaped = epoch_;
    state.shape = product.shape;
  }
  products_.push_back(product);
}

void WgmmaRegisters::release(std::uint64_t sequence) {
  for (const Product& product : products_) {
    if (product.sequence > sequence) continue;
    for (const std::uint16_t index : *product.accumulator) {
      std::uint64_t& owner = states_[index].accumulator_of;
      if (owner <= sequence) owner = 0;
    }
    for (const std::uint16_t index : *product.a) {
      std::uint64_t& reader = states_[index].operand_of;
      if (reader <= sequence) reader = 0;
    }
  }
  std::erase_if(products_, [&](const Product& product) { return product.sequence <= sequence; });
}

}  // namespace jfa::simulator
