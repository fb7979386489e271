#include "simulator/mma_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "simulator/async_shadow.h"
#include "simulator/cpu_timer.h"
#include "simulator/mbarrier.h"
#include "simulator/shared_operand.h"
#include "simulator/tensor_memory_shape.h"

namespace jfa::simulator {
namespace {

constexpr const char* kWhat = "tcgen05.mma";

// Buffers that every product uses in turn.
struct MmaScratch : Extension {
  explicit MmaScratch(Machine&) {}
  MmaOperands operands;
  std::vector<std::uint16_t> a, b;
};

class MmaOperation : public AsyncOperation {
 public:
  MmaOperation(ProgramPoint issue, std::uint64_t queue, std::shared_ptr<TensorTicket> ticket)
      : AsyncOperation(issue, queue), ticket_(std::move(ticket)) {}

  bool ready() const override {
    return std::all_of(copies.begin(), copies.end(), [](const auto& copy) { return copy->done; });
  }
  bool advance(Machine& machine) override;
  std::string describe() const override {
    return fmt::format("{} M={} N={} into tensor memory {:#010x}", kWhat, instruction.m, instruction.n,
                       TensorAddress(d.lane, d.column).bits());
  }

  MmaArguments arguments;
  InstructionDescriptor instruction;
  TensorAddress d;
  SharedOperand a, b;  // per CTA; a is unused if it lies in tensor memory
  std::vector<Cta*> ctas;
  std::vector<std::shared_ptr<TensorTicket>> copies;  // by the thread before, not complete at issue

 private:
  void read_operands(MmaScratch& scratch) const;
  void read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const;
  void accumulate_row(const MmaOperands& operands, std::uint32_t m) const;

  std::shared_ptr<TensorTicket> ticket_;
};

void MmaOperation::read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const {
  const TensorAddress base(*arguments.a_address);
  TensorMemory& memory = ctas[cta]->extension<CtaTensorMemory>().memory();
  const std::uint32_t rows = instruction.m / static_cast<std::uint32_t>(ctas.size());
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t m = cta * rows + row;
    const TensorCell cell = accumulator_place(arguments.cta_group, instruction.m, instruction.n, m, 0).cell;
    const std::uint32_t* cells = memory.lane(base.lane + cell.lane) + base.column;
    std::memcpy(&elements[row * kMmaK], cells, kMmaStepBytes);
  }
}

void MmaOperation::read_operands(MmaScratch& scratch) const {
  const auto count = static_cast<std::uint32_t>(ctas.size());
  const std::uint32_t a_rows = instruction.m / count;
  const std::uint32_t b_rows = instruction.n / count;
  scratch.a.resize(instruction.m * kMmaK);
  scratch.b.resize(instruction.n * kMmaK);
  for (std::uint32_t cta = 0; cta < count; ++cta) {
    std::uint16_t* a_elements = &scratch.a[cta * a_rows * kMmaK];
    if (arguments.a_address) {
      read_tensor_operand(cta, a_elements);
    } else {
      a.read(ctas[cta]->shared(), a_elements);
    }
    b.read(ctas[cta]->shared(), &scratch.b[cta * b_rows * kMmaK]);
  }
  if (instruction.negate_a) negate_elements(instruction.a_type, scratch.a);
  if (instruction.negate_b) negate_elements(instruction.b_type, scratch.b);
  scratch.operands.load(instruction.a_type, instruction.b_type, scratch.a, scratch.b);
}

void MmaOperation::accumulate_row(const MmaOperands& operands, std::uint32_t m) const {
  // A row lies in one lane, or (a pair of CTAs with M = 128) in two lanes of half the columns each.
  const std::uint32_t columns = accumulator_columns(arguments.cta_group, instruction.m, instruction.n);
  std::uint32_t row[256];
  std::uint32_t* pieces[2] = {};
  bool disabled[2] = {};
  const std::uint32_t count = instruction.n / columns;
  for (std::uint32_t piece = 0; piece < count; ++piece) {
    const AccumulatorPlace place =
        accumulator_place(arguments.cta_group, instruction.m, instruction.n, m, piece * columns);
    const std::uint32_t lane = d.lane + place.cell.lane;
    const std::uint32_t mask_bit = place.cta * kTensorLanes + lane;
    disabled[piece] = (arguments.disable_output_lane[mask_bit / 32] >> mask_bit % 32 & 1) != 0;
    pieces[piece] = ctas[place.cta]->extension<CtaTensorMemory>().memory().lane(lane) + d.column;
    std::copy_n(pieces[piece], columns, row + piece * columns);
  }
  const bool f32 = instruction.d_type == MmaAccumulator::kF32;
  if (!arguments.enable_input_d) {
    std::fill_n(row, instruction.n, 0u);
  } else if (arguments.scale_input_d != 0) {
    for (std::uint32_t n = 0; n < instruction.n; ++n) {
      if (f32)
        row[n] =
            std::bit_cast<std::uint32_t>(std::ldexp(std::bit_cast<float>(row[n]), -arguments.scale_input_d));
    }
  }
  operands.accumulate_row(instruction.d_type, static_cast<int>(m), row, instruction.saturate);
  for (std::uint32_t piece = 0; piece < count; ++piece) {
    if (!disabled[piece]) std::copy_n(row + piece * columns, columns, pieces[piece]);
  }
}

bool MmaOperation::advance(Machine& machine) {
  const CpuTimer timer(machine.statistics().product_seconds);
  auto& scratch = machine.extension<MmaScratch>();
  read_operands(scratch);
  for (std::uint32_t m = 0; m < instruction.m; ++m) accumulate_row(scratch.operands, m);
  ticket_->done = true;
  return true;
}

class CommitOperation : public AsyncOperation {
 public:
  CommitOperation(ProgramPoint issue, std::vector<std::shared_ptr<TensorTicket>> tickets,
                  std::vector<SharedPlace> barriers, VectorClock clock)
      : AsyncOperation(issue),
        tickets_(std::move(tickets)),
        barriers_(std::move(barriers)),
        clock_(std::move(clock)) {
    for (const auto& ticket : tickets_) {
      flights_.insert(flights_.end(), ticket->flights.begin(), ticket->flights.end());
    }
  }

