// tcgen05.mma: every active lane issues one, as a rule only one is active.
#include <fmt/format.h>

#include "simulator/instructions/async_address.h"
#include "simulator/instructions/tcgen05.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/mma_issue.h"

namespace jfa::simulator {
namespace {

struct MmaData {
  MmaForm form;
  AddressOperand d;
  AddressOperand a_address;
  Slot a_descriptor = kNoSlot;
  Slot b_descriptor = kNoSlot;
  AddressOperand metadata_address;
  Slot instruction_descriptor = kNoSlot;
  AddressOperand a_scale_address, b_scale_address;
  Slot enable_input_d = kNoSlot;
  Slot zero_column_mask = kNoSlot;
  std::vector<Slot> mask;
  int scale_input_d = 0;
};

Step issue_tcgen05_mma(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<MmaData>();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    const auto address = [&](const AddressOperand& operand) {
      return static_cast<std::uint32_t>(address_of(warp, operand, lane));
    };
    MmaArguments arguments;
    arguments.form = data.form;
    arguments.d_address = address(data.d);
    if (data.form.a_in_tensor_memory) {
      arguments.a_address = address(data.a_address);
    } else {
      arguments.a_descriptor = warp.lanes<std::uint64_t>(data.a_descriptor)[lane];
    }
    arguments.b_descriptor = warp.lanes<std::uint64_t>(data.b_descriptor)[lane];
    arguments.instruction_descriptor = warp.lanes<std::uint32_t>(data.instruction_descriptor)[lane];
    if (data.form.sparse) arguments.metadata_address = address(data.metadata_address);
    if (is_block_scaled(data.form.kind)) {
      arguments.a_scale_address = address(data.a_scale_address);
      arguments.b_scale_address = address(data.b_scale_address);
    }
    arguments.enable_input_d = (warp.predicate(data.enable_input_d) >> lane & 1) != 0;
    arguments.scale_input_d = data.scale_input_d;
    if (data.zero_column_mask != kNoSlot)
      arguments.zero_column_mask = warp.lanes<std::uint64_t>(data.zero_column_mask)[lane];
    for (std::size_t i = 0; i < data.mask.size(); ++i) {
      arguments.disable_output_lane[i] = warp.lanes<std::uint32_t>(data.mask[i])[lane];
    }
    issue_mma(warp, arguments, point);
  });
  return Step::kNext;
}

MmaKind kind_of(const Decoder& d) {
  if (d.has("kind::tf32")) return MmaKind::kTF32;
  if (d.has("kind::f8f6f4")) return MmaKind::kF8F6F4;
  if (d.has("kind::i8")) return MmaKind::kI8;
  if (d.has("kind::mxf8f6f4")) return MmaKind::kMxF8F6F4;
  if (d.has("kind::mxf4")) return MmaKind::kMxF4;
  if (d.has("kind::mxf4nvf4")) return MmaKind::kMxF4NvF4;
  return MmaKind::kF16;
}

// .scale_vec::NX, also as the number of elements that share a factor; kind::mxf4nvf4 has no default.
std::uint32_t scales_of(const Decoder& d, MmaKind kind) {
  if (!is_block_scaled(kind)) return 0;
  if (kind == MmaKind::kMxF8F6F4) return 1;
  return d.has("scale_vec::4X") || d.has("block16") ? 4 : 2;
}

// The operands before the instruction descriptor, and that; returns the position behind it.
int decode_matrices(Decoder& d, MmaData& data) {
  data.form.kind = kind_of(d);
  data.form.cta_group = cta_group(d);
  data.form.scales = scales_of(d, data.form.kind);
  data.form.a_in_tensor_memory = d.is_address(1);
  data.form.weight_stationary = d.has("ws");
  data.d = tensor_address_operand(d, 0);
  if (data.form.a_in_tensor_memory) {
    data.a_address = tensor_address_operand(d, 1);
  } else {
    data.a_descriptor = d.source(1, 64);
  }
  data.b_descriptor = d.source(2, 64);
  int next = 3;
  data.form.sparse = d.has("sp");
  if (data.form.sparse) data.metadata_address = tensor_address_operand(d, next++);
  data.instruction_descriptor = d.source(next, 32);
  return next + 1;
}

