#include "simulator/mma_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "simulator/async_shadow.h"
#include "simulator/cpu_timer.h"
#include "simulator/mma.h"
#include "simulator/mma_f4.h"
#include "simulator/mma_scales.h"
#include "simulator/mma_sparse.h"
#include "simulator/shared_operand.h"
#include "simulator/tensor_memory_shape.h"
#include "simulator/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

constexpr const char* kWhat = "tcgen05.mma";
constexpr std::uint32_t kMostPieces = 4;  // of a row of an accumulator

// Buffers that every product uses in turn.
struct MmaScratch : Extension {
  explicit MmaScratch(Machine&) {}
  MmaOperands operands;
  PackedF4Operands f4_operands;
  std::vector<std::uint16_t> a, b;
  std::vector<std::uint8_t> a_scales, b_scales;
  // Sparse forms: the second half of B along k, what each row of A meets, and that.
  std::vector<std::uint16_t> b_second, gathered;
  std::vector<std::uint8_t> positions;
};

// What an instruction multiplies and where it lies.
struct MmaProduct {
  MmaArguments arguments;
  InstructionDescriptor instruction;
  TensorAddress d;
  SharedOperand a, b;      // per CTA; a is unused if it lies in tensor memory
  SharedOperand b_second;  // of sparse forms: B's second half along k
  SparseMetadata metadata;
  ScaleFactors a_scales, b_scales;
  std::vector<Cta*> ctas;

  const MmaForm& form() const { return arguments.form; }
  std::uint32_t cta_count() const { return static_cast<std::uint32_t>(ctas.size()); }
  std::uint32_t a_rows() const { return instruction.m / cta_count(); }
  std::uint32_t b_rows() const { return instruction.n / cta_count(); }
  std::uint32_t d_columns() const {
    return accumulator_columns(form().cta_group, instruction.m, instruction.n, form().weight_stationary);
  }
  AccumulatorPlace place(std::uint32_t m, std::uint32_t n) const {
    return accumulator_place(form().cta_group, instruction.m, instruction.n, m, n, form().weight_stationary);
  }
};

class MmaOperation : public AsyncOperation {
 public:
  MmaOperation(ProgramPoint issue, std::uint64_t queue, MmaProduct product,
               std::shared_ptr<TensorTicket> ticket, std::vector<std::shared_ptr<TensorTicket>> copies)
      : AsyncOperation(issue, queue),
        product_(std::move(product)),
        ticket_(std::move(ticket)),
        copies_(std::move(copies)) {}

  bool ready() const override {
    return std::all_of(copies_.begin(), copies_.end(), [](const auto& copy) { return copy->done; });
  }
  bool advance(Machine& machine) override {
    const CpuTimer timer(machine.statistics().product_seconds);
    auto& scratch = machine.extension<MmaScratch>();
    read_operands(scratch);
    for (std::uint32_t m = 0; m < product_.instruction.m; ++m) accumulate_row(scratch, m);
    ticket_->done = true;
    return true;
  }
  std::string describe() const override {
    return fmt::format("{} M={} N={} into tensor memory {:#010x}", kWhat, product_.instruction.m,
                       product_.instruction.n, product_.d.bits());
  }

 private:
  void read_operands(MmaScratch& scratch) const;
  void read_scales(MmaScratch& scratch) const;
  void read_sparse(MmaScratch& scratch) const;
  void read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const;
  void accumulate_row(MmaScratch& scratch, std::uint32_t m) const;
  void accumulate(MmaScratch& scratch, std::uint32_t m, std::uint32_t* row) const;

  MmaProduct product_;
  std::shared_ptr<TensorTicket> ticket_;
  std::vector<std::shared_ptr<TensorTicket>> copies_;  // by the thread before, not complete at issue
};

