// wgmma: the tensor core of compute capability 9.0. A warpgroup issues together; it runs asynchronously, and
// accumulators belong to it until wgmma_wait_group.
namespace jfa::kernel {

// Before the first product, and after other instructions touched accumulators or register operands.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending of the latest groups are incomplete.
template <int kPending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// No instruction: tells the compiler that an accumulator changes here.
template <int kRegisters>
__device__ inline void pin(float (&d)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Registers of a consumer grow by what a producer gives back; a whole warpgroup calls it.
template <int kRegisters>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace jfa::kernel
