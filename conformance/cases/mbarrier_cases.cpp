// mbarriers as a thread can observe them, named barriers, cluster barriers, and asynchronous copies without
// tensors.
#include <fmt/format.h>

#include <cstring>

#include "conformance/operands.h"
#include "conformance/test_kernel.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kMaxWords = 64;

// A kernel of one thread that writes a word for each observation.
class Observer {
 public:
  Observer& step(const std::string& text) {
    code_ += text + "\n";
    return *this;
  }
  /// Appends a .b32 register.
  Observer& word(const std::string& value) {
    return step(fmt::format("st.global.b32 [%out+{}], {};", 4 * words_++, value));
  }
  Observer& parity(int parity) {
    step(fmt::format("mbarrier.test_wait.parity.shared::cta.b64 %p, [%bar], {};\nselp.b32 %v, 1, 0, %p;",
                     parity));
    return word("%v");
  }
  Observer& phase_is_over(const char* state) {
    step(fmt::format("mbarrier.test_wait.shared::cta.b64 %p, [%bar], {};\nselp.b32 %v, 1, 0, %p;", state));
    return word("%v");
  }
  Observer& pending(const char* state) {
    step(fmt::format("mbarrier.pending_count.b64 %v, {};", state));
    return word("%v");
  }
  TestKernel kernel() const {
    TestKernel kernel;
    kernel.block.x = 1;
    kernel.output_bytes = kMaxWords * 4;
    kernel.ptx =
        ".visible .entry test(.param .u64 out)\n{\n.reg .b32 %bar, %v; .reg .b64 %out, %s<4>; .reg .pred "
        "%p;\n"
        ".shared .align 8 .b64 barrier;\nmov.u32 %bar, barrier;\nld.param.u64 %out, [out];\n" +
        code_ + "ret;\n}\n";
    return kernel;
  }

 private:
  std::string code_;
  std::uint32_t words_ = 0;
};

TestKernel phases() {
  Observer o;
  o.step("mbarrier.init.shared::cta.b64 [%bar], 3;").parity(0).parity(1);
  for (int phase = 0; phase < 3; ++phase) {
    for (int arrival = 0; arrival < 3; ++arrival) {
      o.step(fmt::format("mbarrier.arrive.shared::cta.b64 %s{}, [%bar];", arrival));
      o.pending(arrival == 0 ? "%s0" : arrival == 1 ? "%s1" : "%s2").phase_is_over("%s0").parity(0).parity(1);
    }
  }
  return o.kernel();
}

TestKernel counts() {
  Observer o;
  o.step("mbarrier.init.shared::cta.b64 [%bar], 20;");
  o.step("mbarrier.arrive.shared::cta.b64 %s0, [%bar], 7;").pending("%s0").parity(1);
  o.step("mbarrier.arrive.noComplete.shared::cta.b64 %s1, [%bar], 12;").pending("%s1").phase_is_over("%s1");
  o.step("mbarrier.arrive.shared::cta.b64 %s2, [%bar];").pending("%s2").phase_is_over("%s1").parity(0);
  // A dropped arrival counts in this phase and lowers the next ones.
  o.step("mbarrier.arrive_drop.shared::cta.b64 %s0, [%bar], 18;").pending("%s0").parity(0);
  o.step("mbarrier.arrive.shared::cta.b64 %s1, [%bar], 2;").pending("%s1").parity(1).parity(0);
  o.step("mbarrier.arrive.shared::cta.b64 %s1, [%bar];").pending("%s1").parity(0).parity(1);
  o.step("mbarrier.arrive.shared::cta.b64 %s2, [%bar];").pending("%s2").parity(0).parity(1);
  o.step("mbarrier.inval.shared::cta.b64 [%bar];\nmbarrier.init.shared::cta.b64 [%bar], 1048575;");
  o.step("mbarrier.arrive.shared::cta.b64 %s0, [%bar], 1048574;").pending("%s0").phase_is_over("%s0");
  o.step("mbarrier.arrive.shared::cta.b64 %s1, [%bar];").pending("%s1").phase_is_over("%s0");
  return o.kernel();
}

