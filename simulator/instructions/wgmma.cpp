// wgmma: products of a warpgroup, their fences, groups and waits. And setmaxnreg, by which warpgroups pass
// registers to each other.
#include "simulator/tensor_core/wgmma.h"

#include <fmt/format.h>

#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/mma_types.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/register_pool.h"

namespace jfa::simulator {
namespace {

Step fence(Warp& warp, const Instruction&, LaneMask) {
  for (const auto& observer : warp.register_observers) observer->fence();
  return Step::kNext;
}

Step commit_wgmma(Warp& warp, const Instruction& instruction, LaneMask) {
  warp.cta().extension<Warpgroups>().commit(warp, warp.point(instruction));
  return Step::kNext;
}

struct WgmmaGroupWait : Wait {
  WgmmaGroupWait(Warp& warp_, std::size_t pending_) : warp(warp_), pending(pending_) {}
  bool ready() const override { return warp.cta().extension<Warpgroups>().complete(warp, pending); }
  std::string describe() const override {
    return warp.cta().extension<Warpgroups>().describe_pending(warp, pending);
  }
  Warp& warp;
  std::size_t pending;
};

// immediate: groups that may stay pending.
Step wait_wgmma(Warp& warp, const Instruction& instruction, LaneMask) {
  auto& warpgroups = warp.cta().extension<Warpgroups>();
  const auto pending = static_cast<std::size_t>(instruction.immediate);
  if (!warpgroups.complete(warp, pending))
    return warp.wait_for(std::make_unique<WgmmaGroupWait>(warp, pending), Resume::kRetry);
  warpgroups.observe(warp, pending);
  return Step::kNext;
}

Step issue_wgmma(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.cta().extension<Warpgroups>().issue(warp, instruction.data<WgmmaInstruction>(), active,
                                           warp.point(instruction));
  return Step::kNext;
}

// "m64n128k16": the pattern has matched, so the number is there.
std::uint32_t columns_of(std::string_view shape) {
  std::uint32_t n = 0;
  for (const char c : shape.substr(4, shape.find('k') - 4)) n = n * 10 + static_cast<std::uint32_t>(c - '0');
  return n;
}

bool sign_of(Decoder& d, int index) {
  const std::int64_t scale = d.immediate(index);
  if (scale != 1 && scale != -1)
    d.fail(fmt::format("operand {} of wgmma scales by 1 or -1, not {}", index, scale));
  return scale < 0;
}

MatrixMajor major_of(Decoder& d, int index) {
  const std::int64_t transposed = d.immediate(index);
  if (transposed != 0 && transposed != 1)
    d.fail(fmt::format("operand {} of wgmma says K-major (0) or MN-major (1), not {}", index, transposed));
  return transposed == 0 ? MatrixMajor::kK : MatrixMajor::kMN;
}

// .sp? .sync .aligned .shape .satfinite? .dtype .atype .btype
void decode_wgmma(Decoder& d) {
  d.require_converged();
  WgmmaInstruction instruction;
  const bool sparse = d.has("sp");
  const int first = sparse ? 4 : 3;
  const std::string_view shape = d.modifier(first), d_type = d.modifier(first + 2);
  instruction.n = columns_of(shape);
  instruction.saturate = d.has("satfinite");
  if (instruction.saturate && d_type != "s32") d.fail(".satfinite is for integers");
  instruction.accumulator = mma_accumulator(d_type);
  instruction.a_type = mma_element(d.modifier(first + 3));
  instruction.b_type = mma_element(d.modifier(first + 4));
  const std::size_t registers =
      instruction.accumulator == MmaAccumulator::kF16 ? instruction.n / 4 : instruction.n / 2;
  instruction.d = d.vector_destination(0, 32);
  if (instruction.d.size() != registers)
    d.fail(
        fmt::format("the accumulator of {} is {} registers, not {}", shape, registers, instruction.d.size()));
  instruction.watched_d = d.watch(0, run_watched);
  const bool from_registers = d.is_vector(1);
  if (from_registers) {
    instruction.a = d.vector_source(1, 32);
    if (instruction.a.size() != 4)
      d.fail(fmt::format("the A operand of wgmma is 4 registers, not {}", instruction.a.size()));
    instruction.watched_a = d.watch(1, run_watched);
  } else {
    instruction.a_descriptor = d.source(1, 64);
  }
  instruction.b_descriptor = d.source(2, 64);
  int next = 3;
  if (sparse) {
    const std::uint32_t k = 2 * kMmaStepBytes / element_bytes(instruction.a_type);
    instruction.metadata = decode_register_metadata(d, next, instruction.a_type, k, /*ascending=*/false);
    next += 2;
  }
  instruction.scale_d = d.source(next++, 1);
  if (instruction.accumulator != MmaAccumulator::kS32) {
    instruction.negate_a = sign_of(d, next++);
    instruction.negate_b = sign_of(d, next++);
  }
  if (element_bytes(instruction.a_type) == 2) {  // the other types are K-major
    if (!from_registers) instruction.a_major = major_of(d, next++);
    instruction.b_major = major_of(d, next);
  }
  d.emit(issue_wgmma).extra = d.attach(std::move(instruction));
}

std::string shapes_of(int k, int n_step_above_32) {
  std::string shapes;
  for (int n = 8; n <= 256; n += n < 32 ? 8 : n_step_above_32)
    shapes += fmt::format("{}m64n{}k{}", shapes.empty() ? "" : "|", n, k);
  return shapes;
}

template <bool increase>
Step set_registers(Warp& warp, const Instruction& instruction, LaneMask) {
  return warp.cta().extension<RegisterPool>().set(warp, instruction, increase,
                                                  static_cast<std::uint32_t>(instruction.immediate));
}

void decode_setmaxnreg(Decoder& d) {
  const std::int64_t count = d.immediate(0);
  if (count < 24 || count > 256 || count % 8 != 0)
    d.fail(fmt::format("setmaxnreg takes a multiple of 8 from 24 to 256, not {}", count));
  d.require_converged();
  d.emit(d.has("inc") ? set_registers<true> : set_registers<false>).immediate = count;
}

}  // namespace

void register_wgmma(InstructionTable& table) {
  table.set_need(TargetNeed::kHopper);
  // The K of a dense A, how N steps above 32, an accumulator type, then the types of A and B, which only
  // 8-bit types may mix. decode_mma counts modifiers, so all have the place of .satfinite, which only
  // integers take.
  const auto add = [&](int k, int n_step, const char* types) {
    table.add(fmt::format("wgmma.mma_async.sync.aligned.({}).satfinite?.{}", shapes_of(k, n_step), types),
              decode_wgmma, {.engine = Engine::kTensorCore});
    table.add(
        fmt::format("wgmma.mma_async.sp.sync.aligned.({}).satfinite?.{}", shapes_of(2 * k, n_step), types),
        decode_wgmma, {.engine = Engine::kTensorCore});
  };
  add(16, 8, "f32.bf16.bf16");
  add(16, 8, "(f32|f16).f16.f16");
  add(8, 8, "f32.tf32.tf32");
  add(32, 8, "(f32|f16).(e4m3|e5m2).(e4m3|e5m2)");
  add(32, 16, "s32.(u8|s8).(u8|s8)");
  table.add("wgmma.fence.sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              d.emit(fence);
            },
            {.synchronises = {{"wgmma.fence"}}});
  table.add("wgmma.commit_group.sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              d.emit(commit_wgmma);
            },
            {.synchronises = {{"wgmma.commit_group"}}});
  table.add("wgmma.wait_group.sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              const std::int64_t pending = d.immediate(0);
              if (pending < 0) d.fail(fmt::format("wgmma.wait_group of {} groups", pending));
              d.emit(wait_wgmma).immediate = pending;
            },
            {.synchronises = {{"wgmma.wait_group", "", {.operand = 0, .only_up = true}}}});
  table.set_need(TargetNeed::kNothing);
  table.add("setmaxnreg.(inc|dec).sync.aligned.u32", decode_setmaxnreg,
            {.needs = {{TargetNeed::kHopperOrBlackwell}}});
}

}  // namespace jfa::simulator