void MmaOperation::read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const {
  const TensorAddress base(product_.arguments.a_address);
  TensorMemory& memory = product_.ctas[cta]->extension<CtaTensorMemory>().memory();
  for (std::uint32_t row = 0; row < product_.a_rows(); ++row) {
    const TensorCell cell = product_.place(cta * product_.a_rows() + row, 0).cell;
    const std::uint32_t* cells = memory.lane(base.lane + cell.lane) + base.column;
    std::memcpy(&elements[row * kMmaK], cells, kMmaStepBytes);
    // A row of D in two lanes: both have the row of A.
    const std::uint32_t other =
        product_.place(cta * product_.a_rows() + row, product_.instruction.n - 1).cell.lane;
    if (std::memcmp(cells, memory.lane(base.lane + other) + base.column, kMmaStepBytes) == 0) continue;
    fail_at(ErrorKind::kTensorMemory, issue(), TensorAddress(other, base.column).bits(),
            fmt::format(
                "A in tensor memory differs between lanes {} and {}: with M = 128 and a pair of CTAs both "
                "must have row {}",
                cell.lane, other, row));
  }
}

void MmaOperation::read_operands(MmaScratch& scratch) const {
  const InstructionDescriptor& instruction = product_.instruction;
  const MmaForm& form = product_.form();
  scratch.a.resize(instruction.m * kMmaK);
  scratch.b.resize(instruction.n * kMmaK);
  for (std::uint32_t cta = 0; cta < product_.cta_count(); ++cta) {
    std::uint16_t* a_elements = &scratch.a[cta * product_.a_rows() * kMmaK];
    if (form.a_in_tensor_memory) {
      read_tensor_operand(cta, a_elements);
    } else {
      product_.a.read(*product_.ctas[cta], a_elements);
    }
    product_.b.read(*product_.ctas[cta], &scratch.b[cta * product_.b_rows() * kMmaK]);
  }
  if (is_block_scaled(form.kind)) read_scales(scratch);
  if (is_packed_f4(form.kind)) {
    if (instruction.negate_a) negate_packed_f4(scratch.a);
    if (instruction.negate_b) negate_packed_f4(scratch.b);
    scratch.f4_operands.load(scratch.a, scratch.b, instruction.scale_type, form.scales, scratch.a_scales,
                             scratch.b_scales);
    return;
  }
  if (instruction.negate_a) negate_elements(instruction.a_type, scratch.a);
  if (instruction.negate_b) negate_elements(instruction.b_type, scratch.b);
  if (form.sparse) return read_sparse(scratch);
  scratch.operands.load(instruction.a_type, instruction.b_type, scratch.a, scratch.b);
  if (is_block_scaled(form.kind)) scratch.operands.scale(scratch.a_scales, scratch.b_scales);
}

void MmaOperation::read_sparse(MmaScratch& scratch) const {
  const InstructionDescriptor& instruction = product_.instruction;
  scratch.b_second.resize(scratch.b.size());
  scratch.positions.clear();
  for (std::uint32_t cta = 0; cta < product_.cta_count(); ++cta) {
    product_.b_second.read(*product_.ctas[cta], &scratch.b_second[cta * product_.b_rows() * kMmaK]);
    product_.metadata.read(*product_.ctas[cta], scratch.positions, issue());
  }
  if (instruction.negate_b) negate_elements(instruction.b_type, scratch.b_second);
}

void MmaOperation::read_scales(MmaScratch& scratch) const {
  scratch.a_scales.clear();
  for (Cta* cta : product_.ctas) product_.a_scales.read(*cta, scratch.a_scales, issue());
  std::vector<std::uint8_t> first;
  for (Cta* cta : product_.ctas) {
    scratch.b_scales.clear();
    product_.b_scales.read(*cta, scratch.b_scales, issue());
    if (cta == product_.ctas.front()) {
      first = scratch.b_scales;
    } else if (first != scratch.b_scales) {
      fail(ErrorKind::kTensorMemory, issue(),
           "the scale factors of B differ between the two CTAs: both must have those of all columns");
    }
  }
}

