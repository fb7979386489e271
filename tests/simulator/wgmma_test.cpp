// wgmma on the simulated device: products of every layout against integer arithmetic, and the checkers, each
// of which a kernel with one instruction changed must wake on every schedule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "simulator/machine/float_format.h"
#include "simulator/machine/launch.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/mma.h"

namespace jfa::simulator::wgmma_test {

namespace {

constexpr std::uint32_t kM = 64;
constexpr std::uint32_t kWarpgroup = 128;

// --- Operands in shared memory. The layouts are written down here once more, as TMA writes them: rows of
// swizzle_bytes, whose 16-byte chunks trade places within groups of rows that cover all banks.

struct Layout {
  MatrixMajor major = MatrixMajor::kK;
  std::uint32_t swizzle_bytes = 128;  // 0: none
};

struct Operand {
  Layout layout;
  std::uint32_t rows = 0;   // of A, or columns of B
  std::uint32_t depth = 0;  // all of K
  std::uint32_t offset = 0;
  std::vector<std::uint16_t> elements;  // [rows][depth]

  std::uint16_t at(std::uint32_t row, std::uint32_t k) const { return elements[row * depth + k]; }
  std::uint32_t width() const { return layout.swizzle_bytes; }
  std::uint32_t atom() const { return width() / 2; }

  static std::uint32_t swizzled(std::uint32_t line, std::uint32_t byte, std::uint32_t width) {
    const std::uint32_t lines_per_step = 128 / width;
    const std::uint32_t chunk = byte / 16 ^ (line / lines_per_step) % (width / 16);
    return line * width + chunk * 16 + byte % 16;
  }

  std::uint32_t place(std::uint32_t row, std::uint32_t k) const {
    if (layout.major == MatrixMajor::kK) {
      if (width() == 0) return row / 8 * 128 + k / 8 * (rows * 16) + row % 8 * 16 + k % 8 * 2;
      return swizzled(row, k * 2, width());
    }
    if (width() == 0) return row / 8 * (depth * 16) + k / 8 * 128 + k % 8 * 16 + row % 8 * 2;
    return row / atom() * (depth * width()) + swizzled(k, row % atom() * 2, width());
  }

  std::uint32_t bytes() const {
    if (width() == 0) return rows * depth * 2;
    if (layout.major == MatrixMajor::kK) return rows * width();
    return (rows + atom() - 1) / atom() * depth * width();
  }

  // Of the sixteen elements of K from `k` on, relative to shared memory's start.
  std::uint64_t descriptor(std::uint32_t k) const {
    const bool k_major = layout.major == MatrixMajor::kK;
    std::uint32_t leading = 16, stride = width() * 8, start = 0;
    if (k_major) {
      if (width() == 0) leading = rows * 16, stride = 128;
      start = width() == 0 ? k / 8 * leading : k * 2;
    } else if (width() == 0) {
      leading = 128, stride = depth * 16, start = k / 8 * leading;
    } else {
      leading = depth * width(), start = k / 8 * stride;
    }
    const std::uint64_t swizzle = width() == 0 ? 0 : width() == 128 ? 1 : width() == 64 ? 2 : 3;
    return swizzle << 62 | std::uint64_t{stride >> 4} << 32 | std::uint64_t{leading >> 4} << 16 |
           (offset + start) >> 4;
  }

  void store(std::vector<std::uint16_t>& image) const {
    for (std::uint32_t row = 0; row < rows; ++row)
      for (std::uint32_t k = 0; k < depth; ++k) image[(offset + place(row, k)) / 2] = at(row, k);
  }
};

// --- The kernel: one warpgroup (the last of the CTA) copies an image into shared memory, loads accumulators
// and A fragments, multiplies, and writes its accumulators. Lines end in marks that tests use to change them.

struct Product {
  std::uint32_t n = 64;
  std::uint32_t steps = 1;  // of 16 along K
  Layout a, b;
  bool a_in_registers = false;
  bool bf16 = true;
  bool f32 = true;  // accumulators
  bool accumulate = true;
  bool negate_a = false, negate_b = false;
  std::uint32_t threads = kWarpgroup;

