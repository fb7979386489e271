#include "simulator/tensor_core/mma_issue.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/machine/recorder.h"
#include "simulator/tensor_core/mma_operation.h"
#include "simulator/tensor_core/zero_column_mask.h"

namespace jfa::simulator {
namespace {

template <class T>
const T& value_or_fail(const Result<T>& result, const ProgramPoint& point) {
  if (!result.ok()) fail(ErrorKind::kDescriptor, point, result.status().message());
  return *result;
}

// A product is decoded and checked, then what it touches is put in flight, CTA by CTA.
class MmaIssue {
 public:
  MmaIssue(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point);
  void post();

 private:
  Warp& warp_;
  const ProgramPoint& point_;
  CtaTensorMemory& own_;
  MmaProduct product_;
  std::uint32_t blocks_ = 0;  // of the lanes of D and A
  TensorRegion d_region_, a_region_;
  TensorOrder order_ = 0;
  std::shared_ptr<TensorTicket> ticket_ = std::make_shared<TensorTicket>();

  SharedOperand shared_operand(const char* name, std::uint64_t descriptor, MatrixMajor major,
                               std::uint32_t rows, MmaElement type) const;
  void check_lane(TensorAddress address, const char* name) const;
  void check_same_lane(TensorAddress address, const char* name) const;
  FlightRef begin(CtaTensorMemory& state, MemoryAccess access, const TensorRegion& region);
  void begin_read(CtaTensorMemory& state, const TensorRegion& region, const char* what);
  void begin_operands(Cta& cta);
  void begin_accumulator(std::uint32_t cta);
};

MmaIssue::MmaIssue(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point)
    : warp_(warp), point_(point), own_(warp.cta().extension<CtaTensorMemory>()) {
  const MmaForm& form = arguments.form;
  product_.arguments = arguments;
  product_.ctas = ctas_of_group(warp.cta(), form.cta_group, point);
  if (form.cta_group == 2 && warp.cta().rank() % 2 != 0) std::swap(product_.ctas[0], product_.ctas[1]);
  const InstructionDescriptor& instruction = product_.instruction =
      value_or_fail(decode_instruction_descriptor(arguments.instruction_descriptor, form), point);
  if (!form.a_in_tensor_memory)
    product_.a = shared_operand("A", arguments.a_descriptor, instruction.a_major, product_.a_rows(),
                                instruction.a_type);
  product_.b =
      shared_operand("B", arguments.b_descriptor, instruction.b_major, product_.b_rows(), instruction.b_type);
  if (form.sparse) {
    product_.b_second = second_step(product_.b, point);
    SparseMetadata& metadata = product_.metadata =
        sparse_metadata(arguments.metadata_address, form, instruction, point);
    metadata.half_datapath = product_.in_half_datapath();
  }
  if (is_block_scaled(form.kind)) {
    product_.a_scales = a_scale_factors(arguments.a_scale_address, form, instruction, point);
    product_.b_scales = b_scale_factors(arguments.b_scale_address, form, instruction, point);
  }

  if (form.weight_stationary)
    product_.zero_columns = value_or_fail(
        decode_zero_column_mask(arguments.zero_column_mask, instruction.m, instruction.n), point);

  const TensorAddress d = product_.d = TensorAddress(arguments.d_address);
  check_lane(d, "the accumulator");
  blocks_ = accumulator_blocks(form.cta_group, instruction.m, product_.accumulator_form());
  d_region_ = {blocks_ << d.lane / kTensorBlockLanes, d.column, d.column + product_.d_columns()};
  if (form.a_in_tensor_memory) {
    const TensorAddress a(arguments.a_address);
    check_lane(a, "the A operand");
    check_same_lane(a, "the A operand");
    a_region_ = {blocks_ << a.lane / kTensorBlockLanes, a.column, a.column + kTensorOperandColumns};
  }
  if (form.sparse) check_same_lane(TensorAddress(arguments.metadata_address), "the sparse metadata");
  // The shape, so that differing types and sizes count as different accumulators; majors and signs may
  // differ.
  const std::uint32_t shape_bits = std::uint32_t{form.weight_stationary} << 31 |
                                   std::uint32_t{product_.in_half_datapath()} << 30 | instruction.m << 16 |
                                   instruction.n << 1 | static_cast<std::uint32_t>(instruction.d_type);
  order_ = product_.ctas[0]->extension<CtaTensorMemory>().sm().order(arguments.d_address, shape_bits,
                                                                     form.cta_group);
}

SharedOperand MmaIssue::shared_operand(const char* name, std::uint64_t descriptor, MatrixMajor major,
                                       std::uint32_t rows, MmaElement type) const {
  SharedOperand operand{value_or_fail(decode_matrix_descriptor(descriptor), point_), major, rows,
                        element_bytes(type)};
  if (element_bits(type) < 8 && !is_packed_f4(product_.form().kind)) operand.packed_bits = element_bits(type);
  if (operand.descriptor.swizzle_atom_bytes != 16 && (major != MatrixMajor::kMN || element_bits(type) != 32))
    fail(ErrorKind::kDescriptor, point_,
         fmt::format("the {} operand: swizzle 1 (128 bytes in 32-byte atoms) is for MN-major 32-bit elements",
                     name));
  operand.check_row(name, point_);
  return operand;
}

void MmaIssue::check_lane(TensorAddress address, const char* name) const {
  const bool half_datapath = product_.in_half_datapath();
  if (address.lane == 0 || (half_datapath && address.lane == kTensorBlockLanes)) return;
  fail_at(ErrorKind::kTensorMemory, point_, address.bits(),
          fmt::format("{} at tensor memory {:#010x} of a product with M = {}: its lane {} must be {}", name,
                      address.bits(), product_.instruction.m, address.lane, half_datapath ? "0 or 16" : "0"));
}

void MmaIssue::check_same_lane(TensorAddress address, const char* name) const {
  if (address.lane == product_.d.lane) return;
  fail_at(
      ErrorKind::kTensorMemory, point_, address.bits(),
      fmt::format("{} starts at lane {}, the accumulator at lane {}", name, address.lane, product_.d.lane));
}

FlightRef MmaIssue::begin(CtaTensorMemory& state, MemoryAccess access, const TensorRegion& region) {
  state.memory().check_allocated(state.owner(), region, kTensorProduct, point_);
  const TensorStrand& strand = own_.warp(warp_.index()).strand;
  const FlightRef flight = state.sm().issue(access, region, kTensorProduct, strand, order_, point_);
  if (flight.owner != nullptr) ticket_->flights.push_back(flight);
  return flight;
}

void MmaIssue::begin_read(CtaTensorMemory& state, const TensorRegion& region, const char* what) {
  begin(state, MemoryAccess::kRead, region);
  state.memory().check_initialised(region, what, point_);
}

void MmaIssue::begin_operands(Cta& cta) {
  auto& state = cta.extension<CtaTensorMemory>();
  if (product_.form().a_in_tensor_memory) {
    begin_read(state, a_region_, "the A operand of tcgen05.mma");
  } else {
    product_.a.begin(cta, 0, product_.a.rows, "the A operand of tcgen05.mma", point_, ticket_->flights);
  }
  product_.b.begin(cta, 0, product_.b.rows, "the B operand of tcgen05.mma", point_, ticket_->flights);
  if (product_.form().sparse) {
    product_.b_second.begin(cta, 0, product_.b.rows, "the B operand of tcgen05.mma", point_,
                            ticket_->flights);
    begin_read(state, product_.metadata.region(), "tcgen05.mma with sparse metadata");
  }
  if (!is_block_scaled(product_.form().kind)) return;
  for (const TensorRegion& region : product_.a_scales.regions())
    begin_read(state, region, "tcgen05.mma with scale factors of A");
  for (const TensorRegion& region : product_.b_scales.regions())
    begin_read(state, region, "tcgen05.mma with scale factors of B");
}

void MmaIssue::begin_accumulator(std::uint32_t cta) {
  auto& state = product_.ctas[cta]->extension<CtaTensorMemory>();
  const MmaArguments& arguments = product_.arguments;
  ticket_->memory = &state.sm();
  ticket_->accumulator = begin(state, MemoryAccess::kWrite, d_region_).id;
  if (arguments.enable_input_d) {
    state.memory().check_initialised(d_region_, "the accumulator of tcgen05.mma", point_);
    return;
  }
  // What it will write counts as initialised: nobody can look before it is.
  if (std::all_of(arguments.disable_output_lane.begin(), arguments.disable_output_lane.end(),
                  [](std::uint32_t word) { return word == 0; })) {
    state.memory().set_initialised(d_region_);
    return;
  }
  for (std::uint32_t lane = 0; lane < kTensorLanes; ++lane) {
    const std::uint32_t block = lane / kTensorBlockLanes;
    if ((d_region_.blocks >> block & 1) == 0 || arguments.disables_lane(cta, lane)) continue;
    for (std::uint32_t column = d_region_.first_column; column < d_region_.end_column; ++column)
      state.memory().set_initialised(block, column, 1u << lane % kTensorBlockLanes);
  }
}

void MmaIssue::post() {
  for (std::uint32_t cta = 0; cta < product_.cta_count(); ++cta) {
    begin_operands(*product_.ctas[cta]);
    begin_accumulator(cta);
  }
  if (timing::Recorder* recorder = warp_.machine().recorder()) {
    timing::Detail product;
    product.m = static_cast<std::uint16_t>(product_.instruction.m);
    product.n = static_cast<std::uint16_t>(product_.instruction.n);
    product.cta_group = static_cast<std::uint8_t>(product_.form().cta_group);
    product.a_in_tensor_memory = product_.form().a_in_tensor_memory;
    recorder->multiplies(point_, product);
  }
  TensorTickets predecessors = own_.issue(warp_.thread(point_.lane), ticket_);
  const std::uint64_t queue = warp_.machine().config().options.product_waits ? order_ : own_.product_queue();
  warp_.machine().post(
      make_mma_operation(point_, queue, std::move(product_), ticket_, std::move(predecessors)));
}

}  // namespace

void issue_mma(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point) {
  MmaIssue(warp, arguments, point).post();
}

}  // namespace jfa::simulator
