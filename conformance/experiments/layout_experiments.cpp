// Experiments that show where copies and products put things in tensor memory, and where tensor copies put
// them in shared memory.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "conformance/doubts.h"
#include "conformance/product_program.h"

namespace jfa::conformance {
namespace {

// --- tcgen05.cp: word i of shared memory holds i.

struct CopyShape {
  const char* modifiers;
  std::uint32_t rows, words;  // of a row
  std::vector<std::uint32_t> (*lanes)(std::uint32_t row);
};

const CopyShape kCopies[] = {{"128x256b", 128, 8, [](std::uint32_t row) { return std::vector{row}; }},
                             {"128x128b", 128, 4, [](std::uint32_t row) { return std::vector{row}; }},
                             {"64x128b.warpx2::02_13", 64, 4,
                              [](std::uint32_t row) {
                                return std::vector{row, row + 64};
                              }},
                             {"64x128b.warpx2::01_23", 64, 4,
                              [](std::uint32_t row) {
                                const std::uint32_t lane = row / 32 * 64 + row % 32;
                                return std::vector{lane, lane + 32};
                              }},
                             {"32x128b.warpx4", 32, 4,
                              [](std::uint32_t row) {
                                return std::vector{row, row + 32, row + 64, row + 96};
                              }},
                             {"4x256b", 4, 8, [](std::uint32_t row) { return std::vector{row * 32}; }}};

// From chunks of 16 bytes, eight rows one behind the other, and groups of rows 256 bytes apart.
TestKernel copy(const CopyShape& shape, std::uint32_t first_lane = 0) {
  constexpr std::uint32_t kStride = 256, kLeading = 128, kImageWords = 1024, kColumn = 8;
  TensorProgram p;
  p.columns = p.filled_columns = 32;
  p.tensor.assign(kTensorProgramLanes * p.columns, 0xaaaaaaaa);
  std::vector<std::uint32_t> image(kImageWords);
  for (std::uint32_t i = 0; i < kImageWords; ++i) image[i] = i;
  p.shared = {std::vector<std::byte>(kImageWords * 4)};
  std::memcpy(p.shared[0].data(), image.data(), p.shared[0].size());
  p.expected = p.tensor;
  for (std::uint32_t row = 0; row < shape.rows; ++row)
    for (std::uint32_t word = 0; word < shape.words; ++word)
      for (const std::uint32_t lane : shape.lanes(row))
        p.cell(p.expected, 0, first_lane + lane, kColumn + word) =
            (row / 8 * kStride + word / 4 * kLeading + row % 8 * 16) / 4 + word % 4;
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\nadd.u32 %b0, %t, {};\ntcgen05.cp.cta_group::1.{} [%b0], %a0;\n",
      std::uint64_t{1} << 46 | std::uint64_t{kStride >> 4} << 32 | std::uint64_t{kLeading >> 4} << 16,
      first_lane << 16 | kColumn, shape.modifiers);
  return kernel_of(p);
}

// Elements of 4 or 6 bits, 16 of every 16 bytes, to a byte each.
TestKernel unpacking_copy(std::uint32_t bits, const char* format) {
  constexpr std::uint32_t kRowBytes = 32, kStride = 256, kLeading = 128;
  TensorProgram p;
  p.columns = p.filled_columns = 8;
  p.tensor.resize(kTensorProgramLanes * p.columns);
  p.expected = p.tensor;
  p.shared = {std::vector<std::byte>(4096, std::byte{0xff})};
  for (std::uint32_t row = 0; row < kTensorProgramLanes; ++row)
    for (std::uint32_t k = 0; k < kRowBytes; ++k) {
      const std::uint32_t element = (row * 7 + k * 5 + 1) % (1u << bits);
      const std::uint32_t byte = row / 8 * kStride + k / 16 * kLeading + row % 8 * 16;
      for (std::uint32_t bit = 0; bit < bits; ++bit) {
        const std::uint32_t at = byte * 8 + k % 16 * bits + bit;
        const std::byte mask = std::byte{1} << at % 8;
        if ((element >> bit & 1) == 0) p.shared[0][at / 8] &= ~mask;
      }
      p.cell(p.expected, 0, row, k / 4) |= element << (bits == 4 ? 2 : 0) << k % 4 * 8;
    }
  p.issue = fmt::format(
      "add.s64 %a0, %s, {};\ntcgen05.cp.cta_group::1.128x256b.b8x16.{} [%t], %a0;\n",
      std::uint64_t{1} << 46 | std::uint64_t{kStride >> 4} << 32 | std::uint64_t{kLeading >> 4} << 16,
      format);
  return kernel_of(p);
}

ExactProduct product_of_narrow_a(std::uint32_t a_type, const ElementCode& (*code)()) {
  ExactProduct product;
  product.opcode = "tcgen05.mma.cta_group::1.kind::f8f6f4";
  product.descriptor_bits = 1u << 4 | a_type << 7;
  product.a_code = code;
  product.b_code = e4m3_code;
  product.a_in_tensor_memory = true;
  return product;
}

// --- tcgen05.shift, of the second quarter of the lanes; cells count.

TestKernel shift() {
  constexpr std::uint32_t kLane = 32, kColumn = 8, kColumns = 8;
  TensorProgram p;
  p.columns = p.filled_columns = 32;
  p.tensor.resize(kTensorProgramLanes * p.columns);
  for (std::uint32_t i = 0; i < p.tensor.size(); ++i) p.tensor[i] = i;
  p.shared = {std::vector<std::byte>(16)};
  p.expected = p.tensor;
  for (std::uint32_t lane = kLane; lane < kLane + 31; ++lane)
    for (std::uint32_t column = kColumn; column < kColumn + kColumns; ++column)
      p.cell(p.expected, 0, lane, column) = p.cell(p.tensor, 0, lane + 1, column);
  p.issue =
      fmt::format("add.u32 %b0, %t, {};\ntcgen05.shift.cta_group::1.down [%b0];\n", kLane << 16 | kColumn);
  return kernel_of(p);
}

// --- mma.ws.

ExactProduct weight_stationary(std::uint32_t m) {
  ExactProduct product;
  product.opcode = "tcgen05.mma.ws.cta_group::1.kind::f16";
  product.m = m;
  const std::uint32_t columns = product.n * m / 128;
  product.place = [m, columns](std::uint32_t row, std::uint32_t n) {
    return TensorPlace{0, row + m * (n / columns), n % columns};
  };
  return product;
}

// Three columns of zeros, four others, and so on: the zero-column mask's skip span is 2, its use span 3, as
// in the manual's examples. What the columns hold does not matter to D.
TestKernel columns_of_zeros(std::string_view name) {
  constexpr std::uint32_t kSkip = 2, kUse = 3;
  ExactProduct product;
  product.opcode = "tcgen05.mma.ws.cta_group::1.kind::f16";
  product.factor = [](std::uint32_t, std::uint32_t n, std::uint32_t) {
    return n % (kSkip + kUse + 2) > kUse ? 0.0 : 1.0;
  };
  TensorProgram p = exact_program(product, name);
  const std::uint64_t mask = std::uint64_t{1} << 39 | std::uint64_t{kSkip} << 40 | std::uint64_t{kUse} << 48;
  p.issue.replace(p.issue.rfind(", %p;"), 5, fmt::format(", %p, {};", mask));
  return kernel_of(p);
}

// --- Tensor copies of 16 rows of 128 bytes of shared memory.

struct RowsCopy {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
  std::uint32_t elements = 32;  // of a row
  std::uint32_t row_bytes = 128;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  std::uint32_t chunk_words = 4;  // of 16 bytes: the others are padding
};

constexpr std::uint32_t kCopyRows = 16, kPitchWords = 32;

// {0}: bytes that the barrier expects. {1}: words of a chunk that are no padding.
constexpr const char* kCopyKernel =
    R"(.visible .entry test(.param .u64 out, .param .u64 in0, .param .align 64 .b8 map[128])
.reqntid 128
{{
.reg .b32 %t, %tile, %bar, %i, %v<3>; .reg .b64 %out, %map, %a; .reg .pred %p, %q, %first;
.shared .align 1024 .b8 tile[2048];
.shared .align 8 .b64 barrier;
mov.u32 %t, %tid.x;
setp.eq.u32 %first, %t, 0;
mov.u32 %tile, tile;
mov.u32 %bar, barrier;
mov.b64 %map, map;
cvta.param.u64 %map, %map;
ld.param.u64 %out, [out];
@%first mbarrier.init.shared::cta.b64 [%bar], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {0};
@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {{0, 0}}], [%bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
@!%p bra WAIT;
mov.u32 %i, %t;
NEXT: shl.b32 %v0, %i, 2;
add.u32 %v0, %v0, %tile;
and.b32 %v2, %i, 3;
setp.lt.u32 %q, %v2, {1};
mov.b32 %v1, 0;
@%q ld.shared.b32 %v1, [%v0];
mad.wide.u32 %a, %i, 4, %out;
st.global.b32 [%a], %v1;
add.u32 %i, %i, 128;
setp.lt.u32 %p, %i, 512;
@%p bra NEXT;
ret;
}}
)";

