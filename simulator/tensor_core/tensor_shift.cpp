#include "simulator/tensor_core/tensor_shift.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/machine/async_operation.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

constexpr const char* kShiftName = "tcgen05.shift";
constexpr std::uint32_t kShiftLanes = 32, kShiftColumns = 8;

class TensorShift : public AsyncOperation {
 public:
  TensorShift(const ProgramPoint& issue, TensorAddress at, std::vector<Cta*> ctas,
              std::shared_ptr<TensorTicket> ticket, TensorTickets predecessors)
      : AsyncOperation(issue),
        at_(at),
        ctas_(std::move(ctas)),
        ticket_(std::move(ticket)),
        predecessors_(std::move(predecessors)) {}

  bool ready() const override { return all_done(predecessors_); }

  bool advance(Machine&) override {
    for (Cta* cta : ctas_) {
      TensorMemory& memory = cta->extension<CtaTensorMemory>().memory();
      for (std::uint32_t lane = at_.lane; lane + 1 < at_.lane + kShiftLanes; ++lane)
        std::copy_n(memory.lane(lane + 1) + at_.column, kShiftColumns, memory.lane(lane) + at_.column);
    }
    ticket_->done = true;
    return true;
  }
  std::string describe() const override {
    return fmt::format("{} of the rows at tensor memory {:#010x}", kShiftName, at_.bits());
  }

 private:
  TensorAddress at_;
  std::vector<Cta*> ctas_;  // each shifts its own tensor memory
  std::shared_ptr<TensorTicket> ticket_;
  TensorTickets predecessors_;
};

}  // namespace

void issue_tensor_shift(Warp& warp, int cta_group, std::uint32_t address, const ProgramPoint& point) {
  Cta& cta = warp.cta();
  auto& own = cta.extension<CtaTensorMemory>();
  std::vector<Cta*> ctas = ctas_of_group(cta, cta_group, point);
  const TensorAddress at(address);
  if (at.lane % kShiftLanes != 0 || at.lane >= kTensorLanes)
    fail_at(ErrorKind::kTensorMemory, point, address,
            fmt::format("{} of lane {} of tensor memory: it must be 0, 32, 64 or 96", kShiftName, at.lane));
  const TensorRegion region{0b11u << at.lane / kTensorBlockLanes, at.column, at.column + kShiftColumns};

  auto ticket = std::make_shared<TensorTicket>();
  ticket->operation = TensorOperation::kShift;
  for (Cta* target : ctas) {
    auto& state = target->extension<CtaTensorMemory>();
    // It reads what it writes: who may write may read, too.
    state.begin_write(*ticket, region, kShiftName, own.warp(warp.index()).strand, kTensorShiftOrder, point);
    for (std::uint32_t column = region.first_column; column < region.end_column; ++column)
      state.memory().shift_initialised(at.lane / kTensorBlockLanes, column);
  }
  TensorTickets predecessors = own.issue(warp.thread(point.lane), ticket);
  cta.machine().post(
      std::make_unique<TensorShift>(point, at, std::move(ctas), std::move(ticket), std::move(predecessors)));
}

}  // namespace jfa::simulator
