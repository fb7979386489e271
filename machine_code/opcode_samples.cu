// Instructions that our kernels may come to use: opcode_table.py compiles this file for their machine code,
// nobody runs it. One kernel a family; results are stored, lest the compiler drop them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u32 = unsigned;
using u64 = unsigned long long;

__device__ inline u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

extern "C" __global__ void scalar_arithmetic(float* f, int* i, double* d, int n) {
  const int t = threadIdx.x;
  f[0] = fmaf(f[t], f[t + 1], f[t + 2]);
  f[1] = f[t] + f[t + 3], f[2] = f[t] * f[t + 4];
  f[3] = fmaxf(f[t], f[t + 5]), f[4] = fminf(fminf(f[t], f[t + 6]), f[t + 7]);
  f[5] = f[t] > f[t + 8] ? 1.0f : f[t + 9];
  f[6] = __sinf(f[t]) + __cosf(f[t + 1]) + __log2f(f[t + 2]) + exp2f(f[t + 3]) + rsqrtf(f[t]) +
         sqrtf(f[t + 5]) / f[t];
  f[7] = floorf(f[t]) + rintf(f[t + 1]) + static_cast<float>(i[t]) + fabsf(f[t + 2]);
  i[0] = __popc(i[t]) + __clz(i[t + 1]) + __brev(i[t + 2]) + __ffs(i[t + 3]) + abs(i[t + 4]);
  i[1] = i[t] / n + i[t + 1] % n + __mulhi(i[t], i[t + 2]) + __byte_perm(i[t], i[t + 1], n);
  i[2] = static_cast<int>(f[t]) + __dp4a(i[t], i[t + 1], i[t + 2]) + min(max(i[t], n), i[t + 3]);
  i[3] = __funnelshift_l(i[t], i[t + 1], n) + __vadd4(i[t], n) + __vmaxs2(i[t], n) + __sad(i[t], i[t + 1], n);
  d[0] =
      fma(d[t], d[t + 1], d[t + 2]) + d[t] * d[t + 3] + (d[t] > d[t + 1] ? d[t] : static_cast<double>(i[t]));
  reinterpret_cast<u64*>(d)[1] = reinterpret_cast<u64*>(d)[t] * n + static_cast<u64>(d[t]);
}

extern "C" __global__ void narrow_arithmetic(__half2* h, __nv_bfloat162* b, float* f) {
  const int t = threadIdx.x;
  h[0] = __hfma2(h[t], h[t + 1], h[t + 2]), h[1] = __hadd2(h[t], h[t + 3]), h[2] = __hmul2(h[t], h[t + 4]);
  h[3] = __hmax2(h[t], h[t + 5]), h[4] = __hgt2(h[t], h[t + 6]), h[5] = h2exp2(h[t]);
  b[0] = __hfma2(b[t], b[t + 1], b[t + 2]), b[1] = __hadd2(b[t], b[t + 3]), b[2] = __hmul2(b[t], b[t + 4]);
  b[3] = __hmax2(b[t], b[t + 5]), b[4] = __floats2bfloat162_rn(f[t], f[t + 1]), b[5] = h2exp2(b[t]);
  h[6] = __floats2half2_rn(f[t], f[t + 1]);
  h[7] = __hgt(h[t].x, h[t].y) ? h[t + 1] : h[t + 2];
}

extern "C" __global__ void warp_operations(u32* out, const u32* in, u64* wide) {
  const u32 v = in[threadIdx.x];
  u32 r = __shfl_xor_sync(~0u, v, 1) + __shfl_sync(~0u, v, v & 31) + __ballot_sync(~0u, v > 3) +
          __any_sync(~0u, v > 5);
  r += __reduce_add_sync(~0u, v) + __reduce_max_sync(~0u, v) + __match_any_sync(~0u, v) + __activemask();
  u32 lane, moved;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved) : "r"(v));
  out[threadIdx.x] = r + lane + moved;
  wide[threadIdx.x] = clock64();
  __nanosleep(100);
}

extern "C" __global__ void memory_operations(u32* global, u64* wide, float* floats, const u32* in) {
  __shared__ __align__(128) u32 shared[1024];
  const u32 t = threadIdx.x, address = shared_address(shared);
  u32 a, b, c, d;
  shared[t] = in[t];
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(
          address),
      "l"(in));
  __syncthreads();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address + t * 16));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address + t * 16),
               "r"(a), "r"(b), "r"(c), "r"(d));
  global[t] = atomicAdd(global, a) + atomicCAS(global + 1, b, c) + atomicAdd(shared + 5, d) +
              atomicExch(shared + t, 3u);
  atomicAdd(floats, 1.0f), atomicMax(global + 3, a), atomicAdd(wide, 5ull);
  asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" ::"l"(floats), "f"(1.0f) : "memory");
  asm volatile("prefetch.global.L2 [%0]; discard.global.L2 [%0], 128;" ::"l"(in));
  asm volatile(
      "fence.acq_rel.gpu; fence.acq_rel.sys; fence.proxy.async; fence.mbarrier_init.release.cluster;" ::
          : "memory");
  asm volatile("bar.sync 1, 64; barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  asm volatile(
      "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, 1; st.shared::cluster.u32 [r], %1; "
      "ld.shared::cluster.u32 %1, [r]; }"
      :
      : "r"(address), "r"(a)
      : "memory");
  float local[64];
  for (u32 i = 0; i < 64; ++i) local[i * a % 64] = floats[i];
  floats[t] = local[t % 64];
}