TestKernel transactions() {
  Observer o;
  o.step("mbarrier.init.shared::cta.b64 [%bar], 1;");
  o.step("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 64;").parity(0).parity(1);
  o.step("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 48;").parity(0);
  o.step("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 16;").parity(0).parity(1);
  // Bytes before they are expected.
  o.step("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 32;").parity(1).parity(0);
  o.step("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 16;").parity(1);
  o.step("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;").parity(0).parity(1);
  o.step("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 1048575;").parity(0);
  o.step("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 1048575;");
  o.step("mbarrier.arrive.shared::cta.b64 %s0, [%bar];").pending("%s0").parity(0).parity(1);
  return o.kernel();
}

TestCase observed(const char* name, TestKernel (*make)()) { return {name, "mbarrier", Needs::kAny, make}; }

std::vector<std::byte> random_bytes(std::size_t count, std::string_view name) {
  Random random(seed_of(name));
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// A wait in a kernel whose thread 0 sets %first.
constexpr const char* kInitBarrier =
    "mov.u32 %bar, barrier;\nsetp.eq.u32 %first, %t, 0;\n@%first mbarrier.init.shared::cta.b64 [%bar], {};\n"
    "@%first fence.mbarrier_init.release.cluster;\n";

std::string async_kernel(const std::string& body, const char* inputs = ", .param .u64 in0",
                         const char* directives = "") {
  return fmt::format(
      ".visible .entry test(.param .u64 out{})\n{}{{\n.reg .b32 %t, %bar, %tile, %v<8>; .reg .b64 %out, %in, "
      "%a<4>;\n.reg .pred %first, %p;\n.reg .b16 %mask;\n.shared .align 1024 .b8 tile[4096];\n"
      ".shared .align 8 .b64 barrier;\nmov.u32 %t, %tid.x;\nmov.u32 %tile, tile;\n"
      "ld.param.u64 %out, [out];\n{}ret;\n}}\n",
      inputs, directives, body);
}

constexpr const char* kWaitPhase0 =
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\n";

// Threads write the tile's first 4 × threads bytes to their CTA's part of the output.
constexpr const char* kTileToOutput =
    "shl.b32 %v0, %t, 2;\nadd.u32 %v1, %tile, %v0;\nld.shared.b32 %v2, [%v1];\nmov.u32 %v3, %ctaid.x;\n"
    "mov.u32 %v4, %ntid.x;\nmad.lo.u32 %v3, %v3, %v4, %t;\nmad.wide.u32 %a0, %v3, 4, %out;\n"
    "st.global.b32 [%a0], %v2;\n";

TestKernel bulk_copy() {
  TestKernel kernel;
  kernel.block.x = 256;
  kernel.output_bytes = 2048;
  kernel.inputs.push_back(random_bytes(1024, "bulk copy"));
  kernel.ptx = async_kernel(
      fmt::format(fmt::runtime(kInitBarrier), 1) +
      "bar.sync 0;\nld.param.u64 %in, [in0];\n"
      "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;\n"
      "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%in], 1008, "
      "[%bar];\n"
      "add.u32 %v0, %tile, 1008;\nadd.u64 %a0, %in, 512;\n"
      "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%v0], [%a0], 16, "
      "[%bar];\n" +
      std::string(kWaitPhase0) + kTileToOutput +
      // and back to global memory, from where it was changed
      "bar.sync 0;\nadd.u32 %v2, %v2, 7;\nst.shared.b32 [%v1], "
      "%v2;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
      "add.u64 %a1, %out, 1024;\n@%first cp.async.bulk.global.shared::cta.bulk_group [%a1], [%tile], 1024;\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group.read 0;\n"
      "@%first cp.async.bulk.wait_group 0;\n");
  return kernel;
}

TestKernel bulk_reduction(const char* operation, std::size_t element_bytes, const char* name) {
  TestKernel kernel;
  kernel.block.x = 64;
  kernel.output_bytes = 256;
  const OperandType type = element_bytes == 4 && std::string_view(operation).ends_with("f32")
                               ? OperandType::kSmallF32
                           : std::string_view(operation).ends_with("bf16") ? OperandType::kBf16x2
                           : std::string_view(operation).ends_with("f16")  ? OperandType::kF16x2
                                                                           : OperandType::kU32;
  Random random(seed_of(name));
  for (int input = 0; input < 2; ++input) {
    std::vector<std::byte> bytes(256);
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      const std::uint64_t value = random_operand(type, random);
      std::memcpy(bytes.data() + i, &value, 4);
    }
    kernel.inputs.push_back(std::move(bytes));
  }
  kernel.ptx = async_kernel(
      fmt::format("setp.eq.u32 %first, %t, 0;\nld.param.u64 %in, [in0];\nmad.wide.u32 %a0, %t, 4, %in;\n"
                  "ld.global.b32 %v0, [%a0];\nmad.wide.u32 %a1, %t, 4, %out;\nst.global.b32 [%a1], %v0;\n"
                  "ld.param.u64 %in, [in1];\nmad.wide.u32 %a0, %t, 4, %in;\nld.global.b32 %v0, [%a0];\n"
                  "shl.b32 %v1, %t, 2;\nadd.u32 %v1, %tile, %v1;\nst.shared.b32 [%v1], %v0;\n"
                  "fence.proxy.async;\nbar.sync 0;\n"
                  "@%first cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [%out], [%tile], 256;\n"
                  "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n",
                  operation),
      ", .param .u64 in0, .param .u64 in1");
  return kernel;
}

