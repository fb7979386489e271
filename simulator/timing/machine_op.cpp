#include "simulator/timing/machine_op.h"

#include <charconv>

namespace jfa::simulator::timing {
namespace {

using machine_code::Instruction;
using machine_code::Pipe;

// The number at a statement's end: "cp.async.bulk.wait_group.read 1".
std::uint8_t number_at_end(std::string_view statement) {
  const std::size_t at = statement.find_last_of(" \t");
  unsigned value = 0;
  if (at != statement.npos)
    std::from_chars(statement.data() + at + 1, statement.data() + statement.size(), value);
  return static_cast<std::uint8_t>(value);
}

Treatment treatment_of(const Instruction& in, Anchor anchor, std::string_view statement) {
  switch (anchor) {
    case Anchor::tensor_load:
      return Treatment::tensor_load;
    case Anchor::tensor_store:
      return Treatment::tensor_store;
    case Anchor::product:
      return Treatment::product;
    case Anchor::commit:
      return Treatment::commit;
    case Anchor::mbarrier:
      return Treatment::arrive;
    case Anchor::mbarrier_wait:
      return Treatment::wait;
    case Anchor::barrier:
      return Treatment::barrier;
    case Anchor::cluster_arrive:
      return Treatment::cluster_arrive;
    case Anchor::cluster_wait:
      return Treatment::cluster_wait;
    case Anchor::copy_in:
      return Treatment::copy_in;
    case Anchor::copy_out:
      return Treatment::copy_out;
    case Anchor::copy_commit:
      return Treatment::copy_commit;
    case Anchor::copy_wait:
      return Treatment::copy_wait;
    default:
      break;
  }
  // What is no anchor, or one that has nothing behind it.
  if (in.is("LDTM")) return Treatment::tensor_load;
  if (in.is("STTM")) return Treatment::tensor_store;
  // Also of another CTA's, by generic instructions.
  if (realizes_access(in) && accesses_shared(statement)) return Treatment::shared;
  if (in.is("LDS") || in.is("STS") || in.is("LDSM") || in.is("STSM") || in.is("ATOMS"))
    return Treatment::shared;
  if (in.is("FENCE") || in.is("MEMBAR") || in.is("ERRBAR") || in.is("CGAERRBAR")) return Treatment::fence;
  if (in.opcode != nullptr && in.opcode->pipe == Pipe::lsu && !in.is("SHFL")) return Treatment::global;
  return Treatment::plain;
}

}  // namespace

std::vector<MachineOp> machine_ops(const Entry& entry, const MachineEntry& machine, const Constants& c) {
  std::vector<MachineOp> ops;
  for (std::size_t i = 0; i < machine.code.size(); ++i) {
    const Instruction& in = machine.code[i];
    MachineOp op;
    std::string_view statement;
    if (machine.statements[i] != MachineEntry::kNoStatement)
      statement = entry.statements[machine.statements[i]].text;
    op.treatment = treatment_of(in, machine.anchors[i], statement);
    if (in.opcode != nullptr) {
      op.pipe = in.opcode->pipe;
      op.pipe_cycles = in.opcode->cycles;
    }
    op.latency = c.fixed_latency;
    switch (op.treatment) {
      case Treatment::plain:
        if (op.pipe == Pipe::xu)
          op.latency = c.mufu_latency;
        else if (op.pipe == Pipe::uniform)
          op.latency = c.uniform_latency;
        else if (op.pipe == Pipe::other || op.pipe == Pipe::lsu || op.pipe == Pipe::alu)
          op.latency = c.vote_latency;
        else if (op.pipe == Pipe::sync)
          op.latency = c.mbarrier_arrive_latency, op.cause = Cause::sync;
        break;
      case Treatment::shared:
        op.latency = c.shared_latency;
        op.cause = Cause::shared;
        op.bytes = bytes_of_warp(statement);
        break;
      case Treatment::global:
        op.latency = in.is("LDC") || in.is("LDCU") || in.is("ULDC") ? c.constant_latency : c.global_latency;
        op.cause = Cause::global;
        break;
      case Treatment::tensor_load:
      case Treatment::tensor_store:
        op.cause = Cause::tensor_memory;
        op.bytes = bytes_of_warp(statement);
        break;
      case Treatment::fence:
        op.latency = c.fence_latency;
        op.cause = Cause::sync;
        if (statement.starts_with("tcgen05.wait::st")) op.treatment = Treatment::tensor_store_wait;
        break;
      case Treatment::copy_wait:
        op.cause = Cause::copy;
        op.reads_only = statement.find(".read") != statement.npos;
        op.groups_left = number_at_end(statement);
        break;
      default:
        op.latency = c.mbarrier_arrive_latency;
        op.cause = Cause::sync;
    }
    ops.push_back(op);
  }
  return ops;
}

}  // namespace jfa::simulator::timing
