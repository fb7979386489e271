#include "tests/simulator/product_kernel.h"

#include <bit>
#include <random>

#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/tensor_memory_shape.h"

namespace jfa::test {

using namespace simulator;

namespace {

// Bytes of `rows` x 16 elements, and the descriptor that finds them at `offset`.
struct Stored {
  std::uint64_t descriptor = 0;
  std::uint32_t bytes = 0;
};

Stored describe_layout(const Layout& layout, std::uint32_t rows, std::uint32_t offset) {
  const std::uint32_t width = layout.swizzle_bytes;
  std::uint32_t leading = 16;
  std::uint32_t stride = 0;
  std::uint32_t bytes = 0;
  if (layout.major == MatrixMajor::kK) {
    stride = width == 0 ? 128 : width * 8;
    leading = width == 0 ? rows * 16 : 16;
    bytes = width == 0 ? rows * 32 : rows * width;
  } else if (width == 0) {
    stride = 256;  // groups of eight along mn, two of eight along k in each
    leading = 128;
    bytes = rows * 32;
  } else {
    stride = width * 8;
    leading = width * 16;
    const std::uint32_t atom = width / 2;
    bytes = (rows + atom - 1) / atom * leading;
  }
  const std::uint64_t swizzle = width == 0 ? 0 : width == 128 ? 2 : width == 64 ? 4 : 6;
  Stored stored;
  stored.descriptor = swizzle << 61 | std::uint64_t{1} << 46 | std::uint64_t{stride >> 4} << 32 |
                      std::uint64_t{leading >> 4} << 16 | offset >> 4;
  stored.bytes = bytes;
  return stored;
}

}  // namespace

const std::string kProduct = R"(
.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry product(.param .u64 image, .param .u32 image_bytes, .param .u64 out, .param .u64 d_in,
                        .param .u64 a_in, .param .u64 a_desc, .param .u64 b_desc, .param .u32 idesc,
                        .param .u32 columns, .param .u32 d_lane)
{
  .reg .pred %p<8>;
  .reg .b32 %r<64>;
  .reg .b64 %rd<32>;
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  mov.u32 %r3, smem;
  mov.b32 %r60, 0;  // [rank]
  ld.param.b32 %r4, [columns];
  ld.param.b64 %rd1, [image];
  ld.param.b32 %r5, [image_bytes];
  mul.wide.u32 %rd20, %r5, %r60;
  add.s64 %rd1, %rd1, %rd20;
  shl.b32 %r61, %r60, 7;
  add.s32 %r61, %r61, %r1;  // the thread among those of both CTAs
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra COPY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
COPY:
  shl.b32 %r6, %r1, 4;
COPY_NEXT:
  setp.ge.u32 %p2, %r6, %r5;
  @%p2 bra COPIED;
  cvt.u64.u32 %rd2, %r6;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];
  add.s32 %r7, %r3, %r6;
  st.shared.v4.b32 [%r7+1024], {%r10, %r11, %r12, %r13};
  add.s32 %r6, %r6, 2048;
  bra COPY_NEXT;
COPIED:
  fence.proxy.async.shared::cta;  // [proxy]
  setp.ne.s32 %p3, %r2, 0;
  // [start]
  @%p3 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3+8], 512;  // [alloc]
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  tcgen05.fence::before_thread_sync;
ALLOCATED:
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.b32 %r8, [%r3+8];
  shl.b32 %r9, %r2, 21;
  add.s32 %r9, %r9, %r8;

  // The accumulator's old value, eight columns at a time.
  ld.param.b64 %rd4, [d_in];
  setp.eq.s64 %p4, %rd4, 0;
  @%p4 bra D_READY;
  mul.lo.s32 %r20, %r61, %r4;
  mul.wide.u32 %rd5, %r20, 4;
  add.s64 %rd5, %rd4, %rd5;
  mov.b32 %r21, 0;
D_NEXT:
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd5];
  ld.global.v4.b32 {%r14, %r15, %r16, %r17}, [%rd5+16];
  add.s32 %r22, %r9, %r21;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r22], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};  // [store d]
  add.s64 %rd5, %rd5, 32;
  add.s32 %r21, %r21, 8;
  setp.lt.s32 %p5, %r21, %r4;
  @%p5 bra D_NEXT;