void MmaOperation::accumulate_row(MmaScratch& scratch, std::uint32_t m) const {
  const InstructionDescriptor& instruction = product_.instruction;
  // A row lies in one lane, or in several lanes of a part of the columns each: two for a pair of CTAs with
  // M = 128, two or four for mma.ws.
  const std::uint32_t columns = product_.d_columns();
  const std::uint32_t count = instruction.n / columns;
  std::uint32_t* pieces[kMostPieces] = {};
  bool disabled[kMostPieces] = {};
  for (std::uint32_t piece = 0; piece < count; ++piece) {
    const AccumulatorPlace place = product_.place(m, piece * columns);
    const std::uint32_t lane = product_.d.lane + place.cell.lane;
    disabled[piece] = product_.arguments.disables_lane(place.cta, lane);
    TensorMemory& memory = product_.ctas[place.cta]->extension<CtaTensorMemory>().memory();
    pieces[piece] = memory.lane(lane) + product_.d.column;
  }
  if (count == 1 && !disabled[0]) return accumulate(scratch, m, pieces[0]);
  std::uint32_t row[kMmaMostColumns];
  for (std::uint32_t piece = 0; piece < count; ++piece)
    std::copy_n(pieces[piece], columns, row + piece * columns);
  accumulate(scratch, m, row);
  for (std::uint32_t piece = 0; piece < count; ++piece)
    if (!disabled[piece]) std::copy_n(row + piece * columns, columns, pieces[piece]);
}

void MmaOperation::accumulate(MmaScratch& scratch, std::uint32_t m, std::uint32_t* row) const {
  const InstructionDescriptor& instruction = product_.instruction;
  const MmaArguments& arguments = product_.arguments;
  const bool f32 = instruction.d_type == MmaAccumulator::kF32;
  if (!arguments.enable_input_d) {
    std::fill_n(row, instruction.n, 0u);
  } else if (arguments.scale_input_d != 0 && f32) {
    for (std::uint32_t n = 0; n < instruction.n; ++n)
      row[n] =
          std::bit_cast<std::uint32_t>(std::ldexp(std::bit_cast<float>(row[n]), -arguments.scale_input_d));
  }
  if (product_.form().sparse) {
    // Each row of A meets other elements of B.
    const std::size_t elements = product_.metadata.elements;
    gather_step(scratch.b, scratch.b_second, std::span(scratch.positions).subspan(m * elements, elements),
                element_bytes(instruction.b_type), scratch.gathered);
    scratch.operands.load(instruction.a_type, instruction.b_type,
                          std::span(scratch.a).subspan(m * kMmaK, kMmaK), scratch.gathered);
    scratch.operands.accumulate_row(instruction.d_type, 0, row, instruction.saturate);
  } else if (is_packed_f4(product_.form().kind)) {
    scratch.f4_operands.accumulate_row(static_cast<int>(m), row);
  } else {
    scratch.operands.accumulate_row(instruction.d_type, static_cast<int>(m), row, instruction.saturate);
  }
}

template <class T>
const T& value_or_fail(const Result<T>& result, const ProgramPoint& point) {
  if (!result.ok()) fail(ErrorKind::kDescriptor, point, result.status().message());
  return *result;
}

// --- Issue: a product is decoded and checked, then what it touches is put in flight, CTA by CTA.

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
  TensorMemoryShadow::Order order_ = 0;
  std::shared_ptr<TensorTicket> ticket_ = std::make_shared<TensorTicket>();

  SharedOperand shared_operand(const char* name, std::uint64_t descriptor, MatrixMajor major,
                               std::uint32_t rows, MmaElement type) const;
  void check_lane(TensorAddress address, const char* name) const;
  TensorMemoryShadow::FlightId begin(CtaTensorMemory& state, TensorMemoryShadow::Access access,
                                     const TensorRegion& region);
  void begin_read(CtaTensorMemory& state, const TensorRegion& region, const char* what);
  void begin_operands(Cta& cta);
  void begin_accumulator(std::uint32_t cta);
};

