// Experiments with tcgen05: small integers, whose products and sums are exact, show where elements lie;
// numbers far apart show how sums are rounded.
#include <fmt/format.h>

#include <cstring>

#include "conformance/doubts.h"
#include "conformance/operands.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kRows = 128, kDepth = 16, kTileBytes = 32768;
constexpr std::uint64_t kSwizzle128 = 2, kVersion = 1;

std::uint16_t bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

// D = A · B with M = 128, K = 16 and both operands in shared memory, A K-major. Tiles are 128 bytes wide and
// swizzled.
struct Product {
  std::uint32_t n = 64;
  bool b_transposed = false;         // MN-major
  std::uint32_t column = 0;          // where D begins
  std::uint32_t leading_bytes = 16;  // in K-major descriptors, where it should not matter
  std::uint32_t tile_offset = 0;     // of both tiles; with it base_offset
};

// A byte's place in a tile of 128-byte lines that begins `offset` bytes behind a multiple of 1024. The
// pattern begins where the tile does: what base_offset is for.
std::uint32_t swizzled(std::uint32_t line, std::uint32_t byte) {
  return line * 128 + (byte ^ (line % 8 * 16));
}

std::uint64_t descriptor(const Product& p, bool transposed) {
  const std::uint32_t leading = transposed ? kDepth * 128 : p.leading_bytes;
  const std::uint64_t base_offset = p.tile_offset / 128 % 8;
  return kSwizzle128 << 61 | base_offset << 49 | kVersion << 46 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{leading >> 4} << 16;
}

// Words from an input to shared memory from %base on.
std::string copy_in(int input, const std::string& label) {
  return fmt::format(
      "ld.param.u64 %in, [in{1}];\nmov.u32 %i, %t;\n{0}: mad.wide.u32 %a0, %i, 4, %in;\nld.global.b32 %v0, "
      "[%a0];\n"
      "shl.b32 %v1, %i, 2;\nadd.u32 %v1, %base, %v1;\nst.shared.b32 [%v1], %v0;\nadd.u32 %i, %i, 128;\n"
      "setp.lt.u32 %p, %i, {2};\n@%p bra {0};\n",
      label, input, kTileBytes / 4);
}

std::string list(std::uint32_t count) {
  std::string names;
  for (std::uint32_t i = 0; i < count; ++i) names += fmt::format("{}%d{}", i == 0 ? "{" : ", ", i);
  return names + "}";
}

// Four warps with 512 columns of tensor memory at %taddr; %mine is its address with the warp's own lanes.
std::string tensor_kernel(const std::string& parameters, std::uint32_t registers, const std::string& body) {
  return fmt::format(
      R"(.visible .entry test(.param .u64 out{})
.reqntid 128
{{
.reg .b32 %t, %base, %bar, %i, %v<4>, %taddr, %mine, %d<{}>; .reg .b64 %in, %out, %a<2>, %da, %db; .reg .pred %p, %first, %warp0;
.shared .align 1024 .b8 a_tile[{}];
.shared .align 1024 .b8 b_tile[{}];
.shared .align 8 .b64 barrier;
.shared .align 4 .b32 place;
mov.u32 %t, %tid.x;
setp.lt.u32 %warp0, %t, 32;
setp.eq.u32 %first, %t, 0;
mov.u32 %bar, barrier;
mov.u32 %v0, place;
@%first mbarrier.init.shared::cta.b64 [%bar], 1;
@!%warp0 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%v0], 512;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
tcgen05.fence::before_thread_sync;
ALLOCATED: bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %taddr, [%v0];
shr.u32 %v1, %t, 5;
shl.b32 %v1, %v1, 21;
add.u32 %mine, %taddr, %v1;
ld.param.u64 %out, [out];
{}tcgen05.fence::before_thread_sync;
bar.sync 0;
@!%warp0 bra DONE;
tcgen05.fence::after_thread_sync;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 512;
DONE: ret;
}}
)",
      parameters, registers, kTileBytes, kTileBytes, body);
}