TestKernel old_async_copy() {
  TestKernel kernel;
  kernel.block.x = 64;
  kernel.output_bytes = 256 * 4;
  kernel.inputs.push_back(random_bytes(1024, "cp.async"));
  kernel.ptx = async_kernel(
      "ld.param.u64 %in, [in0];\nmad.wide.u32 %a0, %t, 16, %in;\nshl.b32 %v0, %t, 4;\nadd.u32 %v1, %tile, "
      "%v0;\n"
      "and.b32 %v2, %t, 15;\n"
      "cp.async.cg.shared.global [%v1], [%a0], 16, %v2;\ncp.async.commit_group;\n"  // the rest is zero-filled
      "cp.async.ca.shared.global [%v1+1024], [%a0], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
      "ld.shared.v4.b32 {%v3, %v4, %v5, %v6}, [%v1];\ncp.async.wait_all;\nld.shared.b32 %v7, [%v1+1024];\n"
      "xor.b32 %v3, %v3, %v7;\nmad.wide.u32 %a1, %t, 16, %out;\nst.global.v4.b32 [%a1], {%v3, %v4, %v5, "
      "%v6};\n");
  return kernel;
}

// Each thread writes 16 bytes into the other CTA, which copies them out by a bulk store.
TestKernel cluster_vectors() {
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.grid.x = 2;
  kernel.cluster.x = 2;
  kernel.output_bytes = 1024;
  kernel.inputs.push_back(random_bytes(1024, "cluster vectors"));
  kernel.ptx = async_kernel(
      "setp.eq.u32 %first, %t, 0;\nmov.u32 %v7, %cluster_ctarank;\nld.param.u64 %in, [in0];\n"
      "mad.lo.u32 %v0, %v7, 32, %t;\nmad.wide.u32 %a0, %v0, 16, %in;\n"
      "ld.global.v4.b32 {%v1, %v2, %v3, %v4}, [%a0];\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "shl.b32 %v0, %t, 4;\nadd.u32 %v0, %tile, %v0;\nxor.b32 %v5, %v7, 1;\n"
      "mapa.shared::cluster.u32 %v6, %v0, %v5;\nst.shared::cluster.v4.b32 [%v6], {%v1, %v2, %v3, %v4};\n"
      "fence.proxy.async.shared::cluster;\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "mad.wide.u32 %a1, %v7, 512, %out;\n"
      "@%first cp.async.bulk.global.shared::cta.bulk_group [%a1], [%tile], 512;\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n");
  return kernel;
}

