// tcgen05 kernels on the simulated device: products of every layout bit for bit, and the checkers, each of
// which a kernel with one instruction left out must wake on every schedule.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "simulator/driver_table.h"
#include "simulator/matrix_descriptor.h"
#include "simulator/mma.h"
#include "simulator/tensor_memory_shape.h"

using namespace jfa;
using namespace jfa::simulator;

namespace {

// A CTA of four warps, or a pair of them: copies an image into shared memory, puts D (and A, if asked) into
// tensor memory, multiplies once, and writes tensor memory's first `columns` columns out,
// [CTA][128][columns]. Lines end in marks that tests use to take them away.
constexpr const char* kProduct = R"(
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

// The text without the lines that end in `mark`, or with another statement in their place.
std::string edited(std::string text, const std::string& mark, const std::string& replacement = "") {
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

// The same for a pair of CTAs: the even one issues, and its commit tells both.
std::string paired(std::string text) {
  text = edited(text, "rank", "mov.u32 %r60, %cluster_ctarank;");
  text = edited(text, "all", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
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

class Device {
 public:
  explicit Device(const std::string& name) {
    std::string error;
    driver_ = open_simulated_driver(name, &error);
    REQUIRE_MESSAGE(driver_ != nullptr, error);
    REQUIRE(driver_->cuInit(0) == CUDA_SUCCESS);
    CUcontext context = nullptr;
    REQUIRE(driver_->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(driver_->cuCtxPushCurrent(context) == CUDA_SUCCESS);
  }
  ~Device() {
    driver_->cuCtxPopCurrent(nullptr);
    driver_->cuDevicePrimaryCtxRelease(0);
  }
  template <class T>
  CUdeviceptr upload(const std::vector<T>& data) {
    CUdeviceptr address = 0;
    REQUIRE(driver_->cuMemAlloc(&address, data.size() * sizeof(T)) == CUDA_SUCCESS);
    REQUIRE(driver_->cuMemcpyHtoD(address, data.data(), data.size() * sizeof(T)) == CUDA_SUCCESS);
    return address;
  }
  template <class T>
  std::vector<T> download(CUdeviceptr address, std::size_t count) {
    std::vector<T> data(count);
    REQUIRE(driver_->cuMemcpyDtoH(data.data(), address, count * sizeof(T)) == CUDA_SUCCESS);
    return data;
  }
  // The error that the run ends with; report() has its text.
  CUresult run(const std::string& ptx, const char* entry, void** parameters, unsigned int ctas,
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
  std::string report() const { return last_report(driver_); }

 private:
  const DriverTable* driver_ = nullptr;
};

const char* const kSchedules[] = {"sim:sm_100a", "sim:sm_100a?schedule=lazy",
                                  "sim:sm_100a?schedule=random&seed=1"};

// How an operand is stored, as a descriptor relative to the image's start.
struct Layout {
  MatrixMajor major = MatrixMajor::kK;
  std::uint32_t swizzle_bytes = 128;
};

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

struct Case {
  std::uint32_t m = 128;
  std::uint32_t n = 64;
  Layout a = {};
  Layout b = {};
  bool accumulate = true;
  bool a_in_tensor_memory = false;
  std::uint32_t flags = 0x490;  // bf16 x bf16 -> f32
  std::uint32_t d_lane = 0;
  int cta_group = 1;
};

struct Outcome {
  CUresult result = CUDA_SUCCESS;
  std::vector<std::uint32_t> got, want;  // [CTA][128][columns of D]
};

// Runs the case on random operands, beside the scalar definition of the arithmetic.
Outcome run_case(Device& device, const Case& c, const std::string& ptx) {
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

void check_case(Device& device, const Case& c, const std::string& ptx = kProduct) {
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

void check_passes(const std::string& ptx, const Case& c = {}) {
  for (const char* schedule : kSchedules) {
    CAPTURE(std::string(schedule));
    Device device(schedule);
    const Outcome outcome = run_case(device, c, ptx);
    CHECK_MESSAGE(outcome.result == CUDA_SUCCESS, device.report());
  }
}

// The edited kernel must fail on every schedule, with `part` in its report.
void check_caught(const std::string& ptx, const char* part, const Case& c = {}) {
  for (const char* schedule : kSchedules) {
    CAPTURE(std::string(schedule));
    Device device(schedule);
    const Outcome outcome = run_case(device, c, ptx);
    CHECK(outcome.result != CUDA_SUCCESS);
    const std::string report = device.report();
    const bool found = report.find(part) != std::string::npos;
    CHECK_MESSAGE(found, report);
  }
}

}  // namespace

TEST_CASE("a product of every operand layout, bit for bit") {
  Device device("sim:sm_100a");
  for (const MatrixMajor major : {MatrixMajor::kK, MatrixMajor::kMN}) {
    for (const std::uint32_t swizzle : {0u, 32u, 64u, 128u}) {
      check_case(device, {.a = {major, swizzle}});
      check_case(device, {.b = {major, swizzle}});
    }
  }
}

TEST_CASE("a product of every shape, on every schedule") {
  for (const char* schedule : kSchedules) {
    CAPTURE(std::string(schedule));
    Device device(schedule);
    check_case(device, {.m = 128, .n = 8});
    check_case(device, {.m = 128, .n = 256});
    check_case(device, {.m = 128, .n = 40, .accumulate = true, .flags = 0x010});  // f16
    check_case(device, {.m = 128, .n = 64, .flags = 0x490 | 1 << 13});            // -A
    check_case(device, {.m = 64, .n = 32});
    check_case(device, {.m = 64, .n = 32, .d_lane = 16});
    check_case(device, {.m = 128, .n = 128, .a_in_tensor_memory = true});
    check_case(device, {.m = 64, .n = 64, .a_in_tensor_memory = true, .d_lane = 16});
  }
}

TEST_CASE("a product of a pair of CTAs") {
  const std::string pair = paired(kProduct);
  for (const char* schedule : kSchedules) {
    CAPTURE(std::string(schedule));
    Device device(schedule);
    check_case(device, {.m = 256, .n = 64, .cta_group = 2}, pair);
    check_case(device, {.m = 256, .n = 256, .b = {MatrixMajor::kMN, 64}, .cta_group = 2}, pair);
    check_case(device, {.m = 256, .n = 32, .a_in_tensor_memory = true, .cta_group = 2}, pair);
    check_case(device, {.m = 128, .n = 64, .cta_group = 2}, pair);
    check_case(device, {.m = 128, .n = 128, .accumulate = false, .a_in_tensor_memory = true, .cta_group = 2},
               pair);
  }
  check_caught(edited(pair, "after mma"), "tcgen05.fence::after_thread_sync", {.m = 256, .cta_group = 2});
  check_caught(edited(pair, "proxy"), "fence.proxy.async", {.m = 256, .cta_group = 2});
  check_caught(pair, "N = 8", {.m = 256, .n = 8, .b = {MatrixMajor::kK, 0}, .cta_group = 2});
}

TEST_CASE("D = A * B ignores what tensor memory held") {
  Device device("sim:sm_100a");
  // Nothing was stored to D: its 128 lanes are the product alone.
  check_case(device, {.m = 128, .n = 64, .accumulate = false});
  check_case(device, {.m = 128, .n = 64, .accumulate = false, .a_in_tensor_memory = true});
}

TEST_CASE("disable-output-lane and scale-input-d") {
  Device device("sim:sm_100a");
  const std::string masked = edited(
      kProduct, "mma",
      "mov.b32 %r40, 0x0000ffff; mov.b32 %r41, 0; mov.b32 %r42, 0xffffffff; mov.b32 %r43, 0x80000000;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, {%r40, %r41, %r42, %r43}, %p5;");
  const Case c;
  const Outcome plain = run_case(device, c, kProduct);
  const Outcome some = run_case(device, c, masked);
  REQUIRE_MESSAGE(some.result == CUDA_SUCCESS, device.report());
  std::mt19937 random(c.m + c.n);
  for (std::uint32_t lane = 0; lane < 128; ++lane) {
    const bool disabled = lane < 16 || (lane >= 64 && lane < 96) || lane == 127;
    for (std::uint32_t n = 0; n < c.n; ++n) {
      CHECK((some.got[lane * c.n + n] == plain.got[lane * c.n + n]) != disabled);
    }
  }

  // With D * 2^-3: the difference to the plain product is 7/8 of D, exact here up to the last rounding.
  const std::string scaled =
      edited(kProduct, "mma", "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5, 3;");
  const Outcome result = run_case(device, c, scaled);
  REQUIRE_MESSAGE(result.result == CUDA_SUCCESS, device.report());
  const Outcome alone = run_case(device, {.accumulate = false}, kProduct);
  for (std::size_t i = 0; i < result.got.size(); ++i) {
    const float product = std::bit_cast<float>(alone.got[i]);
    const float with_all = std::bit_cast<float>(plain.got[i]);
    const float with_eighth = std::bit_cast<float>(result.got[i]);
    CHECK(with_eighth == doctest::Approx(product + (with_all - product) / 8).epsilon(1e-4).scale(10));
  }
}

TEST_CASE("products into one accumulator run in the order of issue") {
  // The second step's operands lie where the first step's do, so that D = A * B + (A * B + D).
  const std::string twice = edited(kProduct, "mma",
                                   "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;\n"
                                   "setp.eq.b32 %p5, %r30, %r30;\n"
                                   "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;");
  Device eager("sim:sm_100a");
  const Outcome once = run_case(eager, {.accumulate = false}, kProduct);
  for (const char* schedule : kSchedules) {
    Device device(schedule);
    const Outcome outcome = run_case(device, {.accumulate = false}, twice);
    REQUIRE_MESSAGE(outcome.result == CUDA_SUCCESS, device.report());
    for (std::size_t i = 0; i < outcome.got.size(); ++i) {
      const float sum = 2 * std::bit_cast<float>(once.got[i]);
      CHECK(std::bit_cast<float>(outcome.got[i]) == doctest::Approx(sum).epsilon(1e-4).scale(1));
    }
  }
}

namespace {

// One warp stores registers r * 32 + lane in one shape and loads 32 lanes x `columns` as they lie,
// [32][columns].
std::string transfer_kernel(const std::string& shape, int registers, int columns, const std::string& modifier,
                            const std::string& split) {
  std::string text = R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry transfer(.param .u64 out)
{
  .reg .b32 %r<8>, %v<64>;
  .reg .b64 %rd<4>;
  .shared .align 8 .b8 address[8];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, address;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 128;
  bar.sync 0;
  ld.shared.b32 %r3, [%r2];
)";
  const auto list = [](int count) {
    std::string names;
    for (int i = 0; i < count; ++i) names += (i == 0 ? "{%v" : ", %v") + std::to_string(i);
    return names + "}";
  };
  // First everything is zero, so that cells which the shape leaves alone are known too.
  for (int i = 0; i < 8; ++i) text += "  mov.b32 %v" + std::to_string(i) + ", 0;\n";
  for (int column = 0; column < columns; column += 8) {
    text +=
        "  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r3+" + std::to_string(column) + "], " + list(8) + ";\n";
  }
  text += "  tcgen05.wait::st.sync.aligned;\n";
  for (int i = 0; i < registers; ++i) {
    text += "  add.s32 %v" + std::to_string(i) + ", %r1, " + std::to_string(i * 32 + (i * 32 << 16)) + ";\n";
  }
  text +=
      "  tcgen05.st.sync.aligned." + shape + modifier + ".b32 [%r3]" + split + ", " + list(registers) + ";\n";
  text += "  tcgen05.wait::st.sync.aligned;\n";
  text += "  ld.param.b64 %rd1, [out];\n  mul.wide.u32 %rd2, %r1, " + std::to_string(columns * 4) +
          ";\n  add.s64 %rd1, %rd1, %rd2;\n";
  for (int column = 0; column < columns; ++column) {
    text += "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3+" + std::to_string(column) + "];\n" +
            "  tcgen05.wait::ld.sync.aligned;\n  st.global.b32 [%rd1+" + std::to_string(column * 4) +
            "], %r4;\n";
  }
  return text + "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 128;\n  ret;\n}\n";
}

}  // namespace

TEST_CASE("tcgen05.st writes the cells of its shape") {
  struct Shape {
    const char* name;
    TensorShape shape;
    int registers;
    bool packed;
    std::uint32_t split;
  };
  const Shape shapes[] = {
      {"32x32b.x4", TensorShape::k32x32b, 4, false, 0},    {"32x32b.x2", TensorShape::k32x32b, 2, true, 0},
      {"16x64b.x8", TensorShape::k16x64b, 8, false, 0},    {"16x128b.x4", TensorShape::k16x128b, 8, false, 0},
      {"16x256b.x2", TensorShape::k16x256b, 8, false, 0},  {"16x256b.x1", TensorShape::k16x256b, 4, true, 0},
      {"16x32bx2.x4", TensorShape::k16x32bx2, 4, false, 8}};
  Device device("sim:sm_100a");
  constexpr int kColumns = 16;
  for (const Shape& shape : shapes) {
    CAPTURE(std::string(shape.name));
    std::vector<std::uint32_t> want(32 * kColumns, 0);
    for (int r = 0; r < shape.registers; ++r) {
      for (int lane = 0; lane < 32; ++lane) {
        const TensorCell cell = register_cell(shape.shape, r, lane, shape.split, shape.packed);
        const auto value = static_cast<std::uint32_t>(lane + r * 32 + (r * 32 << 16));
        std::uint32_t* cells = &want[cell.lane * kColumns + cell.column];
        cells[0] = shape.packed ? value & 0xffff : value;
        if (shape.packed) cells[1] = value >> 16;
      }
    }
    CUdeviceptr out = device.upload(std::vector<std::uint32_t>(want.size(), 0));
    void* parameters[] = {&out};
    const std::string text =
        transfer_kernel(shape.name, shape.registers, kColumns, shape.packed ? ".unpack::16b" : "",
                        shape.split != 0 ? ", " + std::to_string(shape.split) : "");
    const CUresult result = device.run(text, "transfer", parameters, 1, 32, 0);
    REQUIRE_MESSAGE(result == CUDA_SUCCESS, device.report());
    CHECK(device.download<std::uint32_t>(out, want.size()) == want);
  }
}

TEST_CASE("CTAs of one SM take turns at tensor memory") {
  const std::string text = R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry share()
{
  .reg .b32 %r<4>;
  .shared .align 8 .b8 address[8];
  mov.u32 %r1, address;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;
  bar.warp.sync 0xffffffff;
  ld.shared.b32 %r2, [%r1];
  bar.sync 0;  // [more]
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;
  ret;
}
)";
  // Two pieces of 256 that nobody gives back leave nothing to wait for.
  const std::string greedy = edited(text, "more",
                                    "bar.warp.sync 0xffffffff;\n"
                                    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;\n"
                                    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;");
  for (const char* name : {"sim:sm_100a?sms=1", "sim:sm_100a?sms=1&schedule=lazy"}) {
    Device device(name);
    void* none[] = {nullptr};
    const CUresult result = device.run(text, "share", none, 5, 32, 0);
    CHECK_MESSAGE(result == CUDA_SUCCESS, device.report());
    CHECK(device.run(greedy, "share", none, 1, 32, 0) == CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(device.report().find("wait for 32 free columns of tensor memory") != std::string::npos);
  }
}

TEST_CASE("what the checkers must catch on every schedule") {
  const std::string product = kProduct;
  check_caught(edited(product, "wait"), "tcgen05.ld");
  check_caught(edited(product, "after mma"), "tcgen05.fence::after_thread_sync");
  check_caught(edited(product, "after st"), "tcgen05.fence::after_thread_sync");
  check_caught(edited(product, "before st"), "tcgen05.fence::before_thread_sync");
  check_caught(edited(product, "wait st"), "while tcgen05.st is still in flight");
  check_caught(edited(product, "store d"), "nothing has written since its allocation");
  check_caught(edited(product, "proxy"), "fence.proxy.async");
  check_caught(edited(product, "dealloc"), "without tcgen05.dealloc");
  check_caught(edited(product, "commit"), "");  // a deadlock: nobody arrives
  check_caught(edited(product, "wait ld"), "no tcgen05.wait::ld has followed");
  check_caught(edited(product, "before dealloc"),
               "tcgen05.dealloc writes tensor memory lane 32 column 0, last read by tcgen05.ld, without "
               "tcgen05.fence::before_thread_sync by the thread that did");
  check_caught(edited(product, "all read"), "");  // in flight, or a race
  check_caught(edited(product, "ld",
                      "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, "
                      "%r16, %r17}, [%r8];"),
               "may touch lanes");
  check_caught(
      edited(product, "alloc", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3+8], 32;"),
      "not allocated by this CTA");
  check_caught(edited(product, "mma",
                      "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;\n"
                      "tcgen05.mma.cta_group::1.kind::f16 [%r8+8], %rd11, %rd12, %r30, %p5;"),
               "while tcgen05.mma is still in flight");  // another accumulator, overlapping
  check_caught(product, "M = 32", {.m = 32});
  check_caught(
      edited(product, "mma",
             "add.s64 %rd11, %rd11, 7;\ntcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5;"),
      "cross the end of its 128-byte swizzled row");
  check_caught(edited(product, "commit",
                      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r3];"),
               "cta_group::2");
}

TEST_CASE("an mma's source may not change before its commit is observed") {
  const std::string product = kProduct;
  check_caught(edited(product, "commit",
                      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n"
                      "st.shared.b32 [%r3+1024], %r30;"),
               "the A operand of tcgen05.mma");
}

TEST_CASE("what a commit tells, and who has to hear it") {
  const std::string product = kProduct;
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n";
  // The second arrival may come after the CTA has gone.
  check_caught(edited(product, "commit",
                      "mbarrier.init.shared::cta.b64 [%r3+16], 1;\n" + commit +
                          "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+16];"),
               "has exited");
  // That the products are over, not what their thread wrote.
  check_caught(edited(edited(product, "commit", "st.shared.b32 [%r3+24], %r30;\n" + commit), "after mma",
                      "tcgen05.fence::after_thread_sync;\nld.shared.b32 %r40, [%r3+24];"),
               "nothing orders the two");
  // With that their operands may be overwritten, by whom ever.
  check_passes(
      edited(product, "after mma", "tcgen05.fence::after_thread_sync;\n@!%p1 st.shared.b32 [%r3+1024], 0;"));
}

TEST_CASE("tcgen05 instructions that are not modelled are refused when the image is loaded") {
  Device device("sim:sm_100a");
  const auto refused = [&](const std::string& statement) {
    void* none[] = {nullptr};
    const CUresult result = device.run(edited(kProduct, "mma", statement), "product", none, 1, 128, 1024);
    CHECK(result == CUDA_ERROR_INVALID_PTX);
    const std::string report = device.report();
    const bool named = report.find(statement.substr(0, statement.find(' '))) != std::string::npos;
    CHECK_MESSAGE(named, report);
  };
  refused("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r8], %rd11, %rd12, %r30, %p5, 3;");
  refused("tcgen05.mma.cta_group::1.kind::f16.ashift [%r8], [%r8], %rd12, %r30, %p5;");
  refused("tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, %p5, 16;");
  refused("tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd11, %rd12, %r30, {%r1, %r2}, %p5;");
  refused("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r8];");
  refused("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r8];");
  refused("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r8], 16;");
}
