#include "tests/simulator_tensor_program.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "simulator/driver_table.h"

namespace jfa::test {
namespace {

constexpr std::uint32_t kSharedOffset = 1024;

// {0}: cta_group::N. {1}: columns to allocate. {2}: columns to fill. {3}: columns. {4}: bytes of shared
// memory of a CTA. {5}: what is issued. {6}: a barrier of all CTAs. {7}: .multicast::cluster. {8}: its mask.
constexpr const char* kKernel = R"(
.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry program(.param .u64 shared_in, .param .u64 tensor_in, .param .u64 tensor_out)
.reqntid 128
{9}
{{
  .reg .pred %p, %q, %more, %first, %warp0;
  .reg .b16 %mask;
  .reg .b32 %tid, %warp, %rank, %base, %bar, %i, %v<8>, %t, %mine, %thread, %b<4>;
  .reg .b64 %s, %from, %to, %a<4>;
  mov.u32 %tid, %tid.x;
  shr.u32 %warp, %tid, 5;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %bar, smem;
  add.u32 %base, %bar, 1024;
  setp.eq.u32 %first, %tid, 0;
  setp.eq.u32 %warp0, %warp, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  ld.param.b64 %from, [shared_in];
  mul.wide.u32 %a0, %rank, {4};
  add.s64 %from, %from, %a0;
  shl.b32 %i, %tid, 4;
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
  add.u32 %thread, %thread, %tid;
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
  setp.eq.u32 %more, %thread, 0;
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

std::string kernel_text(const TensorProgram& p, std::uint32_t shared_bytes) {
  std::uint32_t allocated = 32;
  while (allocated < p.columns) allocated *= 2;
  const bool pair = p.ctas == 2;
  return fmt::format(
      fmt::runtime(kKernel), p.cta_group(), allocated, p.filled_columns * 4, p.columns * 4, shared_bytes,
      p.issue, pair ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" : "bar.sync 0;",
      pair ? ".multicast::cluster" : "", pair ? ", %mask" : "", pair ? ".reqnctapercluster 2, 1, 1" : "");
}

}  // namespace

const std::vector<std::string> kTensorSchedules = {"sim:sm_100a", "sim:sm_100a?schedule=lazy",
                                                   "sim:sm_100a?schedule=random&seed=1"};

TensorOutcome run_tensor_program(const std::string& device, const TensorProgram& program) {
  std::string error;
  const DriverTable* driver = simulator::open_simulated_driver(device, &error);
  REQUIRE_MESSAGE(driver != nullptr, error);
  REQUIRE(driver->cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(driver->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(driver->cuCtxPushCurrent(context) == CUDA_SUCCESS);
  const auto upload = [&](const void* data, std::size_t bytes) {
    CUdeviceptr address = 0;
    REQUIRE(driver->cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
    REQUIRE(driver->cuMemcpyHtoD(address, data, bytes) == CUDA_SUCCESS);
    return address;
  };
  REQUIRE(program.shared.size() == program.ctas);
  std::vector<std::byte> shared;
  for (const auto& image : program.shared) shared.insert(shared.end(), image.begin(), image.end());
  const auto shared_bytes = static_cast<std::uint32_t>(program.shared[0].size());
  const std::uint32_t threads = program.ctas * kLanes;
  // What is stored, without what is not.
  std::vector<std::uint32_t> filled(std::size_t{threads} * program.filled_columns + 8);
  for (std::uint32_t thread = 0; thread < threads; ++thread)
    for (std::uint32_t column = 0; column < program.filled_columns; ++column)
      filled[thread * program.filled_columns + column] = program.tensor[thread * program.columns + column];

  TensorOutcome outcome;
  outcome.tensor.resize(std::size_t{threads} * program.columns);
  CUdeviceptr shared_in = upload(shared.data(), shared.size());
  CUdeviceptr tensor_in = upload(filled.data(), filled.size() * 4);
  CUdeviceptr tensor_out = upload(outcome.tensor.data(), outcome.tensor.size() * 4);
  void* parameters[] = {&shared_in, &tensor_in, &tensor_out};
  const std::string text = kernel_text(program, shared_bytes);
  CUlibrary library = nullptr;
  outcome.ok = driver->cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
               CUDA_SUCCESS;
  if (outcome.ok) {
    CUkernel kernel = nullptr;
    REQUIRE(driver->cuLibraryGetKernel(&kernel, library, "program") == CUDA_SUCCESS);
    REQUIRE(driver->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         static_cast<int>(kSharedOffset + shared_bytes), kernel,
                                         0) == CUDA_SUCCESS);
    CUlaunchConfig config{};
    config.gridDimX = program.ctas;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = kLanes;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = kSharedOffset + shared_bytes;
    REQUIRE(driver->cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), parameters, nullptr) ==
            CUDA_SUCCESS);
    outcome.ok = driver->cuStreamSynchronize(nullptr) == CUDA_SUCCESS;
    REQUIRE(driver->cuMemcpyDtoH(outcome.tensor.data(), tensor_out, outcome.tensor.size() * 4) ==
            CUDA_SUCCESS);
    REQUIRE(driver->cuLibraryUnload(library) == CUDA_SUCCESS);
  }
  if (!outcome.ok) outcome.report = simulator::last_report(driver);
  driver->cuCtxPopCurrent(nullptr);
  driver->cuDevicePrimaryCtxRelease(0);
  return outcome;
}

}  // namespace jfa::test