D_READY:
  // The A operand, eight columns of pairs, behind D at column 256.
  ld.param.b64 %rd6, [a_in];
  setp.eq.s64 %p6, %rd6, 0;
  @%p6 bra A_READY;
  mul.wide.u32 %rd7, %r61, 32;
  add.s64 %rd7, %rd6, %rd7;
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd7];
  ld.global.v4.b32 {%r14, %r15, %r16, %r17}, [%rd7+16];
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9+256], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};
A_READY:
  tcgen05.wait::st.sync.aligned;  // [wait st]
  tcgen05.fence::before_thread_sync;  // [before st]
  bar.sync 0;  // [all]

  setp.ne.s32 %p1, %r61, 0;
  @%p1 bra ISSUED;
  tcgen05.fence::after_thread_sync;  // [after st]
  ld.param.b32 %r30, [idesc];
  ld.param.b32 %r33, [d_lane];
  shl.b32 %r33, %r33, 16;
  add.s32 %r8, %r8, %r33;
  and.b32 %r31, %r3, 262143;
  add.s32 %r31, %r31, 1024;
  shr.u32 %r31, %r31, 4;
  cvt.u64.u32 %rd10, %r31;
  ld.param.b64 %rd11, [a_desc];
  add.s64 %rd11, %rd11, %rd10;
  ld.param.b64 %rd12, [b_desc];
  add.s64 %rd12, %rd12, %rd10;
  setp.ne.s64 %p5, %rd4, 0;
  setp.ne.s64 %p6, %rd6, 0;
  @%p6 bra FROM_TENSOR;
  tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;  // [mma]
  bra COMMIT;
FROM_TENSOR:
  tcgen05.mma.cta_group::1.kind::f16 [%r8], [%r8+256], %rd12, %r30, %p5;
COMMIT:
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];  // [commit]
ISSUED:
  bar.warp.sync -1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r3], 0;  // [wait]
  @!%p7 bra WAIT;  // [wait]
  tcgen05.fence::after_thread_sync;  // [after mma]

  ld.param.b64 %rd8, [out];
  mul.lo.s32 %r20, %r61, %r4;
  mul.wide.u32 %rd9, %r20, 4;
  add.s64 %rd9, %rd8, %rd9;
  mov.b32 %r21, 0;
OUT_NEXT:
  add.s32 %r22, %r9, %r21;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r22];  // [ld]
  tcgen05.wait::ld.sync.aligned;  // [wait ld]
  st.global.v4.b32 [%rd9], {%r10, %r11, %r12, %r13};
  st.global.v4.b32 [%rd9+16], {%r14, %r15, %r16, %r17};
  add.s64 %rd9, %rd9, 32;
  add.s32 %r21, %r21, 8;
  setp.lt.s32 %p5, %r21, %r4;
  @%p5 bra OUT_NEXT;
  tcgen05.fence::before_thread_sync;  // [before dealloc]
  bar.sync 0;  // [all read]
  @%p3 bra DONE;
  ld.shared.b32 %r8, [%r3+8];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 512;  // [dealloc]
DONE:
  ret;
}
)";

std::string edited(std::string text, const std::string& mark, const std::string& replacement) {
  const std::string ending = "  // [" + mark + "]\n";
  std::size_t at = text.find(ending);
  REQUIRE(at != std::string::npos);
  while (at != std::string::npos) {
    const std::size_t begin = text.rfind('\n', at) + 1;
    text.replace(begin, at + ending.size() - begin, replacement + "\n");
    at = text.find(ending);
  }
  return text;
}

