// What it costs on compute capability 9.0 to add up accumulators of two CTAs through the cluster's shared
// memory: each holds 128 x 128 fp32 of both gradients of a tile of keys, over its half of the queries, and
// finishes one of them, so that 64 KiB a tile go each way.
//
//     nvcc -O3 -std=c++17 -arch=sm_90a bench/cluster_exchange.cu -o cluster_exchange && ./cluster_exchange
//
// Prints the cycles of an exchange, median and spread over all CTAs of a full device, by two ways: stores to
// the peer's shared memory by all threads, and a bulk copy of what was staged in the own one.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

namespace {

constexpr int kThreads = 256;
constexpr int kFloats = 128 * 128;        // of one gradient of one tile
constexpr int kOwn = kFloats / kThreads;  // a thread's
constexpr int kBytes = kFloats * sizeof(float);
constexpr int kRounds = 256;

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ unsigned mapa(unsigned address, unsigned rank) {
  unsigned mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

__device__ void wait(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

template <bool kBulk>
__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1) exchange(long long* cycles, float* out) {
  extern __shared__ __align__(128) unsigned char bytes[];
  __shared__ unsigned long long arrived;
  float* const inbox = reinterpret_cast<float*>(bytes);            // what the peer sends
  float* const staged = reinterpret_cast<float*>(bytes + kBytes);  // what goes to the peer, with a bulk copy
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned peer = cluster.block_rank() ^ 1;
  const unsigned barrier = shared_address(&arrived);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(kBulk ? 1 : kThreads)
                 : "memory");
  float mine[kOwn], theirs[kOwn];
  for (int i = 0; i < kOwn; ++i) mine[i] = theirs[i] = static_cast<float>(threadIdx.x + i);
  cluster.sync();
  const unsigned remote_inbox = mapa(shared_address(inbox), peer);
  const unsigned remote_barrier = mapa(barrier, peer);
  const long long begin = clock64();
  for (int round = 0; round < kRounds; ++round) {
    if (kBulk && threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kBytes)
                   : "memory");
    for (int i = 0; i < kOwn; i += 4) {
      const int place = (i * kThreads + 4 * static_cast<int>(threadIdx.x)) * static_cast<int>(sizeof(float));
      if (kBulk) {
        *reinterpret_cast<float4*>(reinterpret_cast<unsigned char*>(staged) + place) =
            make_float4(theirs[i], theirs[i + 1], theirs[i + 2], theirs[i + 3]);
      } else {
        asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(remote_inbox + place),
                     "f"(theirs[i]), "f"(theirs[i + 1]), "f"(theirs[i + 2]), "f"(theirs[i + 3])
                     : "memory");
      }
    }
    if (kBulk) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      if (threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                "r"(remote_inbox),
            "r"(shared_address(staged)), "r"(kBytes), "r"(remote_barrier)
            : "memory");
    } else {
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_barrier)
                   : "memory");
    }
    wait(barrier, round & 1);
    for (int i = 0; i < kOwn; i += 4) {
      const float4 sum = *reinterpret_cast<const float4*>(reinterpret_cast<unsigned char*>(inbox) +
                                                          (i * kThreads + 4 * static_cast<int>(threadIdx.x)) *
                                                              sizeof(float));
      mine[i] += sum.x, mine[i + 1] += sum.y, mine[i + 2] += sum.z, mine[i + 3] += sum.w;
    }
    cluster.sync();  // the inbox is free again
  }
  const long long end = clock64();
  float sum = 0;
  for (int i = 0; i < kOwn; ++i) sum += mine[i];
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
  if (threadIdx.x == 0) cycles[blockIdx.x] = (end - begin) / kRounds;
}

template <bool kBulk>
bool measure(const char* way, int ctas) {
  const int bytes = 2 * kBytes;
  long long* cycles = nullptr;
  float* out = nullptr;
  std::vector<long long> all(static_cast<std::size_t>(ctas));
  cudaFuncSetAttribute(exchange<kBulk>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaMalloc(&cycles, all.size() * sizeof(long long));
  cudaMalloc(&out, all.size() * kThreads * sizeof(float));
  for (int run = 0; run < 3; ++run) exchange<kBulk><<<ctas, kThreads, bytes>>>(cycles, out);
  cudaMemcpy(all.data(), cycles, all.size() * sizeof(long long), cudaMemcpyDeviceToHost);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", way, cudaGetErrorString(error));
    return false;
  }
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) { return all[static_cast<std::size_t>(share * (all.size() - 1))]; };
  std::printf("%-40s %6lld cycles an exchange (%lld … %lld)\n", way, at(0.5), at(0.25), at(0.75));
  return true;
}

}  // namespace

int main() {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
    std::fprintf(stderr, "no CUDA device\n");
    return 1;
  }
  const int ctas = properties.multiProcessorCount / 2 * 2;
  std::printf("%s, %d CTAs in clusters of 2, 64 KiB each way\n", properties.name, ctas);
  return measure<false>("stores to the peer", ctas) && measure<true>("staged, one bulk copy", ctas) ? 0 : 1;
}