  std::uint32_t registers() const { return f32 ? n / 2 : n / 4; }
};

std::string list(const char* prefix, std::uint32_t count, std::uint32_t first = 0) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, first + i);
  return text;
}

std::string mma_text(const Product& p, std::uint32_t step, const std::string& registers) {
  const char* element = p.bf16 ? "bf16" : "f16";
  const std::string a =
      p.a_in_registers ? "{" + list("%a", 4, 4 * step) + "}" : fmt::format("%adesc{}", step);
  const int ta = p.a.major == MatrixMajor::kMN, tb = p.b.major == MatrixMajor::kMN;
  return fmt::format(
      "wgmma.mma_async.sync.aligned.m64n{}k16.{}.{}.{} {{{}}}, {}, %bdesc{}, %p1, {}, {}, {}{};", p.n,
      p.f32 ? "f32" : "f16", element, element, registers, a, step, p.negate_a ? -1 : 1, p.negate_b ? -1 : 1,
      p.a_in_registers ? "" : fmt::format("{}, ", ta), tb);
}

std::string kernel_text(const Product& p) {
  std::string text = R"(.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry product(.param .u64 image, .param .u32 image_bytes, .param .u64 out, .param .u64 d_in,
                        .param .u64 a_in, .param .align 8 .b8 descriptors[128])
{
  .reg .pred %p<8>;
  .reg .b32 %r<64>, %d<128>, %e<128>, %a<32>;
  .reg .b64 %rd<32>, %adesc<8>, %bdesc<8>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  sub.s32 %r2, %r2, 128;
  setp.lt.u32 %p2, %r1, %r2;
  @%p2 bra DONE;
  sub.s32 %r1, %r1, %r2;
  shr.u32 %r40, %r1, 5;
  mov.u32 %r3, smem;
  ld.param.b64 %rd1, [image];
  ld.param.b32 %r5, [image_bytes];
  shl.b32 %r6, %r1, 4;
COPY_NEXT:
  setp.ge.u32 %p2, %r6, %r5;
  @%p2 bra COPIED;
  cvt.u64.u32 %rd2, %r6;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];
  add.s32 %r7, %r3, %r6;
  st.shared.v4.b32 [%r7], {%r10, %r11, %r12, %r13};
  add.s32 %r6, %r6, 2048;
  bra COPY_NEXT;
COPIED:
  fence.proxy.async.shared::cta;  // [proxy]
  bar.sync 1, 128;
  and.b32 %r31, %r3, 262143;
  shr.u32 %r31, %r31, 4;
  cvt.u64.u32 %rd10, %r31;
  // [descriptors]
)";
  for (std::uint32_t step = 0; step < p.steps; ++step)
    text += fmt::format(
        "  ld.param.b64 %adesc{0}, [descriptors+{1}];\n  add.s64 %adesc{0}, %adesc{0}, %rd10;\n"
        "  ld.param.b64 %bdesc{0}, [descriptors+{2}];\n  add.s64 %bdesc{0}, %bdesc{0}, %rd10;\n",
        step, 16 * step, 16 * step + 8);
  text += fmt::format(
      "  ld.param.b64 %rd4, [d_in];\n  mul.lo.s32 %r20, %r1, {0};\n  mul.wide.u32 %rd5, %r20, 4;\n"
      "  add.s64 %rd4, %rd4, %rd5;\n  ld.param.b64 %rd6, [a_in];\n  mul.wide.u32 %rd7, %r1, {1};\n"
      "  add.s64 %rd6, %rd6, %rd7;\n",
      p.registers(), 16 * p.steps);
  if (p.accumulate)
    for (std::uint32_t i = 0; i < p.registers(); ++i)
      text += fmt::format("  ld.global.b32 %d{}, [%rd4+{}];\n", i, 4 * i);
  if (p.a_in_registers)
    for (std::uint32_t i = 0; i < 4 * p.steps; ++i)
      text += fmt::format("  ld.global.b32 %a{}, [%rd6+{}];\n", i, 4 * i);
  text += fmt::format("  setp.eq.u32 %p1, {}, 1;\n", p.accumulate ? 1 : 0);
  text += "  wgmma.fence.sync.aligned;  // [fence]\n";
  for (std::uint32_t step = 0; step < p.steps; ++step) {
    text += "  " + mma_text(p, step, list("%d", p.registers())) + fmt::format("  // [mma {}]\n", step);
    if (step == 0) text += "  setp.eq.u32 %p1, 1, 1;\n";
  }
  text += R"(  // [issued]
  wgmma.commit_group.sync.aligned;  // [commit]
  // [committed]
  wgmma.wait_group.sync.aligned 0;  // [wait]
  // [waited]
  ld.param.b64 %rd8, [out];
  add.s64 %rd8, %rd8, %rd5;
)";
  for (std::uint32_t i = 0; i < p.registers(); ++i)
    text += fmt::format("  st.global.b32 [%rd8+{}], %d{};{}\n", 4 * i, i, i == 0 ? "  // [store]" : "");
  return text + "DONE:\n  ret;\n}\n";
}

