// Kernels of a stream that overlap: a dependent one may start before its predecessor has ended.
namespace jfa::kernel {

// Waits until the preceding kernel of the stream has ended and what it wrote is visible to this grid. Returns
// at once if the launch did not allow the overlap.
__device__ inline void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the dependent kernel start once every CTA of this one has said so or ended.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace jfa::kernel