  bool ready() const override {
    return std::all_of(tickets_.begin(), tickets_.end(), [](const auto& ticket) { return ticket->done; });
  }

  bool advance(Machine&) override {
    const SharedPlace place = barriers_.back();
    barriers_.pop_back();
    if (place.cta->exited()) {
      fail(ErrorKind::kBarrier, issue(), "tcgen05.commit signals an mbarrier of a CTA that has exited");
    }
    Mbarrier& barrier = place.cta->extension<Mbarriers>().at(place.offset, issue());
    barrier.release_on_observation(flights_);
    barrier.arriving().join(clock_);
    barrier.note_commit(issue());
    barrier.arrive(1, issue());
    return barriers_.empty();
  }

  std::string describe() const override {
    const auto open =
        std::count_if(tickets_.begin(), tickets_.end(), [](const auto& ticket) { return !ticket->done; });
    return fmt::format("tcgen05.commit on shared {:#x}, {} of {} operations still to complete",
                       barriers_.back().offset, open, tickets_.size());
  }

 private:
  std::vector<std::shared_ptr<TensorTicket>> tickets_;
  std::vector<SharedPlace> barriers_;
  VectorClock clock_;  // of the thread, with its operations complete
  std::vector<FlightRef> flights_;
};

void check_accumulator_place(const InstructionDescriptor& instruction, int cta_group, TensorAddress address,
                             const char* name, const ProgramPoint& point) {
  const bool half_datapath = cta_group == 1 && instruction.m == 64;
  if (address.lane == 0 || (half_datapath && address.lane == kTensorBlockLanes)) return;
  fail_at(ErrorKind::kTensorMemory, point, address.bits(),
          fmt::format("{} at tensor memory {:#010x} of a product with M = {}: its lane {} must be {}", name,
                      address.bits(), instruction.m, address.lane, half_datapath ? "0 or 16" : "0"));
}

template <class T>
const T& value_or_fail(const Result<T>& result, const ProgramPoint& point) {
  if (!result.ok()) fail(ErrorKind::kDescriptor, point, result.status().message());
  return *result;
}

}  // namespace