// The text with another statement in place of the one that ends in `mark` (or nothing before the mark).
std::string edited(std::string text, const std::string& mark, const std::string& replacement = "") {
  const std::string ending = "  // [" + mark + "]\n";
  const std::size_t at = text.find(ending);
  REQUIRE_MESSAGE(at != std::string::npos, mark);
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.replace(begin, at + ending.size() - begin, replacement + "\n");
}

// --- Running it.

struct Outcome {
  LaunchResult result;
  std::string load_error;
  std::vector<std::uint32_t> got, want;  // accumulators by thread and register
  std::string report() const { return load_error + result.report.text(); }
};

const RunOptions kSchedules[] = {{.schedule = Schedule::kEager},
                                 {.schedule = Schedule::kLazy},
                                 {.schedule = Schedule::kRandom, .seed = 3}};

float value_of(bool bf16, std::uint16_t bits) {
  return static_cast<float>(decode_float(bits, bf16 ? kBfloat16 : kFloat16));
}

std::uint16_t bits_of(bool bf16, float value) {
  return static_cast<std::uint16_t>(encode_float(value, bf16 ? kBfloat16 : kFloat16, Rounding::kNearest));
}

// Row and column of accumulator element i of a thread, and of A's element e, as measured on an H200.
std::uint32_t fragment_row(std::uint32_t thread, std::uint32_t i) {
  return thread / 32 * 16 + thread % 32 / 4 + 8 * (i >> 1 & 1);
}
std::uint32_t d_column(std::uint32_t thread, std::uint32_t i) {
  return 8 * (i >> 2) + 2 * (thread % 4) + (i & 1);
}
std::uint32_t a_column(std::uint32_t thread, std::uint32_t e) {
  return 2 * (thread % 4) + (e & 1) + 8 * (e >> 2);
}

enum class Values { kIntegers, kReals };

