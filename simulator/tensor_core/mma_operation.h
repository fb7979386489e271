// tcgen05.mma as an asynchronous operation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/machine/async_operation.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/mma_issue.h"
#include "simulator/tensor_core/mma_scales.h"
#include "simulator/tensor_core/mma_sparse.h"
#include "simulator/tensor_core/shared_operand.h"
#include "simulator/tensor_core/tensor_memory_shape.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {

inline constexpr const char* kTensorProduct = "tcgen05.mma";  // for reports

/// What an instruction multiplies and where it lies.
struct MmaProduct {
  MmaArguments arguments;
  InstructionDescriptor instruction;
  TensorAddress d;
  SharedOperand a, b;      // per CTA; a is unused if it lies in tensor memory
  SharedOperand b_second;  // of sparse forms: B's second half along k
  SparseMetadata metadata;
  ScaleFactors a_scales, b_scales;
  std::vector<bool> zero_columns;  // of mma.ws: of B
  std::vector<Cta*> ctas;

  const MmaForm& form() const { return arguments.form; }
  std::uint32_t cta_count() const { return static_cast<std::uint32_t>(ctas.size()); }
  std::uint32_t a_rows() const { return instruction.m / cta_count(); }
  std::uint32_t b_rows() const { return instruction.n / cta_count(); }
  AccumulatorForm accumulator_form() const {
    return form().weight_stationary ? AccumulatorForm::kWeightStationary
           : form().sparse          ? AccumulatorForm::kSparse
                                    : AccumulatorForm::kDense;
  }
  bool in_half_datapath() const { return half_datapath(form().cta_group, instruction.m, accumulator_form()); }
  std::uint32_t d_columns() const {
    return accumulator_columns(form().cta_group, instruction.m, instruction.n, accumulator_form());
  }
  AccumulatorPlace place(std::uint32_t m, std::uint32_t n) const {
    return accumulator_place(form().cta_group, instruction.m, instruction.n, m, n, accumulator_form());
  }
};

/// The product, which runs once its predecessors are done; then the ticket is.
std::unique_ptr<AsyncOperation> make_mma_operation(const ProgramPoint& issue, std::uint64_t queue,
                                                   MmaProduct product, std::shared_ptr<TensorTicket> ticket,
                                                   TensorTickets predecessors);

}  // namespace jfa::simulator
