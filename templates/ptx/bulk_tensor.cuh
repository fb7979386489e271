// The tensor memory accelerator: boxes between global and shared memory, described by a tensor map.
namespace jfa::kernel {

struct BoxCoordinates {
  i32 c0, c1, c2, c3, c4;  // innermost first, in elements
};

__device__ inline void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Loads a box; its bytes are counted on `barrier`, those outside the tensor included.
__device__ inline void cp_async_bulk_tensor_load(u32 destination, const TensorMap* map, BoxCoordinates at,
                                                 u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(destination),
      "l"(map), "r"(at.c0), "r"(at.c1), "r"(at.c2), "r"(at.c3), "r"(at.c4), "r"(shared_address(barrier))
      : "memory");
}

// Stores a box; what lies outside the tensor is dropped. Belongs to this thread's next bulk group.
__device__ inline void cp_async_bulk_tensor_store(const TensorMap* map, BoxCoordinates at, u32 source) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(
          map),
      "r"(at.c0), "r"(at.c1), "r"(at.c2), "r"(at.c3), "r"(at.c4), "r"(source)
      : "memory");
}

__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's stores have read their shared memory.
__device__ inline void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until this thread's stores are complete.
__device__ inline void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace jfa::kernel