Outcome run(const Product& p, const std::string& ptx, const RunOptions& options = {},
            Values values = Values::kIntegers) {
  std::mt19937 random(p.n + 1000 * p.steps);
  const auto element = [&]() -> std::uint16_t {
    if (values == Values::kReals)
      return static_cast<std::uint16_t>(p.bf16 ? (random() & 0x807f) | (120 + random() % 12) << 7
                                               : (random() & 0x83ff) | (10 + random() % 8) << 10);
    const float integer = static_cast<float>(static_cast<int>(random() % 9) - 4);
    return bits_of(p.bf16, integer);
  };
  const std::uint32_t depth = kMmaK * p.steps;
  Operand a{p.a, kM, depth, 0, {}}, b{p.b, p.n, depth, 0, {}};
  a.elements.resize(kM * depth);
  b.elements.resize(p.n * depth);
  for (auto& x : a.elements) x = element();
  for (auto& x : b.elements) x = element();
  b.offset = (a.bytes() + 1023) / 1024 * 1024;
  std::vector<std::uint16_t> image((b.offset + b.bytes() + 15) / 16 * 8,
                                   0x7fff);  // NaN wherever nothing lies
  a.store(image);
  b.store(image);

  // Accumulators before, and after by the definition of the arithmetic, one K step after the other.
  const std::uint32_t registers = p.registers();
  std::vector<std::uint32_t> before(kWarpgroup * registers), a_fragments(kWarpgroup * 4 * p.steps);
  Outcome outcome;
  outcome.got.assign(kWarpgroup * registers, 0xdddddddd);
  outcome.want.resize(kWarpgroup * registers);
  for (std::uint32_t thread = 0; thread < kWarpgroup; ++thread) {
    for (std::uint32_t i = 0; i < p.n / 2; ++i) {
      const std::uint32_t row = fragment_row(thread, i), column = d_column(thread, i);
      const float old = static_cast<float>(static_cast<int>(random() % 33) - 16);
      float sum = p.accumulate ? old : 0.0f;
      std::uint32_t bits = std::bit_cast<std::uint32_t>(sum);
      for (std::uint32_t k = 0; k < depth; ++k) {
        const float product = value_of(p.bf16, a.at(row, k)) * value_of(p.bf16, b.at(column, k));
        sum += p.negate_a != p.negate_b ? -product : product;
      }
      if (values == Values::kReals) {
        for (std::uint32_t k = 0; k < depth; k += kMmaK) {
          const MmaElement type = p.bf16 ? MmaElement::kBF16 : MmaElement::kF16;
          bits = dot_accumulate_f32(type, type, &a.elements[row * depth + k], &b.elements[column * depth + k],
                                    bits);
        }
      } else {
        bits = std::bit_cast<std::uint32_t>(sum);
      }
      if (p.f32) {
        before[thread * registers + i] = std::bit_cast<std::uint32_t>(old);
        outcome.want[thread * registers + i] = bits;
      } else {
        const int shift = 16 * (i % 2);
        before[thread * registers + i / 2] |= std::uint32_t{bits_of(false, old)} << shift;
        outcome.want[thread * registers + i / 2] |= std::uint32_t{bits_of(false, sum)} << shift;
      }
    }
    for (std::uint32_t step = 0; step < p.steps; ++step)
      for (std::uint32_t e = 0; e < 8; ++e)
        a_fragments[(thread * p.steps + step) * 4 + e / 2] |=
            std::uint32_t{a.at(fragment_row(thread, e), step * kMmaK + a_column(thread, e))} << 16 * (e % 2);
  }

  DeviceMemory memory;
  auto module = Module::load(ptx, memory);
  if (!module.ok()) {
    outcome.result.ok = false;
    outcome.load_error = module.status().message();
    return outcome;
  }
  LaunchConfig config;
  const auto append = [&](const void* data, std::size_t bytes) {
    config.parameters.resize((config.parameters.size() + bytes - 1) / bytes * bytes);
    const auto* first = static_cast<const std::byte*>(data);
    config.parameters.insert(config.parameters.end(), first, first + bytes);
  };
  const auto upload = [&](const auto& data) {
    const std::size_t bytes = data.size() * sizeof(data[0]);
    const std::uint64_t address = memory.allocate(bytes, "data");
    std::memcpy(memory.host(address, bytes), data.data(), bytes);
    append(&address, sizeof(address));
    return address;
  };
  upload(image);
  const auto image_bytes = static_cast<std::uint32_t>(image.size() * 2);
  append(&image_bytes, sizeof(image_bytes));
  const std::uint64_t out = upload(outcome.got);
  upload(before);
  upload(a_fragments);
  for (std::uint32_t step = 0; step < 8; ++step)
    for (const Operand* operand : {&a, &b}) {
      const std::uint64_t descriptor = operand->descriptor(step % p.steps * kMmaK);
      append(&descriptor, sizeof(descriptor));
    }
  config.block = {p.threads, 1, 1};
  config.dynamic_shared_bytes = image_bytes;
  config.options = options;
  config.options.sms = 1;
  outcome.result = run_grid(**module, *(*module)->find("product"), config, memory);
  std::memcpy(outcome.got.data(), memory.host(out, outcome.got.size() * 4), outcome.got.size() * 4);
  return outcome;
}

