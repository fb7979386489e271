#include "conformance/tensor_program.h"

#include <fmt/format.h>

#include <cstring>

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kSharedOffset = 1024;

// {0}: cta_group::N. {1}: columns to allocate. {2}: bytes of a lane to fill. {3}: bytes of a lane. {4}: bytes
// of shared memory of a CTA. {5}: what is issued. {6}: a barrier of all CTAs. {7}: .multicast::cluster. {8}:
// its mask. {9}: the thread that issues, of all. {10}: what it issues behind its commit.
constexpr const char* kKernel = R"(.extern .shared .align 1024 .b8 smem[];
.visible .entry test(.param .u64 tensor_out, .param .u64 shared_in, .param .u64 tensor_in)
.reqntid 128
{{
  .reg .pred %p, %q, %more, %first, %warp0;
  .reg .b16 %mask;
  .reg .b32 %local, %warp, %rank, %base, %bar, %i, %v<8>, %t, %mine, %thread, %b<8>;
  .reg .b64 %s, %from, %to, %a<8>;
  mov.u32 %local, %tid.x;
  shr.u32 %warp, %local, 5;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %bar, smem;
  add.u32 %base, %bar, 1024;
  setp.eq.u32 %first, %local, 0;
  setp.eq.u32 %warp0, %warp, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  ld.param.b64 %from, [shared_in];
  mul.wide.u32 %a0, %rank, {4};
  add.s64 %from, %from, %a0;
  shl.b32 %i, %local, 4;
COPY:
  setp.ge.u32 %more, %i, {4};
  @%more bra COPIED;
  cvt.u64.u32 %a0, %i;
  add.s64 %a0, %from, %a0;
  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%a0];
  add.u32 %v4, %base, %i;
  st.shared.v4.b32 [%v4], {{%v0, %v1, %v2, %v3}};
  add.u32 %i, %i, 2048;
  bra COPY;
COPIED:
  fence.proxy.async.shared::cta;
  {6}  // an allocation of a pair needs the peer to run
  @!%warp0 bra ALLOCATED;
  tcgen05.alloc.{0}.sync.aligned.shared::cta.b32 [%bar+8], {1};
  tcgen05.relinquish_alloc_permit.{0}.sync.aligned;
  tcgen05.fence::before_thread_sync;
ALLOCATED:
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.b32 %t, [%bar+8];
  shl.b32 %mine, %warp, 21;
  add.u32 %mine, %mine, %t;
  shl.b32 %thread, %rank, 7;
  add.u32 %thread, %thread, %local;
  ld.param.b64 %from, [tensor_in];
  mad.wide.u32 %from, %thread, {2}, %from;
  mov.b32 %i, 0;
FILL:
  setp.ge.u32 %more, %i, {2};
  @%more bra FILLED;
  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%from];
  ld.global.v4.b32 {{%v4, %v5, %v6, %v7}}, [%from+16];
  shr.u32 %b0, %i, 2;
  add.u32 %b0, %b0, %mine;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%b0], {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}};
  add.s64 %from, %from, 32;
  add.u32 %i, %i, 32;
  bra FILL;
FILLED:
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  {6}
  setp.eq.u32 %more, %thread, {9};
  @!%more bra ISSUED;
  tcgen05.fence::after_thread_sync;
  and.b32 %b0, %base, 262143;
  shr.u32 %b0, %b0, 4;
  cvt.u64.u32 %s, %b0;
  setp.eq.u32 %p, 0, 0;
  setp.ne.u32 %q, 0, 0;
{5}
  mov.b16 %mask, 3;
  tcgen05.commit.{0}.mbarrier::arrive::one.shared::cluster{7}.b64 [%bar]{8};
{10}
ISSUED:
  bar.warp.sync -1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %more, [%bar], 0;
  @!%more bra WAIT;
  tcgen05.fence::after_thread_sync;
  ld.param.b64 %to, [tensor_out];
  mad.wide.u32 %to, %thread, {3}, %to;
  mov.b32 %i, 0;
OUT:
  shr.u32 %b0, %i, 2;
  add.u32 %b0, %b0, %mine;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}}, [%b0];
  tcgen05.wait::ld.sync.aligned;
  st.global.v4.b32 [%to], {{%v0, %v1, %v2, %v3}};
  st.global.v4.b32 [%to+16], {{%v4, %v5, %v6, %v7}};
  add.s64 %to, %to, 32;
  add.u32 %i, %i, 32;
  setp.lt.u32 %more, %i, {3};
  @%more bra OUT;
  tcgen05.fence::before_thread_sync;
  {6}
  @!%warp0 bra DONE;
  tcgen05.fence::after_thread_sync;
  tcgen05.dealloc.{0}.sync.aligned.b32 %t, {1};
DONE:
  ret;
}}
)";

std::vector<std::byte> bytes_of(const std::vector<std::uint32_t>& words) {
  std::vector<std::byte> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

}  // namespace

TestKernel kernel_of(const TensorProgram& p) {
  const auto ctas = static_cast<std::uint32_t>(p.shared.size());
  const std::uint32_t threads = ctas * kTensorProgramLanes;
  std::uint32_t allocated = 32;
  while (allocated < p.columns) allocated *= 2;
  TestKernel kernel;
  kernel.grid.x = kernel.cluster.x = ctas;
  kernel.block.x = kTensorProgramLanes;
  kernel.output_bytes = std::size_t{threads} * p.columns * 4;
  std::vector<std::byte> shared;
  for (const auto& image : p.shared) shared.insert(shared.end(), image.begin(), image.end());
  const auto shared_bytes = static_cast<std::uint32_t>(p.shared[0].size());
  kernel.dynamic_shared_bytes = kSharedOffset + shared_bytes;
  std::vector<std::uint32_t> filled;  // what is stored, without what is not
  for (std::uint32_t thread = 0; thread < threads; ++thread)
    filled.insert(filled.end(), p.tensor.begin() + thread * p.columns,
                  p.tensor.begin() + thread * p.columns + p.filled_columns);
  filled.resize(filled.size() + 8);  // none is no buffer
  kernel.inputs = {std::move(shared), bytes_of(filled)};
  if (!p.expected.empty()) kernel.expected = bytes_of(p.expected);
  const bool pair = ctas == 2;
  kernel.ptx = fmt::format(
      fmt::runtime(kKernel), p.cta_group(), allocated, p.filled_columns * 4, p.columns * 4, shared_bytes,
      p.issue, pair ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" : "bar.sync 0;",
      pair ? ".multicast::cluster" : "", pair ? ", %mask" : "", p.issuer * kTensorProgramLanes,
      p.uncommitted);
  return kernel;
}

}  // namespace jfa::conformance
