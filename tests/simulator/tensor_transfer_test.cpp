// tcgen05.st and ld in every shape, and the allocator of tensor memory.
#include <doctest/doctest.h>

#include "simulator/tensor_core/tensor_memory_shape.h"
#include "tests/simulator/product_kernel.h"

namespace jfa::test::tensor_transfer_test {
namespace {

using namespace simulator;

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

}  // namespace
}  // namespace jfa::test::tensor_transfer_test