void check(const Product& p, const RunOptions& options = {}, Values values = Values::kIntegers) {
  CAPTURE(p.n);
  CAPTURE(p.steps);
  CAPTURE(p.a.swizzle_bytes);
  CAPTURE(p.b.swizzle_bytes);
  CAPTURE(p.a_in_registers);
  const Outcome outcome = run(p, kernel_text(p), options, values);
  REQUIRE_MESSAGE(outcome.result.ok, outcome.report());
  CHECK(outcome.got == outcome.want);
}

// The kernel must fail so, on every schedule.
void check_fails(const Product& p, const std::string& ptx, ErrorKind kind, const char* part) {
  for (const RunOptions& options : kSchedules) {
    const Outcome outcome = run(p, ptx, options);
    CAPTURE(outcome.report());
    CHECK(outcome.load_error.empty());
    CHECK_FALSE(outcome.result.ok);
    CHECK(outcome.result.report.kind == kind);
    CHECK(outcome.report().find(part) != std::string::npos);
  }
}

void check_passes(const Product& p, const std::string& ptx) {
  for (const RunOptions& options : kSchedules) {
    const Outcome outcome = run(p, ptx, options);
    CHECK_MESSAGE(outcome.result.ok, outcome.report());
    CHECK(outcome.got == outcome.want);
  }
}

constexpr MatrixMajor kMajors[] = {MatrixMajor::kK, MatrixMajor::kMN};
constexpr std::uint32_t kWidths[] = {0, 32, 64, 128};

}  // namespace

TEST_CASE("wgmma SS: every major and swizzle of both operands") {
  for (const MatrixMajor a_major : kMajors)
    for (const std::uint32_t a_width : kWidths)
      for (const MatrixMajor b_major : kMajors)
        for (const std::uint32_t b_width : kWidths) {
          Product p;
          p.a = {a_major, a_width};
          p.b = {b_major, b_width};
          check(p);
        }
}

TEST_CASE("wgmma RS: every major and swizzle of B, all N") {
  for (const MatrixMajor major : kMajors)
    for (const std::uint32_t width : kWidths)
      for (std::uint32_t n = 8; n <= 256; n += 8) {
        if (major == MatrixMajor::kMN && width != 0 && n % (width / 2) != 0) continue;
        Product p;
        p.n = n;
        p.b = {major, width};
        p.a_in_registers = true;
        check(p);
      }
}

TEST_CASE("wgmma: steps along K, inside a swizzled row and across rows") {
  for (const MatrixMajor major : kMajors)
    for (const std::uint32_t width : kWidths) {
      Product p;
      p.n = 128;
      p.steps = major == MatrixMajor::kMN || width == 0 ? 4 : width / 32;
      p.a = p.b = {major, width};
      for (const RunOptions& options : kSchedules) check(p, options);
      p.a_in_registers = true;
      for (const RunOptions& options : kSchedules) check(p, options);
    }
}

TEST_CASE("wgmma: types, signs, scale-d, a warpgroup that is not the first") {
  for (const bool a_in_registers : {false, true}) {
    for (int i = 0; i < 16; ++i) {
      Product p;
      p.a_in_registers = a_in_registers;
      p.bf16 = (i & 1) != 0;
      p.negate_a = (i & 2) != 0;
      p.negate_b = (i & 4) != 0;
      p.accumulate = (i & 8) != 0;
      check(p);
    }
    Product half;
    half.a_in_registers = a_in_registers;
    half.bf16 = half.f32 = false;
    check(half);
    half.accumulate = false;
    half.n = 24;
    check(half);
    Product second;
    second.a_in_registers = a_in_registers;
    second.threads = 3 * kWarpgroup;
    for (const RunOptions& options : kSchedules) check(second, options);
  }
}

TEST_CASE("wgmma: sums are rounded as on the device") {
  for (const bool bf16 : {false, true}) {
    Product p;
    p.bf16 = bf16;
    p.steps = 4;
    check(p, {}, Values::kReals);
  }
}

