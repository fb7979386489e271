// Which device runs PTX for which target, and which instructions a target has.
#include "simulator/ptx/target.h"

#include <doctest/doctest.h>

#include "simulator/decode/instruction_table.h"

namespace jfa::simulator::target_test {
namespace {

Target target(std::string_view name) { return parse_target(name).value(); }

std::string_view missing(const Target& target, std::string_view opcode) {
  const InstructionTable::Found found = InstructionTable::instance().find(opcode);
  REQUIRE(found.row != nullptr);
  return found.missing(target);
}

TEST_CASE("targets by name") {
  CHECK(target("sm_90a").version == 90);
  CHECK(target("sm_100f").suffix == 'f');
  CHECK(!target("sm_100").is_specific());
  for (const char* wrong : {"", "sm_", "sm_100b", "compute_100", "sm_-1", "sm_100aa"})
    CHECK(!parse_target(wrong).has_value());
}

TEST_CASE("PTX for one device, for a family, and for whatever comes later") {
  CHECK(runs(target("sm_100a"), target("sm_100a")));
  CHECK(!runs(target("sm_103a"), target("sm_100a")));
  CHECK(!runs(target("sm_100f"), target("sm_100a")));
  CHECK(runs(target("sm_103a"), target("sm_100f")));
  CHECK(!runs(target("sm_90a"), target("sm_100f")));
  CHECK(runs(target("sm_100a"), target("sm_90")));
  CHECK(!runs(target("sm_100a"), target("sm_90a")));
}

// As ptxas 13.0 accepts and refuses them.
TEST_CASE("instructions that only some targets have") {
  struct Instruction {
    const char* opcode;
    bool sm_90a, sm_100, sm_100f, sm_100a;
  };
  const Instruction instructions[] = {
      {"wgmma.fence.sync.aligned", true, false, false, false},
      {"setmaxnreg.inc.sync.aligned.u32", true, false, true, true},
      {"tcgen05.wait::ld.sync.aligned", false, false, true, true},
      {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale", false, false, true, true},
      {"tcgen05.mma.cta_group::1.kind::i8", false, false, false, true},
      {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X", false, false, false, true},
      {"tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale", false, false, true, true},
      {"tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16", false, false, false, true},
      {"tcgen05.cp.cta_group::1.4x256b.b8x16.b4x16_p64", false, false, true, true},
      {"tcgen05.shift.cta_group::1.down", false, false, false, true},
      {"fma.rn.f32x2", false, true, true, true},
      {"cvt.rn.satfinite.e4m3x2.f32", true, true, true, true},
      {"cvt.rn.satfinite.e2m1x2.f32", false, false, true, true},
      {"cvt.rn.f16x2.e2m3x2", false, false, true, true},
      {"cvt.rp.satfinite.ue8m0x2.f32", false, false, true, true}};
  for (const Instruction& i : instructions) {
    CAPTURE(std::string(i.opcode));
    CHECK(missing(target("sm_90a"), i.opcode).empty() == i.sm_90a);
    CHECK(missing(target("sm_100"), i.opcode).empty() == i.sm_100);
    CHECK(missing(target("sm_100f"), i.opcode).empty() == i.sm_100f);
    CHECK(missing(target("sm_100a"), i.opcode).empty() == i.sm_100a);
  }
}

}  // namespace
}  // namespace jfa::simulator::target_test