// Word i of global memory holds i + 1; `place` says to which word of shared memory it goes.
template <class Place>
TestKernel copy_of_rows(const RowsCopy& copy, Place place) {
  TestKernel kernel;
  kernel.block.x = 128;
  kernel.output_bytes = kCopyRows * kPitchWords * 4;
  std::vector<std::uint32_t> words(kCopyRows * copy.row_bytes / 4), expected(kCopyRows * kPitchWords);
  for (std::uint32_t i = 0; i < words.size(); ++i) expected[place(i)] = words[i] = i + 1;
  kernel.inputs = {std::vector<std::byte>(words.size() * 4)};
  std::memcpy(kernel.inputs[0].data(), words.data(), kernel.inputs[0].size());
  kernel.expected.resize(kernel.output_bytes);
  std::memcpy(kernel.expected.data(), expected.data(), kernel.output_bytes);
  kernel.maps = {
      {copy.type, {copy.elements, kCopyRows}, {copy.row_bytes}, {copy.elements, kCopyRows}, copy.swizzle, 0}};
  kernel.ptx = fmt::format(fmt::runtime(kCopyKernel), kCopyRows * copy.row_bytes, copy.chunk_words);
  return kernel;
}

TestKernel swizzled_copy(CUtensorMapSwizzle swizzle, std::uint32_t atom_bytes) {
  return copy_of_rows({.swizzle = swizzle}, [atom_bytes](std::uint32_t word) {
    const std::uint32_t byte = word * 4, atoms = 128 / atom_bytes;
    return (byte ^ (byte >> 7 & (atoms - 1)) * atom_bytes) / 4;
  });
}