TEST_CASE("wgmma: what must be fenced") {
  Product p;
  p.steps = 2;
  const std::string text = kernel_text(p);
  check_fails(p, edited(text, "proxy"), ErrorKind::kMissingFence, "fence.proxy.async");
  check_fails(p, edited(text, "fence"), ErrorKind::kMissingFence, "wgmma.fence");
  // An access between two products, when the first has been waited for.
  const auto between = [&](const std::string& code) {
    return edited(text, "mma 1",
                  "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + code +
                      mma_text(p, 1, list("%d", p.registers())));
  };
  const std::string touch = "mov.b32 %r50, %d5;\n";
  check_fails(p, between(touch), ErrorKind::kMissingFence, "%d5");
  check_passes(p, between(""));
  check_passes(p, between(touch + "wgmma.fence.sync.aligned;\n"));
  Product rs = p;
  rs.a_in_registers = true;
  const std::string registers = kernel_text(rs);
  check_fails(rs, edited(registers, "fence", "wgmma.fence.sync.aligned;\nadd.s32 %a2, %a2, 0;"),
              ErrorKind::kMissingFence, "%a2");
  check_passes(rs, edited(registers, "fence", "add.s32 %a2, %a2, 0;\nwgmma.fence.sync.aligned;"));
}

TEST_CASE("wgmma: registers belong to the tensor core until they are waited for") {
  Product p;
  p.a_in_registers = true;
  const std::string text = kernel_text(p);
  check_fails(p, edited(text, "wait"), ErrorKind::kInFlight, "%d0");
  check_fails(p, edited(text, "commit"), ErrorKind::kInFlight, "%d0");
  check_fails(p, edited(text, "wait", "wgmma.wait_group.sync.aligned 1;"), ErrorKind::kInFlight, "%d0");
  for (const char* place : {"issued", "committed"}) {
    check_fails(p, edited(text, place, "mov.b32 %r50, %d31;"), ErrorKind::kInFlight, "%d31");
    check_fails(p, edited(text, place, "mov.b32 %d7, 0;"), ErrorKind::kInFlight, "part of the accumulator");
    check_fails(p, edited(text, place, "mov.b32 %a3, 0;"), ErrorKind::kInFlight, "part of the A operand");
    check_fails(p, edited(text, place, "mov.b64 %rd20, {%r1, %d9};"), ErrorKind::kInFlight, "%d9");
    check_fails(p, edited(text, place, "@%p1 add.f32 %d4, %d4, %d4;"), ErrorKind::kInFlight, "%d4");
    check_passes(p, edited(text, place, "mov.b32 %r50, %r51;"));
  }
  check_passes(p, edited(text, "waited", "mov.b32 %a3, 0;"));
  // A product into some of the registers, and one that reads them.
  Product narrow = p;
  narrow.n = 32;
  check_fails(p, edited(text, "issued", mma_text(narrow, 0, list("%d", 16))), ErrorKind::kInFlight,
              "another accumulator");
  check_fails(p, edited(text, "issued", mma_text(narrow, 0, list("%d", 16, 8))), ErrorKind::kInFlight,
              "another accumulator");
  // Of two groups the older is complete.
  std::string second;
  for (int i = 0; i < 32; ++i) second += fmt::format("mov.b32 %e{}, 0;\n", i);
  second += "wgmma.fence.sync.aligned;\n" + mma_text(p, 0, list("%e", 32)) +
            "\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
  const auto two = [&](const std::string& use) {
    return edited(edited(text, "committed", second + use), "wait", "wgmma.wait_group.sync.aligned 0;");
  };
  check_passes(p, two("mov.b32 %r50, %d0;"));
  check_fails(p, two("mov.b32 %r50, %e0;"), ErrorKind::kInFlight, "%e0");
  check_fails(p, two("mov.b32 %a0, 0;"), ErrorKind::kInFlight, "%a0");
}

TEST_CASE("wgmma: shared memory may not be overwritten while a product reads it") {
  Product p;
  const std::string text = kernel_text(p);
  for (const int offset : {0, 8192}) {  // warp 0's first row of A, and B
    const std::string store =
        fmt::format("setp.eq.u32 %p4, %r1, 0;\n@%p4 st.shared.b32 [%r3+{}], %r1;", offset);
    check_fails(p, edited(text, "issued", store), ErrorKind::kInFlight, "operand of wgmma");
    check_fails(p, edited(text, "committed", store), ErrorKind::kInFlight, "operand of wgmma");
    check_passes(p, edited(text, "waited", store));
  }
  // Nobody has waited when the CTA ends.
  const std::string abandoned = edited(edited(text, "wait"), "committed", "ret;");
  check_fails(p, abandoned, ErrorKind::kInFlight, "exited");
}