std::string paired(std::string text) {
  text = edited(text, "rank", "mov.u32 %r60, %cluster_ctarank;");
  for (const char* mark : {"start", "all", "all read"})
    text = edited(text, mark, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
  text = edited(text, "commit",
                "mov.b16 %rs1, 3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                ".multicast::cluster.b64 [%r3], %rs1;");
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  replace_all("cta_group::1", "cta_group::2");
  replace_all("{\n  .reg .pred", ".reqnctapercluster 2, 1, 1\n{\n  .reg .b16 %rs<2>;\n  .reg .pred");
  return text;
}

Device::Device(const std::string& name) {
  std::string error;
  driver_ = open_simulated_driver(name, &error);
  REQUIRE_MESSAGE(driver_ != nullptr, error);
  REQUIRE(driver_->cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(driver_->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(driver_->cuCtxPushCurrent(context) == CUDA_SUCCESS);
}

Device::~Device() {
  driver_->cuCtxPopCurrent(nullptr);
  driver_->cuDevicePrimaryCtxRelease(0);
}

CUresult Device::run(const std::string& ptx, const char* entry, void** parameters, unsigned int ctas,
                     unsigned int threads, unsigned int shared_bytes) {
  CUlibrary library = nullptr;
  CUresult result =
      driver_->cuLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) return result;
  CUkernel kernel = nullptr;
  REQUIRE(driver_->cuLibraryGetKernel(&kernel, library, entry) == CUDA_SUCCESS);
  REQUIRE(driver_->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        static_cast<int>(shared_bytes), kernel, 0) == CUDA_SUCCESS);
  CUlaunchConfig config{};
  config.gridDimX = ctas;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shared_bytes;
  REQUIRE(driver_->cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), parameters, nullptr) ==
          CUDA_SUCCESS);
  result = driver_->cuStreamSynchronize(nullptr);
  REQUIRE(driver_->cuLibraryUnload(library) == CUDA_SUCCESS);
  return result;
}

const std::vector<std::string> kSchedules = {"sim:sm_100a", "sim:sm_100a?schedule=lazy",
                                             "sim:sm_100a?schedule=random&seed=1"};