extern "C" __global__ void bulk_copies(u32* global, const __grid_constant__ u64 map) {
  __shared__ __align__(128) u32 shared[1024];
  const u32 s = shared_address(shared), barrier = s + 2048;
  const void* m = &map;
  asm volatile(
      "mbarrier.init.shared.b64 [%0], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512; "
      "mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(s),
      "l"(global), "r"(barrier)
      : "memory");
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(global), "r"(s)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%0], 512, [%1];" ::"r"(
          s),
      "r"(barrier)
      : "memory");
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;" ::"l"(global),
               "r"(s)
               : "memory");
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 512;" ::"l"(global) : "memory");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], "
      "[%3];" ::"r"(s),
      "l"(m), "r"(0), "r"(barrier)
      : "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];" ::"l"(m), "r"(0),
               "r"(s)
               : "memory");
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %1}], [%2];" ::"l"(m),
      "r"(0), "r"(s)
      : "memory");
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %1}]; prefetch.tensormap [%0];" ::"l"(m),
               "r"(0)
               : "memory");
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;" ::
                   : "memory");
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void matrix_operations(float* f, const u32* in) {
  u32 a[4] = {in[0], in[1], in[2], in[3]};
  float c[4] = {};
  int k[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
      : "+r"(k[0]), "+r"(k[1]), "+r"(k[2]), "+r"(k[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  for (int i = 0; i < 4; ++i) f[threadIdx.x * 4 + i] = c[i] + static_cast<float>(k[i]);
}

#if __CUDA_ARCH__ >= 1000
extern "C" __global__ void packed_arithmetic(u64* p, float* f) {
  const int t = threadIdx.x;
  u64 r;
  asm volatile("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(r) : "l"(p[t]), "l"(p[t + 1]), "l"(p[t + 2]));
  p[0] = r;
  asm volatile("add.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(p[t]), "l"(p[t + 3]));
  p[1] = r;
  asm volatile("mul.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(p[t]), "l"(p[t + 4]));
  p[2] = r;
  asm volatile("max.f32 %0, %1, %2, %3;" : "=f"(f[0]) : "f"(f[t]), "f"(f[t + 1]), "f"(f[t + 2]));
}

extern "C" __global__ void tensor_memory(u32* out, u64 descriptor) {
  __shared__ __align__(128) u32 shared[64];
  const u32 s = shared_address(shared);
  u32 a, b, instruction = out[5];
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128; "
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(s)
      : "memory");
  const u32 memory = shared[0];
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0,%1}, [%2]; tcgen05.wait::ld.sync.aligned;"
               : "=r"(a), "=r"(b)
               : "r"(memory)
               : "memory");
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1,%2}; tcgen05.wait::st.sync.aligned;" ::"r"(memory),
      "r"(a), "r"(b)
      : "memory");
  asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(memory), "l"(descriptor) : "memory");
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %3, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; "
      "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; tcgen05.mma.cta_group::1.kind::tf32 [%0], "
      "%1, %2, %3, p; }" ::"r"(memory),
      "l"(descriptor), "l"(descriptor), "r"(instruction)
      : "memory");
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %3, 0; tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%0], %1, "
      "%2, %3, [%0], [%0], p; tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%0], %1, %2, %3, [%0], [%0], "
      "p; }" ::"r"(memory),
      "l"(descriptor), "l"(descriptor), "r"(instruction)
      : "memory");
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(s + 64)
               : "memory");
  asm volatile(
      "tcgen05.fence::after_thread_sync; tcgen05.fence::before_thread_sync; "
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(memory)
      : "memory");
  asm volatile(
      "{ .reg .pred p; clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
      "[%0], [%1]; }" ::"r"(s),
      "r"(s + 64)
      : "memory");
  out[threadIdx.x] = a + b;
}
#else
extern "C" __global__ void warpgroup_products(float* out, u64 descriptor) {
  float c[4] = {};
  int k[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "l"(descriptor));
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, %4, %4, 1, 1, 1;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "l"(descriptor));
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0,%1,%2,%3}, %4, %4, 1;"
               : "+r"(k[0]), "+r"(k[1]), "+r"(k[2]), "+r"(k[3])
               : "l"(descriptor));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = c[i] + static_cast<float>(k[i]);
}
#endif