TEST_CASE("wgmma: a warpgroup issues together") {
  Product p;
  const std::string text = kernel_text(p);
  const std::string mma = mma_text(p, 0, list("%d", p.registers()));
  const std::string skip = "setp.eq.u32 %p4, %r40, 2;\n@%p4 bra SKIP;\n" + mma + "\nSKIP:";
  check_fails(p, edited(text, "mma 0", skip), ErrorKind::kDeadlock, "not been issued by warps 2");
  const std::string shift = "setp.eq.u32 %p4, %r40, 3;\n@%p4 add.s64 %bdesc0, %bdesc0, 2;\n" + mma;
  check_fails(p, edited(text, "mma 0", shift), ErrorKind::kDivergence, "B descriptors");
  const std::string lanes = "setp.eq.u32 %p4, %r1, 3;\n@%p4 add.s64 %bdesc0, %bdesc0, 2;\n" + mma;
  check_fails(p, edited(text, "mma 0", lanes), ErrorKind::kInvalidOperand, "same in all lanes");
  const std::string scale = "setp.ne.u32 %p1, %r40, 1;\n" + mma;
  check_fails(p, edited(text, "mma 0", scale), ErrorKind::kDivergence, "scale-d");
  const std::string other =
      "setp.eq.u32 %p4, %r40, 1;\n@%p4 bra OTHER;\n" + mma + "\nbra BOTH;\nOTHER:\n" + mma + "\nBOTH:";
  check_fails(p, edited(text, "mma 0", other), ErrorKind::kDivergence, "different instructions");
  const std::string part = "setp.eq.u32 %p4, %r1, 77;\n@%p4 bra PART;\n" + mma + "\nPART:";
  check_fails(p, edited(text, "mma 0", part), ErrorKind::kDivergence, "aligned");
  const std::string early = "setp.ne.u32 %p4, %r40, 0;\n@%p4 wgmma.commit_group.sync.aligned;";
  check_fails(p, edited(text, "mma 0", early + "\n" + mma), ErrorKind::kDivergence, "group");
}

TEST_CASE("wgmma: operands that do not exist") {
  Product p;
  const std::string text = kernel_text(p);
  const auto with_bits = [&](const char* bits) {
    return edited(
        text, "mma 0",
        fmt::format("or.b64 %adesc0, %adesc0, {};\n{}", bits, mma_text(p, 0, list("%d", p.registers()))));
  };
  check_fails(p, with_bits("0x400000000000"), ErrorKind::kDescriptor, "sm_90 version");
  check_fails(p, with_bits("0x2000000000000000"), ErrorKind::kDescriptor, "bit 61");
  check_fails(p, with_bits("0x3fff"), ErrorKind::kDescriptor, "swizzled row");

  const auto load_error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return run(p, changed.replace(at, from.size(), to)).load_error;
  };
  const auto has = [](const std::string& error, const char* part) {
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  };
  has(load_error(".target sm_90a", ".target sm_100a"), "needs sm_90a");
  has(load_error(".target sm_90a", ".target sm_90"), "needs sm_90a");
  has(load_error("wgmma.fence.sync.aligned;", "tcgen05.fence::before_thread_sync;"), "needs sm_100f");
  has(load_error("m64n64k16", "m64n72k16"), "36 registers");
  has(load_error("m64n64k16", "m64n60k16"), "not known");
  has(load_error("%p1, 1, 1, 0, 0;", "%p1, 2, 1, 0, 0;"), "1 or -1");
  has(load_error("%p1, 1, 1, 0, 0;", "%p1, 1, 1, 0, 2;"), "MN-major");
  has(load_error("%p1, 1, 1, 0, 0;", "%p1, 1, 1, 0, 0, 0;"), "operand 8");
}

}  // namespace jfa::simulator::wgmma_test