// 16 elements of 4 or 6 bits to the start of every 16 bytes. The barrier expects the bytes of global memory:
// a device that reports others never comes to an end.
TestKernel padded_copy(CUtensorMapDataType type, std::uint32_t element_bits) {
  const std::uint32_t chunk_words = element_bits / 2;
  return copy_of_rows(
      {.type = type, .elements = 128, .row_bytes = 16 * element_bits, .chunk_words = chunk_words},
      [chunk_words](std::uint32_t word) { return word / chunk_words * 4 + word % chunk_words; });
}

// tf32 operands that lie along m and n, in atoms of 32 bytes: four k of 32 elements each are 512 bytes.
TestKernel atoms_of_32_bytes(std::string_view name) {
  constexpr std::uint32_t kDepth = 8, kRowsOfAtom = 32, kAtomBytes = kDepth * 128, kB = 4096;
  ExactProduct product;
  product.opcode = "tcgen05.mma.cta_group::1.kind::tf32";
  product.n = 64;
  product.descriptor_bits = 1u << 4 | 2u << 7 | 2u << 10 | 3u << 15;
  // The numbers as K-major rows, which are put where the atoms have them.
  TensorProgram p = exact_program({.opcode = product.opcode,
                                   .n = product.n,
                                   .descriptor_bits = product.descriptor_bits,
                                   .a_code = tf32_code,
                                   .b_code = tf32_code},
                                  name);
  const std::vector<std::byte> rows = p.shared[0];
  std::fill(p.shared[0].begin(), p.shared[0].end(), std::byte{0});
  const auto move = [&](std::uint32_t offset, std::uint32_t count) {
    for (std::uint32_t row = 0; row < count; ++row)
      for (std::uint32_t k = 0; k < kDepth; ++k) {
        const std::uint32_t from = offset + k / 4 * count * 16 + row * 16 + k % 4 * 4;
        const std::uint32_t linear = row / kRowsOfAtom * kAtomBytes + k * 128 + row % kRowsOfAtom * 4;
        std::memcpy(&p.shared[0][offset + (linear ^ (linear >> 7 & 3) << 5)], &rows[from], 4);
      }
  };
  move(0, product.m);
  move(kB, product.n);
  const std::uint64_t layout = std::uint64_t{1} << 61 | std::uint64_t{1} << 46 |
                               std::uint64_t{512 >> 4} << 32 | std::uint64_t{kAtomBytes >> 4} << 16;
  p.issue = fmt::format("add.s64 %a0, %s, {};\nadd.s64 %a1, %s, {};\n{} [%t], %a0, %a1, {}, %p;\n", layout,
                        layout | kB >> 4, product.opcode,
                        product.descriptor_bits | (product.n >> 3) << 17 | (product.m >> 4) << 24);
  return kernel_of(p);
}

}  // namespace