// Rank 1 arrives on rank 0's barrier and reads and writes its memory.
TestKernel cluster() {
  TestKernel kernel;
  kernel.block.x = 64;
  kernel.grid.x = 2;
  kernel.cluster.x = 2;
  kernel.output_bytes = 1024;
  kernel.inputs.push_back(random_bytes(512, "cluster"));
  kernel.ptx = async_kernel(
      "mov.u32 %bar, barrier;\nsetp.eq.u32 %first, %t, 0;\nmov.u32 %v7, %cluster_ctarank;\n"
      "@%first mbarrier.init.shared::cta.b64 [%bar], 64;\n@%first fence.mbarrier_init.release.cluster;\n"
      "ld.param.u64 %in, [in0];\nmad.lo.u32 %v0, %v7, 64, %t;\nmad.wide.u32 %a0, %v0, 4, %in;\n"
      "ld.global.b32 %v2, [%a0];\nshl.b32 %v3, %t, 2;\nadd.u32 %v4, %tile, %v3;\nst.shared.b32 [%v4], %v2;\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "xor.b32 %v5, %v7, 1;\nmapa.shared::cluster.u32 %v6, %v4, %v5;\nld.shared::cluster.b32 %v2, [%v6];\n"
      "st.shared::cluster.b32 [%v6+256], %v2;\natom.shared::cluster.add.u32 %v2, [%v6+256], 5;\n"
      "mapa.shared::cluster.u32 %v3, %bar, %v5;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, "
      "[%v3];\n"
      "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\n"
      "ld.shared.b32 %v2, [%v4+256];\nmad.wide.u32 %a1, %v0, 4, %out;\nst.global.b32 [%a1], %v2;\n"
      // What cluster addresses look like, rank in the high byte.
      "getctarank.shared::cluster.u32 %v2, %v6;\nshr.u32 %v3, %v6, 24;\nmad.lo.u32 %v2, %v2, 16, %v3;\n"
      "mov.u32 %v3, %cluster_nctarank;\nmad.lo.u32 %v2, %v2, 16, %v3;\nst.global.b32 [%a1+512], %v2;\n"
      "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n");
  return kernel;
}

TestKernel multicast() {
  TestKernel kernel;
  kernel.block.x = 128;
  kernel.grid.x = 2;
  kernel.cluster.x = 2;
  kernel.output_bytes = 1024;
  kernel.inputs.push_back(random_bytes(512, "multicast"));
  kernel.ptx = async_kernel(
      fmt::format(fmt::runtime(kInitBarrier), 1) +
      "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %v0, %cluster_ctarank;\n"
      "setp.eq.and.u32 %p, %v0, 1, %first;\nld.param.u64 %in, [in0];\nmov.b16 %mask, 3;\n"
      "@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], "
      "[%in], 512, "
      "[%bar], %mask;\n" +
      std::string(kWaitPhase0) + kTileToOutput +
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n");
  return kernel;
}

TestKernel remote_stores() {
  TestKernel kernel;
  kernel.block.x = 64;
  kernel.grid.x = 2;
  kernel.cluster.x = 2;
  kernel.output_bytes = 512;
  kernel.inputs.push_back(random_bytes(512, "st.async"));
  kernel.ptx = async_kernel(
      fmt::format(fmt::runtime(kInitBarrier), 1) +
      "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %v0, %cluster_ctarank;\n"
      "mad.lo.u32 %v1, %v0, 64, %t;\nld.param.u64 %in, [in0];\nmad.wide.u32 %a0, %v1, 4, %in;\n"
      "ld.global.b32 %v2, [%a0];\nxor.b32 %v3, %v0, 1;\nshl.b32 %v4, %t, 2;\nadd.u32 %v4, %tile, %v4;\n"
      "mapa.shared::cluster.u32 %v5, %v4, %v3;\nmapa.shared::cluster.u32 %v6, %bar, %v3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%v5], %v2, [%v6];\n" +
      std::string(kWaitPhase0) + kTileToOutput +
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n");
  return kernel;
}

// Two warpgroups: one gives registers away, the other takes them.
TestKernel register_pool() {
  TestKernel kernel;
  kernel.block.x = 256;
  kernel.output_bytes = 1024;
  kernel.ptx = async_kernel(
      "setp.lt.u32 %p, %t, 128;\n@!%p bra TAKE;\nsetmaxnreg.dec.sync.aligned.u32 40;\nmul.lo.u32 %v0, %t, "
      "3;\n"
      "bra DONE;\nTAKE: setmaxnreg.inc.sync.aligned.u32 160;\nmul.lo.u32 %v0, %t, 5;\nDONE: bar.sync 0;\n"
      "mad.wide.u32 %a0, %t, 4, %out;\nst.global.b32 [%a0], %v0;\n",
      "", ".maxntid 256\n.maxnreg 128\n");
  return kernel;
}

// Of a grid that depends on no other, and on which none depends.
TestKernel grid_dependencies() {
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.output_bytes = 128;
  kernel.ptx = async_kernel(
      "griddepcontrol.launch_dependents;\nmul.lo.u32 %v0, %t, 3;\ngriddepcontrol.wait;\n"
      "mad.wide.u32 %a0, %t, 4, %out;\nst.global.b32 [%a0], %v0;\n",
      "");
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t thread = 0; thread < 32; ++thread) {
    const std::uint32_t value = 3 * thread;
    std::memcpy(&kernel.expected[4 * thread], &value, 4);
  }
  return kernel;
}

TestKernel named_barriers() {
  TestKernel kernel;
  kernel.block.x = 128;
  kernel.output_bytes = 512;
  // Warps 0 and 1 hand values to warps 2 and 3 through barrier 3, which answer through barrier 4.
  kernel.ptx = async_kernel(
      "setp.lt.u32 %p, %t, 64;\nand.b32 %v0, %t, 63;\nshl.b32 %v0, %v0, 2;\nadd.u32 %v1, %tile, %v0;\n"
      "@!%p bra RECEIVE;\nmul.lo.u32 %v2, %t, 2654435761;\nst.shared.b32 [%v1], %v2;\nbar.arrive 3, 128;\n"
      "barrier.sync 4, 128;\nld.shared.b32 %v2, [%v1+256];\nbra DONE;\n"
      "RECEIVE: bar.sync 3, 128;\nld.shared.b32 %v2, [%v1];\nxor.b32 %v3, %v2, 0x5a;\nst.shared.b32 "
      "[%v1+256], %v3;\n"
      "barrier.arrive 4, 128;\nDONE: mad.wide.u32 %a0, %t, 4, %out;\nst.global.b32 [%a0], %v2;\n",
      "");
  return kernel;
}

TestKernel barrier_reductions() {
  TestKernel kernel;
  kernel.block.x = 96;
  kernel.output_bytes = 96 * 4;
  kernel.ptx = async_kernel(
      "and.b32 %v0, %t, 5;\nsetp.eq.u32 %p, %v0, 1;\nbarrier.cta.red.popc.aligned.u32 %v1, 0, %p;\n"
      "barrier.cta.red.or.aligned.pred %first, 0, %p;\nselp.b32 %v2, 1, 0, %first;\n"
      "barrier.cta.red.and.aligned.pred %first, 0, %p;\nselp.b32 %v3, 1, 0, %first;\n"
      "mad.lo.u32 %v1, %v1, 10, %v2;\nmad.lo.u32 %v1, %v1, 10, %v3;\nmad.wide.u32 %a0, %t, 4, %out;\n"
      "st.global.b32 [%a0], %v1;\n",
      "");
  return kernel;
}

}  // namespace