void issue_mma(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point) {
  Cta& cta = warp.cta();
  auto& own = cta.extension<CtaTensorMemory>();
  own.check_cta_group(arguments.cta_group, point);

  std::vector<Cta*> ctas{&cta};
  if (arguments.cta_group == 2) {
    ctas.push_back(&pair_peer(cta, point));
    if (cta.rank() % 2 != 0) std::swap(ctas[0], ctas[1]);
  }
  const auto count = static_cast<std::uint32_t>(ctas.size());
  const bool tensor_a = arguments.a_address.has_value();
  const InstructionDescriptor instruction =
      value_or_fail(decode_instruction_descriptor(arguments.instruction_descriptor, arguments.cta_group,
                                                  tensor_a, arguments.kind),
                    point);
  SharedOperand a;
  SharedOperand b;
  if (!tensor_a) {
    a = {value_or_fail(decode_matrix_descriptor(arguments.a_descriptor), point), instruction.a_major,
         instruction.m / count, element_bytes(instruction.a_type)};
  }
  b = {value_or_fail(decode_matrix_descriptor(arguments.b_descriptor), point), instruction.b_major,
       instruction.n / count, element_bytes(instruction.b_type)};

  if (!tensor_a) a.check_row("A", point);
  b.check_row("B", point);

  const TensorAddress d(arguments.d_address);
  check_accumulator_place(instruction, arguments.cta_group, d, "the accumulator", point);
  const std::uint32_t blocks = accumulator_blocks(arguments.cta_group, instruction.m);
  const TensorRegion d_region{
      blocks << d.lane / kTensorBlockLanes, d.column,
      d.column + accumulator_columns(arguments.cta_group, instruction.m, instruction.n)};
  TensorRegion a_region;
  if (tensor_a) {
    const TensorAddress address(*arguments.a_address);
    check_accumulator_place(instruction, arguments.cta_group, address, "the A operand", point);
    if (address.lane != d.lane) {
      fail_at(
          ErrorKind::kTensorMemory, point, address.bits(),
          fmt::format("the A operand starts at lane {}, the accumulator at lane {}", address.lane, d.lane));
    }
    a_region = {blocks << address.lane / kTensorBlockLanes, address.column,
                address.column + kTensorOperandColumns};
  }

  // The shape, so that differing types and sizes count as different accumulators; majors and signs may
  // differ.
  const std::uint32_t shape_bits =
      instruction.m << 16 | instruction.n << 1 | static_cast<std::uint32_t>(instruction.d_type);
  const TensorMemoryShadow::Order order =
      ctas[0]->extension<CtaTensorMemory>().sm().order(arguments.d_address, shape_bits, arguments.cta_group);
  const TensorStrand& strand = own.warp(warp.index()).strand;
  auto ticket = std::make_shared<TensorTicket>();
  const bool checks = cta.machine().checks();
  const bool all_lanes =
      std::all_of(arguments.disable_output_lane.begin(), arguments.disable_output_lane.end(),
                  [](std::uint32_t word) { return word == 0; });
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& state = ctas[i]->extension<CtaTensorMemory>();
    const auto flight = [&](TensorMemoryShadow::Access access, const TensorRegion& region) {
      const TensorMemoryShadow::FlightId id =
          state.shadow().begin(access, region, kWhat, strand, order, point);
      ticket->flights.push_back({&state.shadow(), id});
      return id;
    };
    state.memory().check_allocated(state.owner(), d_region, kWhat, point);
    if (tensor_a) {
      state.memory().check_allocated(state.owner(), a_region, kWhat, point);
      if (checks) flight(TensorMemoryShadow::Access::kRead, a_region);
      state.memory().check_initialised(a_region, "the A operand of tcgen05.mma", point);
    } else {
      a.begin(*ctas[i], 0, a.rows, "the A operand of tcgen05.mma", point, ticket->flights);
    }
    b.begin(*ctas[i], 0, b.rows, "the B operand of tcgen05.mma", point, ticket->flights);
    if (checks) {
      ticket->shadow = &state.shadow();
      ticket->accumulator = flight(TensorMemoryShadow::Access::kWrite, d_region);
    }
    if (arguments.enable_input_d) {
      state.memory().check_initialised(d_region, "the accumulator of tcgen05.mma", point);
    } else if (all_lanes) {
      state.memory().set_initialised(d_region);  // as good as: nobody can look before it is
    } else {
      for (std::uint32_t lane = 0; lane < kTensorLanes; ++lane) {
        const std::uint32_t block = lane / kTensorBlockLanes;
        const std::uint32_t bit = i * kTensorLanes + lane;
        if ((d_region.blocks >> block & 1) == 0 ||
            (arguments.disable_output_lane[bit / 32] >> bit % 32 & 1) != 0)
          continue;
        for (std::uint32_t column = d_region.first_column; column < d_region.end_column; ++column) {
          state.memory().set_initialised(block, column, 1u << lane % kTensorBlockLanes);
        }
      }
    }
  }

  auto operation = std::make_unique<MmaOperation>(point, order, ticket);
  operation->arguments = arguments;
  operation->instruction = instruction;
  operation->d = d;
  operation->a = a;
  operation->b = b;
  operation->ctas = std::move(ctas);
  for (const auto& earlier : own.tickets(warp.thread(point.lane)))
    if (earlier->copy && !earlier->done) operation->copies.push_back(earlier);
  own.note_issue(warp.thread(point.lane), *ticket);
  own.tickets(warp.thread(point.lane)).push_back(std::move(ticket));
  cta.machine().post(std::move(operation));
}

void issue_commit(Warp& warp, int thread, std::vector<SharedPlace> barriers, const ProgramPoint& point) {
  auto& state = warp.cta().extension<CtaTensorMemory>();
  auto& tickets = state.tickets(thread);
  // Whoever observes this commit has observed all that went before it, so only what nobody has waited for
  // counts.
  std::erase_if(tickets, [](const std::shared_ptr<TensorTicket>& ticket) {
    return ticket->done && (ticket->shadow == nullptr || !ticket->shadow->in_flight(ticket->accumulator));
  });
  state.shadow().fence_before(state.warp(warp.index()).strand);
  VectorClock clock;
  // It is no release of what the thread has written or knows, but with its operations that is over.
  warp.release(LaneMask{1} << thread % kWarpSize, clock);
  clock.hide();
  const Epoch event = state.last_issue(thread);
  if (event.tick != 0) clock.see(event.strand, event.tick);
  warp.machine().post(
      std::make_unique<CommitOperation>(point, tickets, std::move(barriers), std::move(clock)));
}

}  // namespace jfa::simulator