MmaIssue::MmaIssue(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point)
    : warp_(warp), point_(point), own_(warp.cta().extension<CtaTensorMemory>()) {
  const MmaForm& form = arguments.form;
  own_.check_cta_group(form.cta_group, point);
  product_.arguments = arguments;
  product_.ctas = {&warp.cta()};
  if (form.cta_group == 2) {
    product_.ctas.push_back(&pair_peer(warp.cta(), point));
    if (warp.cta().rank() % 2 != 0) std::swap(product_.ctas[0], product_.ctas[1]);
  }
  const InstructionDescriptor& instruction = product_.instruction =
      value_or_fail(decode_instruction_descriptor(arguments.instruction_descriptor, form), point);
  if (!form.a_in_tensor_memory)
    product_.a = shared_operand("A", arguments.a_descriptor, instruction.a_major, product_.a_rows(),
                                instruction.a_type);
  product_.b =
      shared_operand("B", arguments.b_descriptor, instruction.b_major, product_.b_rows(), instruction.b_type);
  if (form.sparse) {
    product_.b_second = product_.b;
    product_.b_second.descriptor =
        next_step(product_.b.descriptor, instruction.b_major, product_.b.bytes_per_element);
    product_.b_second.check_row("B", point);
    product_.metadata = sparse_metadata(arguments.metadata_address, instruction, point);
  }
  if (is_block_scaled(form.kind)) {
    product_.a_scales = a_scale_factors(arguments.a_scale_address, form, instruction, point);
    product_.b_scales = b_scale_factors(arguments.b_scale_address, form, instruction, point);
  }

  const TensorAddress d = product_.d = TensorAddress(arguments.d_address);
  check_lane(d, "the accumulator");
  blocks_ = accumulator_blocks(form.cta_group, instruction.m, form.weight_stationary);
  d_region_ = {blocks_ << d.lane / kTensorBlockLanes, d.column, d.column + product_.d_columns()};
  if (form.a_in_tensor_memory) {
    const TensorAddress a(arguments.a_address);
    check_lane(a, "the A operand");
    if (a.lane != d.lane) {
      fail_at(ErrorKind::kTensorMemory, point, a.bits(),
              fmt::format("the A operand starts at lane {}, the accumulator at lane {}", a.lane, d.lane));
    }
    a_region_ = {blocks_ << a.lane / kTensorBlockLanes, a.column, a.column + kTensorOperandColumns};
  }
  // The shape, so that differing types and sizes count as different accumulators; majors and signs may
  // differ.
  const std::uint32_t shape_bits = std::uint32_t{form.weight_stationary} << 31 | instruction.m << 16 |
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
  const MmaForm& form = product_.form();
  const bool half_datapath = form.cta_group == 1 && product_.instruction.m == 64 && !form.weight_stationary;
  if (address.lane == 0 || (half_datapath && address.lane == kTensorBlockLanes)) return;
  fail_at(ErrorKind::kTensorMemory, point_, address.bits(),
          fmt::format("{} at tensor memory {:#010x} of a product with M = {}: its lane {} must be {}", name,
                      address.bits(), product_.instruction.m, address.lane, half_datapath ? "0 or 16" : "0"));
}

TensorMemoryShadow::FlightId MmaIssue::begin(CtaTensorMemory& state, TensorMemoryShadow::Access access,
                                             const TensorRegion& region) {
  state.memory().check_allocated(state.owner(), region, kWhat, point_);
  if (!warp_.machine().checks()) return 0;
  const TensorStrand& strand = own_.warp(warp_.index()).strand;
  const TensorMemoryShadow::FlightId id = state.shadow().begin(access, region, kWhat, strand, order_, point_);
  ticket_->flights.push_back({&state.shadow(), id});
  return id;
}

void MmaIssue::begin_read(CtaTensorMemory& state, const TensorRegion& region, const char* what) {
  begin(state, TensorMemoryShadow::Access::kRead, region);
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
  if (const auto id = begin(state, TensorMemoryShadow::Access::kWrite, d_region_); id != 0) {
    ticket_->shadow = &state.shadow();
    ticket_->accumulator = id;
  }
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
  const int thread = warp_.thread(point_.lane);
  std::vector<std::shared_ptr<TensorTicket>> copies;
  for (const auto& earlier : own_.tickets(thread))
    if (earlier->copy && !earlier->done) copies.push_back(earlier);
  own_.note_issue(thread, *ticket_);
  own_.tickets(thread).push_back(ticket_);
  warp_.machine().post(
      std::make_unique<MmaOperation>(point_, order_, std::move(product_), ticket_, std::move(copies)));
}

}  // namespace

void issue_mma(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point) {
  MmaIssue(warp, arguments, point).post();
}

}  // namespace jfa::simulator
