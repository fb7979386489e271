#include "simulator/tensor_core/tensor_copy.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "simulator/machine/async_operation.h"
#include "simulator/tensor_core/element_container.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/shared_operand.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

constexpr const char* kCopyName = "tcgen05.cp";

class TensorCopy : public AsyncOperation {
 public:
  TensorCopy(const ProgramPoint& issue, std::uint64_t queue, const TensorCopyShape& shape, TensorAddress to,
             const SharedOperand& source, std::vector<Cta*> ctas, std::shared_ptr<TensorTicket> ticket,
             TensorTickets predecessors)
      : AsyncOperation(issue, queue),
        shape_(shape),
        to_(to),
        source_(source),
        ctas_(std::move(ctas)),
        ticket_(std::move(ticket)),
        predecessors_(std::move(predecessors)) {}

  bool ready() const override { return all_done(predecessors_); }

  bool advance(Machine&) override {
    std::vector<std::uint16_t> words(shape_.rows * kMmaStepBytes / 2);
    for (Cta* cta : ctas_) {
      source_.read(*cta, words.data());
      to_containers(shape_.source_bits, std::as_writable_bytes(std::span(words)));
      TensorMemory& memory = cta->extension<CtaTensorMemory>().memory();
      for (std::uint32_t row = 0; row < shape_.rows; ++row)
        for (std::uint32_t replica = 0; replica < shape_.replicas; ++replica) {
          const std::uint32_t quarter =
              row / shape_.group_rows * shape_.group_step + replica * shape_.replica_step;
          const std::uint32_t lane = to_.lane + quarter * kQuarterLanes + row % shape_.group_rows;
          std::memcpy(memory.lane(lane) + to_.column, &words[row * kMmaStepBytes / 2], shape_.row_bytes);
        }
    }
    ticket_->done = true;
    return true;
  }
  std::string describe() const override {
    return fmt::format("{} of {} rows of {} bytes to tensor memory {:#010x}", kCopyName, shape_.rows,
                       shape_.row_bytes, to_.bits());
  }

 private:
  TensorCopyShape shape_;
  TensorAddress to_;
  SharedOperand source_;
  std::vector<Cta*> ctas_;  // each copies from its own shared to its own tensor memory
  std::shared_ptr<TensorTicket> ticket_;
  TensorTickets predecessors_;
};

// What a copy writes.
TensorRegion region_of(const TensorCopyShape& shape, TensorAddress to) {
  const std::uint32_t blocks = shape.is_refresh() ? 0b01010101u << to.lane / kTensorBlockLanes : 0xff;
  return {blocks, to.column, to.column + shape.columns()};
}

// What it will write counts as initialised: nobody can look before it is.
void set_initialised(TensorMemory& memory, const TensorCopyShape& shape, const TensorRegion& region,
                     TensorAddress to) {
  if (!shape.is_refresh()) return memory.set_initialised(region);
  for (std::uint32_t lane = to.lane; lane < kTensorLanes; lane += kQuarterLanes)
    for (std::uint32_t column = region.first_column; column < region.end_column; ++column)
      memory.set_initialised(lane / kTensorBlockLanes, column, 1u << lane % kTensorBlockLanes);
}

}  // namespace

void issue_tensor_copy(Warp& warp, const TensorCopyShape& shape, int cta_group, std::uint32_t address,
                       std::uint64_t descriptor_bits, const ProgramPoint& point) {
  Cta& cta = warp.cta();
  auto& own = cta.extension<CtaTensorMemory>();
  std::vector<Cta*> ctas = ctas_of_group(cta, cta_group, point);
  const Result<MatrixDescriptor> descriptor = decode_matrix_descriptor(descriptor_bits);
  if (!descriptor.ok()) fail(ErrorKind::kDescriptor, point, descriptor.status().message());
  if (descriptor->swizzle_atom_bytes != 16)
    fail(ErrorKind::kDescriptor, point,
         "the source of tcgen05.cp: swizzle 1 (32-byte atoms) is not simulated");
  SharedOperand source{*descriptor, MatrixMajor::kK, shape.rows, 1};
  source.row_bytes = shape.row_bytes;
  source.packed_bits = shape.source_bits;
  const TensorAddress to(address);
  if (to.lane >= (shape.is_refresh() ? kQuarterLanes : 1))
    fail_at(
        ErrorKind::kTensorMemory, point, address,
        fmt::format("{} to lane {} of tensor memory: it must be {}", kCopyName, to.lane,
                    shape.is_refresh() ? "one of the first 32: its rows go to that of every quarter" : "0"));
  const TensorRegion region = region_of(shape, to);

  auto ticket = std::make_shared<TensorTicket>();
  ticket->operation = shape.is_refresh() ? TensorOperation::kRefresh : TensorOperation::kCopy;
  const TensorStrand& strand = own.warp(warp.index()).strand;
  for (Cta* target : ctas) {
    auto& state = target->extension<CtaTensorMemory>();
    source.begin(*target, 0, shape.rows, "the source of tcgen05.cp", point, ticket->flights);
    state.begin_write(*ticket, region, kCopyName, strand,
                      shape.is_refresh() ? kTensorRefreshOrder : kTensorCopyOrder, point);
    set_initialised(state.memory(), shape, region, to);
  }
  TensorTickets predecessors = own.issue(warp.thread(point.lane), ticket);
  // Copies of one CTA run in the order of issue.
  cta.machine().post(std::make_unique<TensorCopy>(point, own.copy_queue(), shape, to, source, std::move(ctas),
                                                  std::move(ticket), std::move(predecessors)));
}

}  // namespace jfa::simulator