void add_layout_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, std::function<TestKernel()> make,
                       Needs needs = Needs::kBlackwell) {
    cases.push_back({name, "doubt", needs, std::move(make)});
  };
  for (const CopyShape& shape : kCopies)
    add(fmt::format("doubt 15: tcgen05.cp.{}", shape.modifiers), [&shape] { return copy(shape); });
  add("doubt 15: tcgen05.cp.4x256b to the last lanes", [] { return copy(kCopies[5], 31); });
  for (const std::uint32_t m : {32u, 64u}) {
    const std::string name = fmt::format("doubt 25: mma.ws with M = {}", m);
    add(name, [m, name] { return kernel_of(exact_program(weight_stationary(m), name)); });
  }
  const std::string zeros = "doubt 35: mma.ws with a mask of columns";
  add(zeros, [zeros] { return columns_of_zeros(zeros); });
  add("doubt 26: a tensor copy in atoms of 32 bytes",
      [] { return swizzled_copy(CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, 32); });
  add("doubt 26: a tensor copy in atoms of 64 bytes",
      [] { return swizzled_copy(CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B, 64); });
  add("doubt 32: 4-bit elements, padded",
      [] { return padded_copy(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, 4); });
  add("doubt 32: 6-bit elements, padded",
      [] { return padded_copy(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B, 6); });
  add("doubt 33: tcgen05.shift of the second quarter", shift);
  add("doubt 34: a copy of 4-bit elements to bytes", [] { return unpacking_copy(4, "b4x16_p64"); });
  add("doubt 34: a copy of 6-bit elements to bytes", [] { return unpacking_copy(6, "b6x16_p32"); });
  const std::string e2m1 = "doubt 34: A of type e2m1 in tensor memory";
  add(e2m1, [e2m1] { return kernel_of(exact_program(product_of_narrow_a(5, e2m1_bytes_code), e2m1)); });
  const std::string e2m3 = "doubt 34: A of type e2m3 in tensor memory";
  add(e2m3, [e2m3] { return kernel_of(exact_program(product_of_narrow_a(3, e2m3_bytes_code), e2m3)); });
  const std::string atoms = "doubt 26: MN-major tf32 operands in atoms of 32 bytes";
  add(atoms, [atoms] { return atoms_of_32_bytes(atoms); });
}

}  // namespace jfa::conformance
