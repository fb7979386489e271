// Clusters: CTAs that run side by side and reach one another's shared memory. Its addresses in the cluster
// are those that mapa gives; one that shared_address() gives is the CTA's own.
namespace jfa::kernel {

__device__ inline u32 cluster_ctarank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The place at the same offset in the CTA of that rank.
__device__ inline u32 mapa(u32 address, u32 rank) {
  u32 mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// All threads of all CTAs of the cluster; what they wrote before is visible behind it.
__device__ inline void barrier_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// `address`: of the cluster. Brings what this thread wrote in any CTA of it.
__device__ inline void mbarrier_arrive_in_cluster(u32 address) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

__device__ inline void st_cluster_v4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

// Makes this thread's earlier generic writes to shared memory, of any CTA of the cluster, visible to the
// asynchronous proxy.
__device__ inline void fence_proxy_async_cluster() {
  asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
}

// The even CTA of a pair, which issues the products of both.
__device__ inline u32 address_in_leader(const void* pointer) {
  constexpr u32 kOddCta = 1u << 24;  // of an address of the cluster
  return shared_address(pointer) & ~kOddCta;
}

// Loads a box; its bytes are counted on a barrier of either CTA of the pair.
__device__ inline void cp_async_bulk_tensor_load_in_pair(u32 destination, const TensorMap* map,
                                                         BoxCoordinates at, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(destination),
      "l"(map), "r"(at.c0), "r"(at.c1), "r"(at.c2), "r"(at.c3), "r"(at.c4), "r"(barrier)
      : "memory");
}

}  // namespace jfa::kernel
