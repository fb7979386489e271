#include "conformance/doubts.h"

namespace jfa::conformance {
namespace {

constexpr Doubt kDoubts[] = {
    {1, "whether tcgen05.mma with cta_group::1 and M = 128 takes N in steps of 8 or of 16",
     "steps of 8 work; our kernels use multiples of 16 only", ""},
    {2, "whether cta_group::2 takes N in steps of 16 or of 32",
     "multiples of 16 work with A in shared memory", ""},
    {3, "which columns of tensor memory D and A may begin at", "any column", ""},
    {4, "whether the warp's bits of the lane field in tcgen05.ld and .st addresses are ignored",
     "they must name the warp's own quarter; the simulator refuses others",
     "a kernel that relies on it is wrong by the manual, whatever the hardware does"},
    {5, "which CTA the words 4 to 7 of disable-output-lane belong to with cta_group::2", "the odd one", ""},
    {6, "whether the odd CTA of a pair may issue tcgen05.mma",
     "it may, as the ISA says of a thread of the pair; kernels are known to issue from the even one", ""},
    {7, "whether base_offset of a descriptor is subtracted on sm_100 as on Hopper",
     "as on Hopper, where it was measured", ""},
    {8, "whether generic reads need a proxy fence before an asynchronous overwrite",
     "an mbarrier arrive and wait are enough; the simulator does not ask for a fence",
     "a race that does not show proves nothing"},
    {9, "whether a multicast mask counts %ctaid or %cluster_ctarank", "%cluster_ctarank", ""},
    {10, "what bits 60:53 of a shared-memory descriptor for tcgen05 must be", "zero", ""},
    {11,
     "how the driver lays out a CUtensorMap, and what 128 zero bytes mean before `tensormap.replace` has set "
     "every field",
     "opaque: nothing of ours reads one; the simulator has its own layout, and refuses maps that lack a "
     "field "
     "other than those which Triton leaves at 0: interleaving, atomicity of the swizzle, fill",
     "no kernel depends on it"},
    {12, "whether tensor stores are clipped in units of 16 bytes along the innermost dimension on sm_100",
     "yes, as measured on an H200; our tensors' rows are multiples of 16 bytes", ""},
    {13, "whether a misaligned coordinate, destination or a store's negative start is a fault",
     "all three are, as on an H200", ""},
    {14, "how tensor cores order, align and round sums",
     "products and the accumulator are aligned to the largest exponent, cut to 25 fractional bits and "
     "summed; the sum is "
     "cut to f32",
     ""},
    {15, "where tcgen05.cp puts what it copies", "as CUTLASS's traits say", ""},
    {16, "which half of a register .pack::16b fills from which column", "the low half from the lower column",
     ""},
    {17, "which cells 16x32bx2 touches",
     "lanes 0 to 15 from column 0, lanes 16 to 31 from the split offset on", ""},
    {18, "whether the leading byte offset matters in a swizzled K-major descriptor",
     "it does not, within one atom", ""},
    {19, "what an MN-major swizzled operand means whose extent is no multiple of the swizzle atom",
     "the address function goes on; our kernels use multiples", ""},
    {20, "what the upper half of a tensor-memory word holds below an f16 accumulator",
     "nothing that may be relied on", "nothing is assumed, so nothing can be wrong"},
    {21, "the bits of ex2.approx, lg2.approx, rcp.approx and the like",
     "within the bounds that the PTX ISA states", "the sweeps of the group approximation"},
    {22, "what happens to a signal to a CTA that has exited", "it is an error, which the simulator reports",
     "undefined behaviour: a run proves nothing"},
    {23, "whether A in tensor memory is duplicated for cta_group::2 and M = 128",
     "it must be; the simulator refuses halves of the lanes that differ", ""},
    {24, "everything about tcgen05: nothing of it was executed by us on hardware",
     "documents and other people's code",
     "all experiments that need sm_100, and the forward and backward suites"},
    {25, "the layout of D with .ws and M below 128", "pieces of the columns side by side in all lanes", ""},
    {26, "the swizzles with 32-byte and 64-byte atoms", "as the PTX tables say", ""},
    {27, "whether tcgen05.cp waits for products before it that read what it overwrites",
     "it does, behind those of its thread: CUTLASS and DeepGEMM copy scale factors so", ""},
    {28, "where tensor cores look for scale factors",
     "in every quarter of the lanes, as CUTLASS places them; the simulator refuses quarters that differ", ""},
    {29, "whether a group of 4-bit products whose sum is zero counts where sums are aligned",
     "it does, by the exponents of its scale factors", ""},
    {30, "how elements of 4 and 6 bits lie in shared memory for kinds f8f6f4 and mxf8f6f4",
     "16 in the first 8 or 12 of every 16 bytes, the first in the lowest bits", ""},
    {31, "where the metadata of sparse products lies, and what the sparsity selector picks",
     "as CUTLASS places it for 128 rows, of 64 in the lanes of D, and for mma.ws in every piece of the "
     "lanes; for 16- and 32-bit elements the second of two columns",
     ""},
    {32, "how many bytes a tensor copy of padded 4- and 6-bit elements reports to its mbarrier",
     "those of global memory, without the padding", ""},
    {33, "which way tcgen05.shift.down moves rows, and which rows",
     "in the 32 lanes from its address on each lane gets what the next one holds, and the last keeps its "
     "own: "
     "CuTe's traits say that 4x256b then refreshes the last lane of every quarter",
     ""},
    {34, "where in its byte of tensor memory an element of 4 or 6 bits lies (kinds f8f6f4, mxf8f6f4)",
     "in bits 5:2 or 5:0, as CUTLASS has them in registers for sm_120's mma.sync; the simulator refuses "
     "others that are not zero",
     ""},
    {35, "which of the zero-column mask's two spans counts columns of zeros (mma.ws)",
     "the skip span, as in the examples of the PTX ISA; its table says the opposite", ""},
    {36,
     "whether one lane that has waited for its warp's tcgen05.ld or .st may tell others that all of it is "
     "over",
     "it may: the operation and the wait are the warp's", "a race that does not show proves nothing"},
};

}  // namespace

std::span<const Doubt> doubts() { return kDoubts; }

const std::vector<TestCase>& experiments() {
  static const std::vector<TestCase> cases = [] {
    std::vector<TestCase> all;
    add_copy_experiments(all);
    add_tensor_experiments(all);
    add_layout_experiments(all);
    add_pair_experiments(all);
    add_scale_experiments(all);
    add_sparse_experiments(all);
    return all;
  }();
  return cases;
}

}  // namespace jfa::conformance