Outcome run_case(Device& device, const ProductCase& c, const std::string& ptx) {
  std::mt19937 random(c.m + c.n);
  const bool bf16 = (c.flags >> 7 & 1) != 0;
  const auto element = [&] {
    const auto bits = static_cast<std::uint32_t>(random());
    return static_cast<std::uint16_t>(bf16 ? (bits & 0x807f) | (120 + random() % 12) << 7
                                           : (bits & 0x83ff) | (10 + random() % 8) << 10);
  };
  std::vector<std::uint16_t> a(c.m * kMmaK);
  std::vector<std::uint16_t> b(c.n * kMmaK);
  for (auto& x : a) x = element();
  for (auto& x : b) x = element();

  // Each CTA has its share of the rows of A, and of B.
  const auto ctas = static_cast<std::uint32_t>(c.cta_group);
  const std::uint32_t a_rows = c.m / ctas;
  const std::uint32_t b_rows = c.n / ctas;
  const Stored a_stored = describe_layout(c.a, a_rows, 0);
  const std::uint32_t b_offset = (a_stored.bytes + 1023) / 1024 * 1024;
  const Stored b_stored = describe_layout(c.b, b_rows, b_offset);
  auto image_bytes = (b_offset + b_stored.bytes + 1023) / 1024 * 1024;
  std::vector<std::uint16_t> image(ctas * image_bytes / 2, 0x7fc0);
  const auto store = [&](const Stored& stored, MatrixMajor major, const std::vector<std::uint16_t>& elements,
                         std::uint32_t rows) {
    const auto descriptor = decode_matrix_descriptor(stored.descriptor);
    REQUIRE(descriptor.ok());
    for (std::uint32_t i = 0; i < elements.size(); ++i) {
      const std::uint32_t row = i / kMmaK;
      const std::uint32_t address = element_address(*descriptor, major, row % rows, i % kMmaK);
      image[(row / rows * image_bytes + address) / 2] = elements[i];
    }
  };
  if (!c.a_in_tensor_memory) store(a_stored, c.a.major, a, a_rows);
  store(b_stored, c.b.major, b, b_rows);

  std::uint32_t columns = accumulator_columns(c.cta_group, c.m, c.n);
  const auto cell_of = [&](std::uint32_t m, std::uint32_t n) {
    const AccumulatorPlace place = accumulator_place(c.cta_group, c.m, c.n, m, n);
    return (place.cta * 128 + c.d_lane + place.cell.lane) * columns + place.cell.column;
  };
  Outcome outcome;
  outcome.want.assign(ctas * 128 * columns, 0);
  for (auto& x : outcome.want) x = std::bit_cast<std::uint32_t>(static_cast<float>(random() % 1000) - 500.0f);
  const std::vector<std::uint32_t> d_in = outcome.want;
  std::vector<std::uint16_t> a_in(ctas * 128 * kMmaK, 0x7fc0);
  const auto a_type = static_cast<MmaElement>(bf16 ? 1 : 0);
  const bool negate_a = (c.flags >> 13 & 1) != 0;
  for (std::uint32_t m = 0; m < c.m; ++m) {
    std::vector<std::uint16_t> row(a.begin() + m * kMmaK, a.begin() + (m + 1) * kMmaK);
    std::copy(row.begin(), row.end(), a_in.begin() + cell_of(m, 0) / columns * kMmaK);
    // A pair's 64 rows each are expected in both halves of the lanes.
    if (columns < c.n)
      std::copy(row.begin(), row.end(), a_in.begin() + cell_of(m, columns) / columns * kMmaK);
    for (auto& x : row) x = negate_a ? x ^ 0x8000 : x;
    for (std::uint32_t n = 0; n < c.n; ++n) {
      std::uint32_t& d = outcome.want[cell_of(m, n)];
      d = dot_accumulate_f32(a_type, a_type, row.data(), &b[n * kMmaK], c.accumulate ? d : 0);
    }
  }

  CUdeviceptr image_address = device.upload(image);
  CUdeviceptr out = device.upload(std::vector<std::uint32_t>(d_in.size(), 0));
  CUdeviceptr d_address = c.accumulate ? device.upload(d_in) : 0;
  CUdeviceptr a_address = c.a_in_tensor_memory ? device.upload(a_in) : 0;
  std::uint64_t a_descriptor = a_stored.descriptor;
  std::uint64_t b_descriptor = b_stored.descriptor;
  std::uint32_t idesc = c.flags | static_cast<std::uint32_t>(c.a.major) << 15 |
                        static_cast<std::uint32_t>(c.b.major) << 16 | (c.n >> 3) << 17 | (c.m >> 4) << 24;
  std::uint32_t d_lane = c.d_lane;
  void* parameters[] = {&image_address, &image_bytes,  &out,   &d_address, &a_address,
                        &a_descriptor,  &b_descriptor, &idesc, &columns,   &d_lane};
  outcome.result = device.run(ptx, "product", parameters, ctas, 128, 1024 + image_bytes);
  outcome.got = device.download<std::uint32_t>(out, d_in.size());
  return outcome;
}

void check_case(Device& device, const ProductCase& c, const std::string& ptx) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.a.swizzle_bytes);
  CAPTURE(c.b.swizzle_bytes);
  CAPTURE(static_cast<int>(c.a.major));
  CAPTURE(static_cast<int>(c.b.major));
  const Outcome outcome = run_case(device, c, ptx);
  REQUIRE_MESSAGE(outcome.result == CUDA_SUCCESS, device.report());
  CHECK(outcome.got == outcome.want);
}

void check_passes(const std::string& ptx, const ProductCase& c) {
  for (const std::string& schedule : kSchedules) {
    CAPTURE(schedule);
    Device device(schedule);
    const Outcome outcome = run_case(device, c, ptx);
    CHECK_MESSAGE(outcome.result == CUDA_SUCCESS, device.report());
  }
}

void check_caught(const std::string& ptx, const char* part, const ProductCase& c) {
  for (const std::string& schedule : kSchedules) {
    CAPTURE(schedule);
    Device device(schedule);
    const Outcome outcome = run_case(device, c, ptx);
    CHECK(outcome.result != CUDA_SUCCESS);
    const std::string report = device.report();
    const bool found = report.find(part) != std::string::npos;
    CHECK_MESSAGE(found, report);
  }
}

}  // namespace jfa::test
