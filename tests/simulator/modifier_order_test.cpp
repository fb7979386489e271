// Modifiers in other orders than the instruction table's: which ptxas takes, and which mean something else.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "simulator/decode/instruction_table.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::modifier_order_test {
namespace {

std::string spelling_of(const std::string& opcode) {
  const InstructionTable::Found found = InstructionTable::instance().find(opcode);
  return found.row == nullptr ? "unknown" : found.spelling();
}

struct Order {
  const char* written;
  const char* as_in_table;
};

// From a random sample, which ptxas 13.0 took without exception, of what the rule allows.
constexpr Order kTaken[] = {
    {"add.rm.f32.ftz", "add.rm.ftz.f32"},
    {"atom.add.f64.global", "atom.global.add.f64"},
    {"atom.global.acq_rel.gpu.add.u32", "atom.acq_rel.gpu.global.add.u32"},
    {"barrier.cluster.arrive.aligned.release", "barrier.cluster.arrive.release.aligned"},
    {"barrier.cta.red.aligned.or.pred", "barrier.cta.red.or.aligned.pred"},
    {"bfind.s32.shiftamt", "bfind.shiftamt.s32"},
    {"cp.async.bulk.global.bulk_group.shared::cta", "cp.async.bulk.global.shared::cta.bulk_group"},
    {"cp.async.bulk.shared::cluster.mbarrier::complete_tx::bytes.global",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"},
    {"cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes",
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint."
     "multicast::cluster.cta_group::2",
     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster."
     "cta_group::2.L2::cache_hint"},
    {"cp.async.bulk.tensor.5d.tile.mbarrier::complete_tx::bytes.shared::cta.global",
     "cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes"},
    {"cp.async.bulk.tensor.mbarrier::complete_tx::bytes.2d.shared::cta.global",
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"},
    {"cp.async.bulk.tensor.mbarrier::complete_tx::bytes.3d.shared::cta.global.tile",
     "cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes"},
    {"cp.async.shared.global.cg", "cp.async.cg.shared.global"},
    {"cp.reduce.async.bulk.global.and.shared::cta.bulk_group.b32",
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.and.b32"},
    {"cvt.f32.rn.u32", "cvt.rn.f32.u32"},
    {"cvt.f32.u32.rn", "cvt.rn.f32.u32"},
    {"cvt.u64.f32.rmi", "cvt.rmi.u64.f32"},
    {"cvta.u64.shared", "cvta.shared.u64"},
    {"div.f64.rm", "div.rm.f64"},
    {"ex2.f32.approx.ftz", "ex2.approx.ftz.f32"},
    {"fence.mbarrier_init.cluster.release", "fence.mbarrier_init.release.cluster"},
    {"fence.proxy.tensormap::generic.gpu.acquire", "fence.proxy.tensormap::generic.acquire.gpu"},
    {"fma.f16x2.ftz.rn", "fma.rn.ftz.f16x2"},
    {"getctarank.u32.shared::cluster", "getctarank.shared::cluster.u32"},
    {"ld.f32.shared", "ld.shared.f32"},
    {"ld.u32.global.gpu.relaxed", "ld.relaxed.gpu.global.u32"},
    {"ld.u32.v2.global", "ld.global.v2.u32"},
    {"ldmatrix.b16.trans.m8n8.sync.shared.aligned.x4", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"},
    {"mad.hi.s32.sat", "mad.hi.sat.s32"},
    {"mad.lo.u32.cc", "mad.lo.cc.u32"},
    {"match.sync.any.b32", "match.any.sync.b32"},
    {"max.NaN.ftz.f32.xorsign.abs", "max.ftz.NaN.xorsign.abs.f32"},
    {"mbarrier.arrive.b64.shared::cta", "mbarrier.arrive.shared::cta.b64"},
    {"mbarrier.expect_tx.cta.b64.shared::cta.relaxed", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64"},
    {"mbarrier.init.b64.shared", "mbarrier.init.shared.b64"},
    {"mbarrier.test_wait.parity.b64.shared::cta", "mbarrier.test_wait.parity.shared::cta.b64"},
    {"mbarrier.try_wait.parity.acquire.b64.cluster.shared::cta",
     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"},
    {"mma.row.m16n8k16.sync.f32.aligned.bf16.bf16.sp::ordered_metadata.f32.col",
     "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
    {"movmatrix.aligned.m8n8.trans.sync.b16", "movmatrix.sync.aligned.m8n8.trans.b16"},
    {"mul.f32.rn", "mul.rn.f32"},
    {"mul.f32x2.rz.ftz", "mul.rz.ftz.f32x2"},
    {"prmt.ecr.b32", "prmt.b32.ecr"},
    {"red.b32.global.gpu.relaxed.xor", "red.relaxed.gpu.global.xor.b32"},
    {"red.global.v2.f32.add", "red.global.add.v2.f32"},
    {"redux.max.f32.sync.NaN", "redux.sync.max.NaN.f32"},
    {"set.u32.lt.f32", "set.lt.u32.f32"},
    {"setmaxnreg.inc.u32.aligned.sync", "setmaxnreg.inc.sync.aligned.u32"},
    {"setp.and.u32.eq", "setp.eq.and.u32"},
    {"setp.f64.lt", "setp.lt.f64"},
    {"setp.u32.eq", "setp.eq.u32"},
    {"shf.l.b32.clamp", "shf.l.clamp.b32"},
    {"shfl.up.sync.b32", "shfl.sync.up.b32"},
    {"slct.b32.f32.ftz", "slct.ftz.b32.f32"},
    {"st.async.shared::cluster.b32.mbarrier::complete_tx::bytes",
     "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"},
    {"st.b32.shared::cluster", "st.shared::cluster.b32"},
    {"st.b32.v4", "st.v4.b32"},
    {"st.u8.local", "st.local.u8"},
    {"st.v4.shared.u32", "st.shared.v4.u32"},
    {"stmatrix.sync.aligned.x4.m8n8.shared.b16.trans", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"},
    {"stmatrix.sync.m8n8.b16.x1.aligned.shared", "stmatrix.sync.aligned.m8n8.x1.shared.b16"},
    {"sub.u32.cc", "sub.cc.u32"},
    {"tcgen05.alloc.aligned.sync.shared::cta.cta_group::1.b32",
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"},
    {"tcgen05.commit.shared::cluster.multicast::cluster.b64.cta_group::2.mbarrier::arrive::one",
     "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"},
    {"tcgen05.cp.128x256b.b8x16.b6x16_p32.cta_group::1", "tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32"},
    {"tcgen05.cp.cta_group::1.warpx4.32x128b", "tcgen05.cp.cta_group::1.32x128b.warpx4"},
    {"tcgen05.dealloc.aligned.sync.cta_group::2.b32", "tcgen05.dealloc.cta_group::2.sync.aligned.b32"},
    {"tcgen05.ld.aligned.pack::16b.x8.b32.32x32b.sync", "tcgen05.ld.sync.aligned.32x32b.x8.pack::16b.b32"},
    {"tcgen05.mma.block32.kind::mxf8f6f4.cta_group::1.block_scale",
     "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32"},
    {"tcgen05.relinquish_alloc_permit.cta_group::2.aligned.sync",
     "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned"},
    {"tcgen05.shift.down.cta_group::1", "tcgen05.shift.cta_group::1.down"},
    {"tcgen05.st.x16.b32.16x32bx2.sync.aligned", "tcgen05.st.sync.aligned.16x32bx2.x16.b32"},
    {"tcgen05.wait::ld.aligned.sync", "tcgen05.wait::ld.sync.aligned"},
    {"tensormap.cp_fenceproxy.sync.tensormap::generic.global.aligned.shared::cta.gpu.release",
     "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"},
    {"tensormap.replace.b1024.elemtype.shared::cta.b32.tile",
     "tensormap.replace.tile.elemtype.shared::cta.b1024.b32"},
    {"testp.f32.notanumber", "testp.notanumber.f32"},
    {"vote.ballot.b32.sync", "vote.sync.ballot.b32"},
    {"wgmma.commit_group.aligned.sync", "wgmma.commit_group.sync.aligned"},
    {"wgmma.mma_async.m64n8k16.f32.f16.sync.f16.aligned",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"},
    {"wgmma.wait_group.aligned.sync", "wgmma.wait_group.sync.aligned"},
};

// ptxas takes none of these: an order that carries meaning, or a name that is not in front.
constexpr const char* kRefused[] = {
    "mul.s32.wide",
    "mad.cc.lo.u32",
    "shf.wrap.l.b32",
    "cvta.global.to.u64",
    "div.ftz.full.f32",
    "bar.sync.cta",
    "bar.popc.red.u32",
    "barrier.arrive.cluster.aligned",
    "mbarrier.shared::cta.init.b64",
    "mbarrier.try_wait.acquire.parity.cluster.shared::cta.b64",
    "mbarrier.arrive.release.expect_tx.cta.shared::cta.b64",
    "fence.async.proxy",
    "tcgen05.cta_group::1.alloc.sync.aligned.shared::cta.b32",
    "tcgen05.sync.ld.aligned.32x32b.x2.b32",
    "wgmma.sync.mma_async.aligned.m64n8k16.f32.bf16.bf16",
    "cp.bulk.async.commit_group",
    "cp.async.bulk.2d.tensor.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cp.async.global.shared.ca",
    "setmaxnreg.sync.inc.aligned.u32",
    "cvt.u32.f32.rn",
    "cvt.rn.f32.bf16x2",
    "cvt.f32.rn.satfinite.e4m3x2",
    "mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k16.row.col.bf16.f32.bf16.f32",
    "tcgen05.cp.cta_group::1.128x256b.b6x16_p32.b8x16",
    "setp.eq.eq.u32",
    "fma.rn.rn.f32",
    "add.f32.f32",
};

TEST_CASE("modifiers in any order that ptxas takes") {
  for (const Order& order : kTaken) {
    CAPTURE(order.written);
    CHECK(spelling_of(order.written) == order.as_in_table);
  }
}

TEST_CASE("an order that carries meaning is not exchanged for another") {
  for (const char* const opcode : kRefused) {
    CAPTURE(opcode);
    CHECK(spelling_of(opcode) == "unknown");
  }
  // Both orders are instructions.
  CHECK(spelling_of("cvt.rni.s32.f32") == "cvt.rni.s32.f32");
  CHECK(spelling_of("cvt.f32.s32.rn") == "cvt.rn.f32.s32");
  CHECK(spelling_of("dp4a.u32.s32") == "dp4a.u32.s32");
  CHECK(spelling_of("dp4a.s32.u32") == "dp4a.s32.u32");
  CHECK(spelling_of("cp.async.bulk.global.bulk_group.shared::cta") ==
        "cp.async.bulk.global.shared::cta.bulk_group");
  CHECK(spelling_of("cp.async.bulk.shared::cta.mbarrier::complete_tx::bytes.global") ==
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes");
}

// What an opcode says by order: its types, spaces, layouts and eviction priorities, each in their order.
std::string ordered_words(const std::string& opcode) {
  std::istringstream words(opcode);
  std::string word, types, spaces, others;
  while (std::getline(words, word, '.')) {
    const bool space = word.starts_with("shared") || word == "global" || word == "local" || word == "const";
    const bool type = word.find_first_of("0123456789") != std::string::npos &&
                      word.find_first_of("subfet") == 0 && word.find(':') == std::string::npos;
    if (space) spaces += word + " ";
    if (type) types += word + " ";
    if (word == "row" || word == "col" || word.starts_with("L2::evict_")) others += word + " ";
  }
  return types + "; " + spaces + "; " + others;
}

TEST_CASE("no spelling of any row means another instruction in another order") {
  std::minstd_rand random(1);
  std::size_t taken = 0;
  for (const auto& row : InstructionTable::instance().rows()) {
    std::vector<std::string> words;
    for (const auto& choices : row.groups)
      if (const std::string& choice = choices[random() % choices.size()]; !choice.empty())
        words.push_back(choice);
    if (words.size() < 2) continue;
    const auto joined = [&] {
      std::string opcode = row.opcode;
      for (const std::string& word : words) opcode += "." + word;
      return opcode;
    };
    const std::string original = spelling_of(joined());
    for (int i = 0; i < 8; ++i) {
      std::shuffle(words.begin(), words.end(), random);
      const std::string opcode = joined(), meant = spelling_of(opcode);
      if (meant == "unknown") continue;
      CAPTURE(opcode);
      // Types in another order may be another instruction: that of the order written.
      if (meant != original) CHECK(ordered_words(meant) == ordered_words(opcode));
      if (meant != original) CHECK(ordered_words(meant) != ordered_words(original));
      ++taken;
    }
  }
  CHECK(taken > 1000);
}

TEST_CASE("another order computes the same, and errors name what is written") {
  const std::string body = R"(
  mov.u32 %r0, %tid.x;
  setp.u32.eq %p0, %r0, 3;
  cvt.f32.u32.rn %f0, %r0;
  fma.f32.rn %f0, %f0, %f0, 0f3F000000;
  @%p0 st.f32.global [%out], %f0;
  ret;)";
  const Run run = run_kernel(kernel_text(body), 1);
  REQUIRE_MESSAGE(run.failure().empty() != run.result.ok, run.failure());
  CHECK(run.output[0] == bits_of(9.5f));

  const Run mixed = run_kernel(kernel_text("fma.f32.rn.satfinite %f0, %f0, %f0, %f0; ret;"), 1);
  CHECK(mixed.load_error.find("`fma.f32.rn.satfinite` is not known") != std::string::npos);
}

TEST_CASE("what an instruction needs of the target does not hang on the order") {
  const auto refused = [](const std::string& statement, const char* needs) {
    std::string ptx = kernel_text(statement + " ret;");
    const std::size_t at = ptx.find("sm_100");
    REQUIRE(at != std::string::npos);
    ptx.replace(at, ptx.find_first_of(" \n", at) - at, "sm_90");
    const Run run = run_kernel(ptx, 1);
    const bool named = run.load_error.find(std::string("needs ") + needs) != std::string::npos;
    CHECK_MESSAGE(named, run.load_error);
  };
  refused("redux.f32.sync.min %f0, %f1, %r0;", "sm_100f or sm_100a");
  refused("fma.f32x2.rn %rd0, %rd1, %rd2, %rd3;", "sm_100");
  refused("ld.b32.global.v8 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%out];", "sm_100");
}

}  // namespace
}  // namespace jfa::simulator::test::modifier_order_test
