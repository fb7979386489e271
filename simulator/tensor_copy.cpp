#include "simulator/tensor_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "simulator/async_operation.h"
#include "simulator/matrix_descriptor.h"
#include "simulator/shared_operand.h"
#include "simulator/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

constexpr const char* kWhat = "tcgen05.cp";
constexpr std::uint32_t kGroupLanes = 32;

class TensorCopy : public AsyncOperation {
 public:
  TensorCopy(const ProgramPoint& issue, std::uint64_t queue, const TensorCopyShape& shape, TensorAddress to,
             const SharedOperand& source, std::vector<Cta*> ctas, std::shared_ptr<TensorTicket> ticket,
             std::vector<std::shared_ptr<TensorTicket>> products)
      : AsyncOperation(issue, queue),
        shape_(shape),
        to_(to),
        source_(source),
        ctas_(std::move(ctas)),
        ticket_(std::move(ticket)),
        products_(std::move(products)) {}

  bool ready() const override {
    return std::all_of(products_.begin(), products_.end(), [](const auto& product) { return product->done; });
  }

  bool advance(Machine&) override {
    std::vector<std::uint16_t> words(shape_.rows * kMmaStepBytes / 2);
    for (Cta* cta : ctas_) {
      source_.read(*cta, words.data());
      TensorMemory& memory = cta->extension<CtaTensorMemory>().memory();
      for (std::uint32_t row = 0; row < shape_.rows; ++row)
        for (std::uint32_t replica = 0; replica < shape_.replicas; ++replica) {
          const std::uint32_t group = row / kGroupLanes * shape_.group_step + replica * shape_.replica_step;
          std::memcpy(memory.lane(group * kGroupLanes + row % kGroupLanes) + to_.column,
                      &words[row * kMmaStepBytes / 2], shape_.row_bytes);
        }
    }
    ticket_->done = true;
    return true;
  }
  std::string describe() const override {
    return fmt::format("{} of {} rows of {} bytes to tensor memory {:#010x}", kWhat, shape_.rows,
                       shape_.row_bytes, to_.bits());
  }

 private:
  TensorCopyShape shape_;
  TensorAddress to_;
  SharedOperand source_;
  std::vector<Cta*> ctas_;  // each copies from its own shared to its own tensor memory
  std::shared_ptr<TensorTicket> ticket_;
  std::vector<std::shared_ptr<TensorTicket>>
      products_;  // by the thread before: it may overwrite what they read
};

}  // namespace

void issue_tensor_copy(Warp& warp, const TensorCopyShape& shape, int cta_group, std::uint32_t address,
                       std::uint64_t descriptor_bits, const ProgramPoint& point) {
  Cta& cta = warp.cta();
  auto& own = cta.extension<CtaTensorMemory>();
  own.check_cta_group(cta_group, point);
  std::vector<Cta*> ctas{&cta};
  if (cta_group == 2) ctas.push_back(&pair_peer(cta, point));
  const Result<MatrixDescriptor> descriptor = decode_matrix_descriptor(descriptor_bits);
  if (!descriptor.ok()) fail(ErrorKind::kDescriptor, point, descriptor.status().message());
  if (descriptor->swizzle_atom_bytes != 16)
    fail(ErrorKind::kDescriptor, point,
         "the source of tcgen05.cp: swizzle 1 (32-byte atoms) is not simulated");
  SharedOperand source{*descriptor, MatrixMajor::kK, shape.rows, 1};
  source.row_bytes = shape.row_bytes;
  const TensorAddress to(address);
  if (to.lane != 0)
    fail_at(ErrorKind::kTensorMemory, point, address,
            fmt::format("{} to lane {} of tensor memory: it must be 0", kWhat, to.lane));
  const TensorRegion region{0xff, to.column, to.column + shape.columns()};

  auto ticket = std::make_shared<TensorTicket>();
  ticket->copy = true;
  const TensorStrand& strand = own.warp(warp.index()).strand;
  for (Cta* target : ctas) {
    auto& state = target->extension<CtaTensorMemory>();
    state.memory().check_allocated(state.owner(), region, kWhat, point);
    source.begin(*target, 0, shape.rows, "the source of tcgen05.cp", point, ticket->flights);
    if (cta.machine().checks()) {
      const TensorMemoryShadow::FlightId flight = state.shadow().begin(
          TensorMemoryShadow::Access::kWrite, region, kWhat, strand, kTensorCopyOrder, point);
      ticket->flights.push_back({&state.shadow(), flight});
      ticket->shadow = &state.shadow();
      ticket->accumulator = flight;
    }
    state.memory().set_initialised(region);  // as good as: nobody can look before it is
  }
  std::vector<std::shared_ptr<TensorTicket>> products;
  for (const auto& earlier : own.tickets(warp.thread(point.lane)))
    if (!earlier->copy && !earlier->done) products.push_back(earlier);
  own.note_issue(warp.thread(point.lane), *ticket);
  own.tickets(warp.thread(point.lane)).push_back(ticket);
  // Copies of one CTA run in the order of issue; products wait for the copies before them, and copies for
  // products.
  cta.machine().post(std::make_unique<TensorCopy>(point, own.copy_queue(), shape, to, source, std::move(ctas),
                                                  std::move(ticket), std::move(products)));
}

}  // namespace jfa::simulator