TestKernel product(const Product& p, const std::vector<std::uint16_t>& a,
                   const std::vector<std::uint16_t>& b) {
  TestKernel kernel;
  kernel.block.x = kRows;
  kernel.output_bytes = std::size_t{kRows} * p.n * 4;
  std::vector<std::byte> a_tile(kTileBytes), b_tile(kTileBytes);
  for (std::uint32_t k = 0; k < kDepth; ++k) {
    for (std::uint32_t m = 0; m < kRows; ++m)
      std::memcpy(&a_tile[p.tile_offset + swizzled(m, k * 2)], &a[m * kDepth + k], 2);
    for (std::uint32_t n = 0; n < p.n; ++n) {
      const std::uint32_t place =
          p.b_transposed ? n / 64 * (kDepth * 128) + swizzled(k, n % 64 * 2) : swizzled(n, k * 2);
      std::memcpy(&b_tile[p.tile_offset + place], &b[n * kDepth + k], 2);
    }
  }
  kernel.inputs = {std::move(a_tile), std::move(b_tile)};
  const std::uint32_t instruction =
      0x490 | (p.b_transposed ? 1u << 16 : 0) | (p.n >> 3) << 17 | (kRows >> 4) << 24;
  std::string read;
  for (std::uint32_t column = 0; column < p.n; column += 8) {
    read +=
        fmt::format("tcgen05.ld.sync.aligned.32x32b.x8.b32 {}, [%mine+{}];\ntcgen05.wait::ld.sync.aligned;\n",
                    list(8), p.column + column);
    for (std::uint32_t i = 0; i < 8; ++i)
      read += fmt::format("st.global.b32 [%a1+{}], %d{};\n", 4 * (column + i), i);
  }
  kernel.ptx = tensor_kernel(
      ", .param .u64 in0, .param .u64 in1", 8,
      fmt::format(
          "mov.u32 %base, a_tile;\n{0}add.u32 %v2, %base, {6};\nshr.u32 %v2, %v2, 4;\ncvt.u64.u32 %da, %v2;\n"
          "or.b64 %da, %da, {1};\nmov.u32 %base, b_tile;\n{2}add.u32 %v2, %base, {6};\nshr.u32 %v2, %v2, 4;\n"
          "cvt.u64.u32 %db, %v2;\nor.b64 %db, %db, {3};\n"
          "fence.proxy.async.shared::cta;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
          "tcgen05.fence::after_thread_sync;\nsetp.ne.u32 %p, 0, 0;\nadd.u32 %v3, %taddr, {4};\n"
          "@%first tcgen05.mma.cta_group::1.kind::f16 [%v3], %da, %db, {5}, %p;\n"
          "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];\n"
          "bar.warp.sync 0xffffffff;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n"
          "@!%p bra WAIT;\ntcgen05.fence::after_thread_sync;\nmad.wide.u32 %a1, %t, {7}, %out;\n{8}",
          copy_in(0, "A"), descriptor(p, false), copy_in(1, "B"), descriptor(p, p.b_transposed), p.column,
          instruction, p.tile_offset, p.n * 4, read));
  return kernel;
}

TestKernel exact_product(const Product& p, std::string_view name) {
  Random random(seed_of(name));
  std::vector<int> a(kRows * kDepth), b(p.n * kDepth);
  for (std::vector<int>* matrix : {&a, &b})
    for (int& value : *matrix) value = static_cast<int>(random.below(15)) - 7;
  const auto encode = [](const std::vector<int>& values) {
    std::vector<std::uint16_t> bits;
    for (const int value : values) bits.push_back(bf16(static_cast<float>(value)));
    return bits;
  };
  TestKernel kernel = product(p, encode(a), encode(b));
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t m = 0; m < kRows; ++m)
    for (std::uint32_t n = 0; n < p.n; ++n) {
      int sum = 0;
      for (std::uint32_t k = 0; k < kDepth; ++k) sum += a[m * kDepth + k] * b[n * kDepth + k];
      const auto value = static_cast<float>(sum);
      std::memcpy(&kernel.expected[(m * p.n + n) * 4], &value, 4);
    }
  return kernel;
}

// Numbers whose sums show alignment and truncation; compared with the simulator.
TestKernel rounded_product(bool special, std::string_view name) {
  Random random(seed_of(name));
  const Product p{.n = 64};
  const auto matrix = [&](std::uint32_t rows) {
    std::vector<std::uint16_t> bits;
    for (std::uint32_t i = 0; i < rows * kDepth; ++i) {
      const std::uint64_t any = random_operand(OperandType::kBf16, random);
      bits.push_back(
          static_cast<std::uint16_t>(special ? any : (any & 0x807f) | (114 + random.below(27)) << 7));
    }
    return bits;
  };
  const std::vector<std::uint16_t> a = matrix(kRows), b = matrix(p.n);
  return product(p, a, b);
}