void decode_tcgen05_mma(Decoder& d) {
  MmaData data;
  int next = decode_matrices(d, data);
  if (next < d.count() && d.is_vector(next)) {
    data.mask = d.vector_source(next, 32);
    const std::size_t words = data.form.cta_group == 1 ? 4 : 8;
    if (data.mask.size() != words) {
      d.fail(fmt::format("the disable-output-lane mask has {} elements and must have {}", data.mask.size(),
                         words));
    }
    ++next;
  }
  if (next >= d.count()) d.fail("enable-input-d is missing");
  data.enable_input_d = d.source(next++, 1);
  if (next < d.count()) {
    if (data.form.kind != MmaKind::kF16 && data.form.kind != MmaKind::kTF32)
      d.fail("scale-input-d is for kinds f16 and tf32");
    const std::int64_t scale = d.immediate(next);
    if (scale < 0 || scale > 15) d.fail(fmt::format("scale-input-d is {} and must be 0 to 15", scale));
    data.scale_input_d = static_cast<int>(scale);
  }
  d.emit(issue_tcgen05_mma).extra = d.attach(std::move(data));
}

void decode_weight_stationary_mma(Decoder& d) {
  MmaData data;
  const int next = decode_matrices(d, data);
  if (next >= d.count()) d.fail("enable-input-d is missing");
  data.enable_input_d = d.source(next, 1);
  if (next + 1 < d.count()) data.zero_column_mask = d.source(next + 1, 64);
  d.emit(issue_tcgen05_mma).extra = d.attach(std::move(data));
}

void decode_scaled_mma(Decoder& d) {
  MmaData data;
  const int next = decode_matrices(d, data);
  if (d.count() != next + 3)
    d.fail(fmt::format("a block-scaled tcgen05.mma has {} operands, not {}", next + 3, d.count()));
  data.a_scale_address = tensor_address_operand(d, next);
  data.b_scale_address = tensor_address_operand(d, next + 1);
  data.enable_input_d = d.source(next + 2, 1);
  d.emit(issue_tcgen05_mma).extra = d.attach(std::move(data));
}

}  // namespace

void register_tcgen05_mma(InstructionTable& table) {
  // Whether A stays in a buffer: a hint.
  const std::string collector =
      ".(collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard)?";
  const RowFacts facts{.needs = {{TargetNeed::kBlackwellExact, "kind::i8"},
                                 {TargetNeed::kBlackwellExact, "scale_vec::"},
                                 {TargetNeed::kBlackwell}},
                       .engine = Engine::kTensorCore};
  RowFacts sparse_facts = facts;
  sparse_facts.needs.insert(sparse_facts.needs.begin(), {TargetNeed::kBlackwellExact, "kind::mxf4"});
  constexpr std::string_view kDense = "tcgen05.mma";
  const auto add = [&](const char* kinds, const DecodeFunction& decode) {
    for (const std::string_view opcode : {kDense, std::string_view("tcgen05.mma.sp")})
      table.add(fmt::format("{}.(cta_group::1|cta_group::2).{}{}", opcode, kinds, collector), decode,
                opcode == kDense ? facts : sparse_facts);
  };
  const char* const unscaled = "(kind::f16|kind::tf32|kind::f8f6f4|kind::i8)";
  add(unscaled, decode_tcgen05_mma);
  add("kind::mxf8f6f4.block_scale.(scale_vec::1X|block32)?", decode_scaled_mma);
  add("kind::mxf4.block_scale.(scale_vec::2X|block32)?", decode_scaled_mma);
  add("kind::mxf4nvf4.block_scale.(scale_vec::2X|block32|scale_vec::4X|block16)", decode_scaled_mma);
  // And which of four buffers keeps B.
  for (const char* opcode : {"tcgen05.mma.ws", "tcgen05.mma.ws.sp"})
    table.add(fmt::format("{}.cta_group::1.{}", opcode, unscaled) +
                  ".(collector::b0::fill|collector::b0::use|collector::b0::lastuse|collector::b0::discard"
                  "|collector::b1::fill|collector::b1::use|collector::b1::lastuse|collector::b1::discard"
                  "|collector::b2::fill|collector::b2::use|collector::b2::lastuse|collector::b2::discard"
                  "|collector::b3::fill|collector::b3::use|collector::b3::lastuse|collector::b3::discard)?",
              decode_weight_stationary_mma, facts);
}

}  // namespace jfa::simulator