void add_mbarrier_cases(std::vector<TestCase>& cases) {
  cases.push_back(observed("mbarrier phases and states", phases));
  cases.push_back(observed("mbarrier counts", counts));
  cases.push_back(observed("mbarrier transactions", transactions));
  cases.push_back({"setmaxnreg", "mbarrier", Needs::kAny, register_pool});
  cases.push_back({"griddepcontrol", "mbarrier", Needs::kAny, grid_dependencies});
  cases.push_back({"named barriers", "mbarrier", Needs::kAny, named_barriers});
  cases.push_back({"barrier.cta.red", "mbarrier", Needs::kAny, barrier_reductions});
  cases.push_back({"cp.async with zero fill", "copy", Needs::kAny, old_async_copy});
  cases.push_back({"cp.async.bulk in and out", "copy", Needs::kAny, bulk_copy});
  cases.push_back({"cp.async.bulk multicast", "copy", Needs::kAny, multicast});
  cases.push_back({"st.async", "copy", Needs::kAny, remote_stores});
  cases.push_back({"distributed shared memory", "copy", Needs::kAny, cluster});
  cases.push_back({"vectors into distributed shared memory", "copy", Needs::kAny, cluster_vectors});
  for (const char* operation : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32",
                                "add.f32", "add.noftz.f16", "add.noftz.bf16", "min.f16", "max.bf16"}) {
    const std::string name = fmt::format("cp.reduce.async.bulk.global {}", operation);
    cases.push_back({name, "copy", Needs::kAny,
                     [operation, name] { return bulk_reduction(operation, 4, name.c_str()); }});
  }
}

}  // namespace jfa::conformance
