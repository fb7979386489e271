#include "tools/jfa_sim/ptx_catalogue.h"

namespace jfa::sim {
namespace {

constexpr Family kFamilies[] = {
    {"integer",
     "add.s32 sub.s32 mul.lo.s32 mul.hi.u64 mul.wide.u32 mad.lo.s32 mad.hi.u32 mad.wide.u32 mul24 mad24 sad "
     "div.s32 "
     "rem.s32 abs.s32 neg.s32 min.s32 max.s32 min.s16x2 popc clz bfind fns brev bfe bfi bmsk szext dp4a "
     "dp2a"},
    {"extended-precision integer", "add.cc addc sub.cc subc mad.cc madc"},
    {"float",
     "testp copysign add.f32 add.f64 sub.f32 mul.f32 fma.f32 fma.f64 fma.f32x2 mad.f32 div.rn.f32 "
     "div.approx.f32 "
     "div.full.f32 div.f64 abs.f32 neg.f32 min.f32 max.f32 rcp.f32 rcp.approx.ftz.f64 sqrt.f32 "
     "rsqrt.approx.f32 "
     "sin.approx.f32 cos.approx.f32 lg2.approx.f32 ex2.approx.f32 tanh.approx.f32"},
    {"half precision",
     "add.f16 add.f16x2 add.bf16 add.bf16x2 sub.f16x2 mul.bf16x2 fma.f16x2 fma.bf16x2 fma.relu.f16x2 "
     "neg.f16x2 "
     "abs.bf16x2 min.f16x2 max.bf16x2 tanh.approx.f16x2 ex2.approx.f16x2 ex2.approx.ftz.bf16x2"},
    {"mixed precision", "add.f32.bf16 sub.f32.f16 fma.f32.f16"},
    {"comparison and selection", "set.f32 setp.s32 setp.f32 setp.f16x2 selp slct"},
    {"logic and shift", "and or xor not cnot lop3 shf.l shf.r shl shr prmt"},
    {"data movement",
     "mov ld.global ld.shared ld.shared::cluster ld.local ld.param ld.const ld.global.nc ld.acquire "
     "ld.relaxed "
     "ld.volatile ldu st.global st.shared st.shared::cluster st.local st.release st.async st.bulk red.async "
     "multimem.ld_reduce multimem.st multimem.red prefetch prefetchu applypriority discard createpolicy "
     "isspacep "
     "cvta mapa getctarank"},
    {"conversion",
     "cvt.f32.f16 cvt.rn.bf16.f32 cvt.rn.bf16x2.f32 cvt.rna.tf32.f32 cvt.e4m3x2.f32 cvt.e5m2x2.f32 "
     "cvt.e2m1x2.f32 cvt.e2m3x2.f32 cvt.e3m2x2.f32 cvt.ue8m0x2.f32 cvt.rs.f16x2.f32 cvt.pack"},
    {"asynchronous copy",
     "cp.async.ca cp.async.cg cp.async.commit_group cp.async.wait_group cp.async.wait_all "
     "cp.async.bulk.shared::cluster.global cp.async.bulk.shared::cta.global cp.async.bulk.global.shared::cta "
     "cp.async.bulk.shared::cluster.shared::cta cp.reduce.async.bulk.global "
     "cp.reduce.async.bulk.shared::cluster "
     "cp.async.bulk.prefetch cp.async.bulk.commit_group cp.async.bulk.wait_group"},
    {"tensor copy",
     "cp.async.bulk.tensor.tile cp.async.bulk.tensor.multicast::cluster cp.async.bulk.tensor.im2col "
     "cp.async.bulk.tensor.tile::gather4 cp.async.bulk.tensor.tile::scatter4 cp.async.bulk.tensor.global "
     "cp.reduce.async.bulk.tensor cp.async.bulk.prefetch.tensor tensormap.replace tensormap.cp_fenceproxy"},
    {"control flow", "bra brx.idx call ret exit"},
    {"barriers",
     "bar.sync bar.arrive bar.red bar.warp.sync barrier.sync barrier.arrive barrier.red "
     "barrier.cluster.arrive "
     "barrier.cluster.wait"},
    {"mbarrier",
     "mbarrier.init mbarrier.inval mbarrier.expect_tx mbarrier.complete_tx mbarrier.arrive "
     "mbarrier.arrive.expect_tx mbarrier.arrive.noComplete mbarrier.arrive_drop mbarrier.test_wait "
     "mbarrier.test_wait.parity mbarrier.try_wait mbarrier.try_wait.parity mbarrier.pending_count "
     "cp.async.mbarrier.arrive"},
    {"fences",
     "membar fence.sc fence.acq_rel fence.acquire fence.release fence.mbarrier_init fence.proxy.async "
     "fence.proxy.alias fence.proxy.tensormap::generic"},
    {"atomics",
     "atom.global atom.shared atom.shared::cluster atom.cas atom.exch atom.add.f32 atom.add.f16x2 "
     "atom.add.v4.f32 "
     "red.global red.shared red.add.f32 red.add.v4.f32"},
    {"warp-wide",
     "shfl.sync vote.sync match.any.sync match.all.sync activemask redux.sync.add redux.sync.max.f32 "
     "elect.sync"},
    {"clusters and grids",
     "clusterlaunchcontrol.try_cancel clusterlaunchcontrol.query_cancel griddepcontrol"},
    {"warp matrix",
     "wmma.load wmma.store wmma.mma mma.sync mma.sync.s4 mma.sync.kind::mxf8f6f4 mma.sp "
     "mma.sp::ordered_metadata mma.sp.s4 mma.sp::ordered_metadata.kind::mxf8f6f4 ldmatrix.sync stmatrix.sync "
     "movmatrix.sync"},
    {"wgmma",
     "wgmma.mma_async wgmma.mma_async.sp wgmma.fence wgmma.commit_group wgmma.wait_group setmaxnreg.inc "
     "setmaxnreg.dec"},
    {"tcgen05",
     "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.ld tcgen05.ld.red tcgen05.st "
     "tcgen05.wait::ld tcgen05.wait::st tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync "
     "tcgen05.cp tcgen05.shift tcgen05.commit tcgen05.mma.kind::f16 tcgen05.mma.kind::tf32 "
     "tcgen05.mma.kind::f8f6f4 tcgen05.mma.kind::i8 tcgen05.mma.kind::mxf8f6f4.block_scale "
     "tcgen05.mma.kind::mxf4.block_scale tcgen05.mma.kind::mxf4nvf4.block_scale tcgen05.mma.cta_group::2 "
     "tcgen05.mma.sp tcgen05.mma.ws tcgen05.mma.ws.sp tcgen05.mma.kind::f16.ashift "
     "tcgen05.mma.sp.kind::mxf8f6f4.block_scale tcgen05.cp.4x256b tcgen05.cp.128x256b.b8x16.b4x16_p64"},
    {"stack", "alloca stacksave stackrestore"},
    {"textures and surfaces", "tex tld4 txq istypep suld sust sured suq"},
    {"video", "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vadd4"},
    {"miscellaneous", "brkpt nanosleep pmevent trap"}};

// By the start of the instruction.
struct Reason {
  std::string_view start, why;
};
constexpr Reason kReasons[] = {
    {"setp.f16x2", "compilers compare halves one by one"},
    {"multimem.", "memory of several devices; one device is simulated"},
    {"cvt.rs.", "the bits of stochastic rounding are not documented"},
    {"cvt.pack", "no kernel of attention, GEMM or reduction was seen to use it"},
    {"cp.reduce.async.bulk.shared::cluster", "red.async and st.async do what was seen of it"},
    {"cp.async.bulk.tensor.im2col", "convolutions only"},
    {"wmma.", "the older interface to what mma.sync does; no kernel was seen to use it"},
    {"mma.sync.s4", "4-bit integers: Hopper and Blackwell have no product of them, compilers take it apart"},
    {"mma.sync.kind::mxf8f6f4", "sm_120 only"},
    {"mma.sp.s4", "4-bit integers: Hopper and Blackwell have no product of them, compilers take it apart"},
    {"mma.sp::ordered_metadata.kind::mxf8f6f4", "sm_120 only"},
    {"tcgen05.ld.red", "sm_103 and later"},
    {"tcgen05.mma.kind::f16.ashift",
     "whether it multiplies the shifted rows or leaves them behind in tensor memory is not documented"},
    {"alloca", "stacks of unknown size; local variables are simulated"},
    {"stack", "stacks of unknown size; local variables are simulated"},
    {"tex", "graphics"},
    {"tld4", "graphics"},
    {"txq", "graphics"},
    {"istypep", "graphics"},
    {"su", "graphics"},
    {"v", "video"},
};

}  // namespace

std::string_view why_not_supported(std::string_view instruction) {
  for (const Reason& reason : kReasons)
    if (instruction.starts_with(reason.start)) return reason.why;
  return {};
}

std::span<const Family> ptx_families() { return kFamilies; }

}  // namespace jfa::sim