// A warp stores 16 registers to 16 columns, cell (lane, column) = lane · 256 + column, and loads them in
// another shape.
TestKernel transfer(const std::string& load, std::uint32_t registers,
                    std::uint32_t (*expected)(std::uint32_t lane, std::uint32_t r)) {
  TestKernel kernel;
  kernel.block.x = kRows;
  kernel.output_bytes = std::size_t{kRows} * registers * 4;
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t thread = 0; thread < kRows; ++thread)
    for (std::uint32_t r = 0; r < registers; ++r) {
      const std::uint32_t value = expected(thread % 32, r);
      std::memcpy(&kernel.expected[(thread * registers + r) * 4], &value, 4);
    }
  std::string body = "and.b32 %v2, %t, 31;\nshl.b32 %v2, %v2, 8;\n";
  for (std::uint32_t i = 0; i < 16; ++i) body += fmt::format("add.u32 %d{}, %v2, {};\n", i, i);
  body += fmt::format("tcgen05.st.sync.aligned.32x32b.x16.b32 [%mine], {};\ntcgen05.wait::st.sync.aligned;\n",
                      list(16));
  body += fmt::format(fmt::runtime("tcgen05.ld.sync.aligned." + load + ";\n"), list(registers));
  body += fmt::format("tcgen05.wait::ld.sync.aligned;\nmad.wide.u32 %a1, %t, {}, %out;\n", registers * 4);
  for (std::uint32_t i = 0; i < registers; ++i)
    body += fmt::format("st.global.b32 [%a1+{}], %d{};\n", 4 * i, i);
  kernel.ptx = tensor_kernel("", 16, body);
  return kernel;
}

std::uint32_t cell(std::uint32_t lane, std::uint32_t column) { return lane * 256 + column; }
std::uint32_t packed_cells(std::uint32_t lane, std::uint32_t r) {
  return (cell(lane, 2 * r) & 0xffff) | cell(lane, 2 * r + 1) << 16;
}
std::uint32_t split_cell(std::uint32_t lane, std::uint32_t r) {
  return cell(lane % 16, r + (lane < 16 ? 0 : 8));
}

}  // namespace

void add_tensor_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, std::function<TestKernel()> make) {
    cases.push_back({name, "doubt", Needs::kBlackwell, std::move(make)});
  };
  const auto exact = [&](const std::string& name, const Product& p) {
    add(name, [p, name] { return exact_product(p, name); });
  };
  for (const std::uint32_t n : {8u, 24u, 40u})
    exact(fmt::format("doubt 1: N = {} with M = 128", n), {.n = n});
  for (const std::uint32_t column : {4u, 20u, 33u})
    exact(fmt::format("doubt 3: D begins at column {}", column), {.n = 32, .column = column});
  for (const std::uint32_t offset : {128u, 384u, 896u})
    exact(fmt::format("doubt 7: tiles {} bytes behind a multiple of 1024, and base_offset", offset),
          {.tile_offset = offset});
  exact("doubt 10: a descriptor whose bits 60:53 are zero", {.n = 128});
  add("doubt 14: sums of numbers far apart", [] { return rounded_product(false, "far apart"); });
  add("doubt 14: sums with zeros, denormals, infinities and NaNs",
      [] { return rounded_product(true, "special"); });
  add("doubt 16: .pack::16b takes the low half from the lower column",
      [] { return transfer("32x32b.x8.pack::16b.b32 {}, [%mine]", 8, packed_cells); });
  add("doubt 17: 16x32bx2 reads two halves",
      [] { return transfer("16x32bx2.x8.b32 {}, [%mine], 8", 8, split_cell); });
  for (const std::uint32_t leading : {0u, 64u, 2048u})
    exact(fmt::format("doubt 18: a leading offset of {} bytes, swizzled and K-major", leading),
          {.leading_bytes = leading});
  for (const std::uint32_t n : {16u, 80u})
    exact(fmt::format("doubt 19: N = {}, MN-major in atoms of 64", n), {.n = n, .b_transposed = true});
}

}  // namespace jfa::conformance
