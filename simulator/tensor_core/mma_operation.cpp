#include "simulator/tensor_core/mma_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "simulator/machine/cpu_timer.h"
#include "simulator/tensor_core/element_container.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/mma_f4.h"

namespace jfa::simulator {
namespace {

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

class MmaOperation : public AsyncOperation {
 public:
  MmaOperation(ProgramPoint issue, std::uint64_t queue, MmaProduct product,
               std::shared_ptr<TensorTicket> ticket, TensorTickets predecessors)
      : AsyncOperation(issue, queue),
        product_(std::move(product)),
        ticket_(std::move(ticket)),
        predecessors_(std::move(predecessors)) {}

  bool ready() const override { return all_done(predecessors_); }
  bool advance(Machine& machine) override {
    const CpuTimer timer(machine.statistics().product_seconds);
    auto& scratch = machine.extension<MmaScratch>();
    read_operands(scratch);
    for (std::uint32_t m = 0; m < product_.instruction.m; ++m) accumulate_row(scratch, m);
    ticket_->done = true;
    return true;
  }
  std::string describe() const override {
    return fmt::format("{} M={} N={} into tensor memory {:#010x}", kTensorProduct, product_.instruction.m,
                       product_.instruction.n, product_.d.bits());
  }

 private:
  void read_operands(MmaScratch& scratch) const;
  void read_scales(MmaScratch& scratch) const;
  void read_sparse(MmaScratch& scratch) const;
  void read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const;
  void leave_containers(std::uint32_t lane, std::span<std::uint16_t> row) const;
  void negate(MmaElement type, std::span<std::uint16_t> rows) const;
  void clear_zero_columns(std::span<std::uint16_t> b) const;
  void load(MmaScratch& scratch, std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
            std::span<const std::uint8_t> a_scales) const;
  void load_sparse_row(MmaScratch& scratch, std::uint32_t m) const;
  void accumulate_row(MmaScratch& scratch, std::uint32_t m) const;
  void accumulate(MmaScratch& scratch, std::uint32_t m, std::uint32_t* row) const;

  MmaProduct product_;
  std::shared_ptr<TensorTicket> ticket_;
  TensorTickets predecessors_;
};

void MmaOperation::read_tensor_operand(std::uint32_t cta, std::uint16_t* elements) const {
  const TensorAddress base(product_.arguments.a_address);
  TensorMemory& memory = product_.ctas[cta]->extension<CtaTensorMemory>().memory();
  for (std::uint32_t row = 0; row < product_.a_rows(); ++row) {
    const TensorCell cell = product_.place(cta * product_.a_rows() + row, 0).cell;
    const std::uint32_t* cells = memory.lane(base.lane + cell.lane) + base.column;
    std::memcpy(&elements[row * kMmaK], cells, kMmaStepBytes);
    leave_containers(base.lane + cell.lane, std::span(&elements[row * kMmaK], kMmaK));
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

void MmaOperation::leave_containers(std::uint32_t lane, std::span<std::uint16_t> row) const {
  const std::uint32_t bits = element_bits(product_.instruction.a_type);
  if (bits >= 8 || is_packed_f4(product_.form().kind)) return;
  const std::span<std::byte> elements = std::as_writable_bytes(row);
  const std::optional<std::size_t> bad = from_containers(bits, elements);
  if (!bad) return;
  const std::uint32_t low = container_shift(bits);
  fail_at(
      ErrorKind::kInvalidOperand, issue(),
      TensorAddress(lane,
                    TensorAddress(product_.arguments.a_address).column + static_cast<std::uint32_t>(*bad) / 4)
          .bits(),
      fmt::format("A in tensor memory, lane {}, k = {}: the byte is {:#04x}, and {}-bit elements lie in bits "
                  "{}:{} with zeros around them",
                  lane, *bad, std::to_integer<unsigned>(elements[*bad]), bits, low + bits - 1, low));
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
  if (form.sparse) read_sparse(scratch);
  if (instruction.negate_a) negate(instruction.a_type, scratch.a);
  if (instruction.negate_b) negate(instruction.b_type, scratch.b);
  clear_zero_columns(scratch.b);
  // Of a sparse product each row of A meets other elements of B.
  if (!form.sparse) load(scratch, scratch.a, scratch.b, scratch.a_scales);
}

void MmaOperation::read_sparse(MmaScratch& scratch) const {
  const InstructionDescriptor& instruction = product_.instruction;
  scratch.b_second.resize(scratch.b.size());
  scratch.positions.clear();
  for (std::uint32_t cta = 0; cta < product_.cta_count(); ++cta) {
    product_.b_second.read(*product_.ctas[cta], &scratch.b_second[cta * product_.b_rows() * kMmaK]);
    product_.metadata.read(*product_.ctas[cta], scratch.positions, issue());
  }
  if (instruction.negate_b) negate(instruction.b_type, scratch.b_second);
  clear_zero_columns(scratch.b_second);
}

void MmaOperation::negate(MmaElement type, std::span<std::uint16_t> rows) const {
  if (is_packed_f4(product_.form().kind)) return negate_packed_f4(rows);
  negate_elements(type, rows);
}

void MmaOperation::clear_zero_columns(std::span<std::uint16_t> b) const {
  for (std::size_t n = 0; n < product_.zero_columns.size(); ++n)
    if (product_.zero_columns[n]) std::fill_n(&b[n * kMmaK], kMmaK, std::uint16_t{0});
}

void MmaOperation::load(MmaScratch& scratch, std::span<const std::uint16_t> a,
                        std::span<const std::uint16_t> b, std::span<const std::uint8_t> a_scales) const {
  const InstructionDescriptor& instruction = product_.instruction;
  const MmaForm& form = product_.form();
  if (is_packed_f4(form.kind)) {
    scratch.f4_operands.load(a, b, instruction.scale_type, form.scales, a_scales, scratch.b_scales);
    return;
  }
  scratch.operands.load(instruction.a_type, instruction.b_type, a, b);
  if (is_block_scaled(form.kind)) scratch.operands.scale(a_scales, scratch.b_scales);
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
  if (product_.form().sparse) load_sparse_row(scratch, m);
  const int loaded = product_.form().sparse ? 0 : static_cast<int>(m);
  if (is_packed_f4(product_.form().kind)) {
    scratch.f4_operands.accumulate_row(loaded, row);
  } else {
    scratch.operands.accumulate_row(instruction.d_type, loaded, row, instruction.saturate);
  }
}

void MmaOperation::load_sparse_row(MmaScratch& scratch, std::uint32_t m) const {
  const std::size_t elements = product_.metadata.elements, scales = product_.form().scales;
  gather_step(scratch.b, scratch.b_second, std::span(scratch.positions).subspan(m * elements, elements),
              element_bytes(product_.instruction.b_type), scratch.gathered);
  // Half of the elements under each scale factor are kept, so that those of a row are the same factors' as
  // they are of a dense one.
  load(scratch, std::span(scratch.a).subspan(m * kMmaK, kMmaK), scratch.gathered,
       std::span(scratch.a_scales).subspan(m * scales, scales));
}

}  // namespace

std::unique_ptr<AsyncOperation> make_mma_operation(const ProgramPoint& issue, std::uint64_t queue,
                                                   MmaProduct product, std::shared_ptr<TensorTicket> ticket,
                                                   TensorTickets predecessors) {
  return std::make_unique<MmaOperation>(issue, queue, std::move(product), std::move(ticket),
                                        std::move(predecessors));
}

}  // namespace jfa::simulator
