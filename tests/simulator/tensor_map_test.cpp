// Tensor maps: the driver's constraints, box traversal, wrap-around addresses and swizzles. Numbers marked
// H200 were measured on that GPU; the byte positions are the worked examples of the canonical 128-byte
// layouts.
#include "simulator/async/tensor_map.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "simulator/async/tensor_map_box.h"

namespace jfa::simulator::tensor_map_test {

namespace {

struct EncodeArguments {
  CUtensorMapDataType data_type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  cuuint32_t rank = 2;
  uint64_t address = 0x10000;
  cuuint64_t dim[5] = {64, 128, 4, 4, 4};
  cuuint64_t stride[4] = {128, 1 << 14, 1 << 16, 1 << 18};
  cuuint32_t box[5] = {64, 128, 1, 1, 1};
  cuuint32_t element_stride[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  CUtensorMapFloatOOBfill oob_fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUresult encode(CUtensorMap* map, std::string* reason) {
    return encode_tiled_tensor_map(map, data_type, rank, reinterpret_cast<void*>(address), dim, stride, box,
                                   element_stride, interleave, swizzle, l2_promotion, oob_fill, reason);
  }

  TensorMap decoded() {
    CUtensorMap map;
    std::string reason;
    REQUIRE_MESSAGE(encode(&map, &reason) == CUDA_SUCCESS, reason);
    TensorMap out;
    REQUIRE(decode_tensor_map(&map, &out).empty());
    return out;
  }
};

std::vector<BoxRow> rows(const TensorMap& map, const BoxCoordinates& at) {
  std::vector<BoxRow> out;
  for_each_box_row(map, at, [&](const BoxRow& row) { out.push_back(row); });
  return out;
}

// Where the element (row, column) of a box at shared address `base` lies.
uint32_t position(const TensorMap& map, uint32_t base, uint32_t row, uint32_t column) {
  const uint32_t linear = base + row * map.shared_pitch_bytes() + column * map.element_bits / 8;
  return swizzle_shared_address(map.swizzle, linear) - base;
}

}  // namespace

TEST_CASE("encode refuses what the driver refuses, and says which argument") {
  struct Case {
    const char* names;  // what the reason has to mention
    std::function<void(EncodeArguments&)> break_it;
    CUresult expected = CUDA_ERROR_INVALID_VALUE;
  };
  const Case cases[] = {
      {"tensorRank = 0", [](auto& a) { a.rank = 0; }},
      {"tensorRank = 6", [](auto& a) { a.rank = 6; }},
      {"tensorDataType = 16", [](auto& a) { a.data_type = static_cast<CUtensorMapDataType>(16); }},
      {"globalAddress = 0x10008", [](auto& a) { a.address += 8; }},
      {"globalDim[1] = 0", [](auto& a) { a.dim[1] = 0; }},
      {"globalDim[1] = 4294967297", [](auto& a) { a.dim[1] = (1ull << 32) + 1; }},
      {"globalStrides[0] = 264", [](auto& a) { a.stride[0] = 264; }},
      {"globalStrides[0] = 1099511627776", [](auto& a) { a.stride[0] = 1ull << 40; }},
      {"boxDim[1] = 257", [](auto& a) { a.box[1] = 257; }},
      {"boxDim[1] = 0", [](auto& a) { a.box[1] = 0; }},
      {"24 bytes", [](auto& a) { a.box[0] = 12; }},
      {"more than the swizzle's 128", [](auto& a) { a.box[0] = 72; }},
      {"more than the swizzle's 64", [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, a.box[0] = 40; }},
      {"elementStrides[1] = 9", [](auto& a) { a.element_stride[1] = 9; }},
      {"elementStrides[1] = 0", [](auto& a) { a.element_stride[1] = 0; }},
      {"oobFill = 1",
       [](auto& a) {
         a.data_type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
         a.oob_fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
       }},
      {"tensorRank = 2 with an interleaved", [](auto& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
      {"needs SWIZZLE_32B", [](auto& a) { a.rank = 3, a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; }},
      {"swizzle = 5", [](auto& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B; },
       CUDA_ERROR_NOT_SUPPORTED},
      {"NaN fill", [](auto& a) { a.oob_fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; },
       CUDA_ERROR_NOT_SUPPORTED},
      {"tensorDataType = 11", [](auto& a) { a.data_type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, a.box[0] = 32; },
       CUDA_ERROR_NOT_SUPPORTED},
  };
  for (const Case& c : cases) {
    EncodeArguments arguments;
    c.break_it(arguments);
    CUtensorMap map;
    std::string reason;
    CHECK_MESSAGE(arguments.encode(&map, &reason) == c.expected, c.names);
    CHECK_MESSAGE(reason.find(c.names) != std::string::npos, reason, " lacks ", c.names);
  }
}

TEST_CASE("encode takes the limits themselves, and strides that are 0 or overlap") {
  EncodeArguments arguments;
  arguments.rank = 5;
  arguments.dim[2] = 1ull << 32;
  arguments.stride[1] = 0;
  arguments.stride[2] = 16;
  arguments.stride[3] = (1ull << 40) - 16;
  arguments.box[1] = 256;
  arguments.element_stride[0] = 0;  // ignored where nothing is interleaved
  arguments.element_stride[4] = 8;
  const TensorMap map = arguments.decoded();
  CHECK(map.dim[2] == 1ull << 32);
  CHECK(map.stride_bytes[0] == 2);
  CHECK(map.stride_bytes[2] == 0);
  CHECK(map.stride_bytes[4] == (1ull << 40) - 16);
  CHECK(map.element_stride[0] == 1);
  CHECK(map.box_bytes() == 64 * 256 * 2);
}

TEST_CASE("only whole maps made by encode decode") {
  EncodeArguments arguments;
  CUtensorMap map, foreign;
  REQUIRE(arguments.encode(&map, nullptr) == CUDA_SUCCESS);
  TensorMap out;
  std::memset(&foreign, 0, sizeof(foreign));
  CHECK(decode_tensor_map(&foreign, &out) ==
        "these bytes are not a tensor map made by cuTensorMapEncodeTiled or tensormap.replace");
  for (size_t byte = 8; byte < sizeof(map); byte += 7) {
    CUtensorMap changed = map;
    reinterpret_cast<unsigned char*>(&changed)[byte] ^= 1;
    CHECK(decode_tensor_map(&changed, &out) ==
          "the tensor map was changed by something else than tensormap.replace");
  }
}

TEST_CASE("a 128x64 bf16 tile under the 128-byte swizzle") {
  const TensorMap map = EncodeArguments{}.decoded();
  const uint32_t base = 0x2000;
  const uint32_t expected[][3] = {{0, 0, 0},    {0, 8, 16},   {1, 0, 144},   {1, 8, 128},
                                  {3, 40, 480}, {7, 63, 910}, {9, 16, 1200}, {127, 63, 16270}};
  for (const auto& [m, k, byte] : expected) CHECK(position(map, base, m, k) == byte);
  CHECK(map.shared_bytes() == 16384);
}

TEST_CASE("a 128x32 bf16 tile under the 64-byte swizzle") {
  EncodeArguments arguments;
  arguments.box[0] = 32;
  arguments.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  const TensorMap map = arguments.decoded();
  const uint32_t expected[][3] = {{1, 8, 80}, {2, 0, 144}, {5, 24, 336}, {127, 31, 8142}};
  for (const auto& [m, k, byte] : expected) CHECK(position(map, 0, m, k) == byte);
}

TEST_CASE("swizzles permute absolute addresses") {
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_NONE, 0x3f0) == 0x3f0);
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_32B, 0x80) == 0x90);
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_32B, 0x100) == 0x100);
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_64B, 0x180) == 0x1b0);
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, 0x180) == 0x1b0);
  CHECK(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, 0x380) == 0x3f0);
}

TEST_CASE("H200: with a swizzle the pitch is its width, and the bytes stay the box's") {
  for (const auto& [elements, swizzle, pitch] : {std::tuple{32u, CU_TENSOR_MAP_SWIZZLE_128B, 128u},
                                                 {16u, CU_TENSOR_MAP_SWIZZLE_128B, 128u},
                                                 {8u, CU_TENSOR_MAP_SWIZZLE_128B, 128u},
                                                 {16u, CU_TENSOR_MAP_SWIZZLE_64B, 64u},
                                                 {40u, CU_TENSOR_MAP_SWIZZLE_NONE, 80u}}) {
    EncodeArguments arguments;
    arguments.box[0] = elements;
    arguments.box[1] = 4;
    arguments.swizzle = swizzle;
    const TensorMap map = arguments.decoded();
    CHECK(map.shared_pitch_bytes() == pitch);
    CHECK(map.box_bytes() == elements * 2 * 4);
    CHECK(rows(map, {})[3].shared_offset == 3 * pitch);
  }
}

TEST_CASE("H200: loads are clipped element by element") {
  EncodeArguments arguments;
  arguments.data_type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
  arguments.dim[0] = 100;
  arguments.stride[0] = 208;
  arguments.box[1] = 2;
  const TensorMap map = arguments.decoded();
  const auto at_edge = rows(map, {64, 127});
  CHECK(at_edge[0].valid_bytes == 72);
  CHECK(at_edge[0].global_address == 0x10000 + 127 * 208 + 128);
  CHECK(at_edge[1].valid_bytes == 0);  // row 128 of 128
  const auto before = rows(map, {-8, -1});
  CHECK(before[0].valid_bytes == 0);
  CHECK(before[1].skip_bytes == 16);
  CHECK(before[1].valid_bytes == 112);
  const auto beyond = rows(map, {128, 0});
  CHECK(beyond[0].valid_bytes == 0);
}

TEST_CASE("H200: stores are clipped at 16 bytes along the inner dimension") {
  EncodeArguments arguments;
  arguments.data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  arguments.dim[0] = 102;
  arguments.stride[0] = 416;
  arguments.box[0] = 32;
  arguments.box[1] = 1;
  const TensorMap map = arguments.decoded();
  CHECK(stored_bytes(map, rows(map, {96, 0})[0]) == 32);  // columns 96..103
  CHECK(stored_bytes(map, rows(map, {64, 0})[0]) == 128);
  CHECK(stored_bytes(map, rows(map, {96, 128})[0]) == 0);
}

TEST_CASE("boxes in five dimensions run with dimension 1 fastest") {
  EncodeArguments arguments;
  arguments.rank = 5;
  const cuuint32_t box[5] = {8, 2, 3, 1, 2};
  std::copy(box, box + 5, arguments.box);
  arguments.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  const TensorMap map = arguments.decoded();
  const auto all = rows(map, {8, 1, 2, 3, 0});
  REQUIRE(all.size() == 12);
  const uint64_t first = 0x10000 + 8 * 2 + 1 * 128 + 2 * (1 << 14) + 3 * (1 << 16);
  CHECK(all[0].global_address == first);
  CHECK(all[1].global_address == first + 128);
  CHECK(all[2].global_address == first + (1 << 14));
  CHECK(all[4].valid_bytes == 0);  // position 4 of dimension 2, which has 4
  CHECK(all[6].global_address == first + (1 << 18));
  CHECK(all[11].shared_offset == 11 * 16);
}

TEST_CASE("element strides take every n-th row") {
  EncodeArguments arguments;
  arguments.box[1] = 5;
  arguments.element_stride[1] = 2;
  const TensorMap map = arguments.decoded();
  const auto all = rows(map, {0, 124});
  REQUIRE(all.size() == 3);
  CHECK(all[1].global_address == 0x10000 + 126 * 128);
  CHECK(all[1].valid_bytes == 128);
  CHECK(all[2].valid_bytes == 0);
  CHECK(map.box_bytes() == 3 * 128);
}

TEST_CASE("ragged maps: rows beyond a sequence's length fall outside, addresses wrap modulo 2^64") {
  constexpr uint64_t kExtent = 1ull << 30;
  for (const uint64_t row_stride : {uint64_t{3 * 4 * 64 * 2}, uint64_t{0}}) {
    EncodeArguments arguments;
    arguments.rank = 5;
    const cuuint64_t dim[5] = {64, 4, kExtent, kExtent, kExtent + 1};
    const cuuint64_t stride[4] = {64 * 2, row_stride, row_stride, (1ull << 34) - row_stride};
    const cuuint32_t box[5] = {64, 1, 128, 1, 1};
    std::copy(dim, dim + 5, arguments.dim);
    std::copy(stride, stride + 4, arguments.stride);
    std::copy(box, box + 5, arguments.box);
    const TensorMap map = arguments.decoded();
    const int32_t length = 37, start = 1000, head = 2;
    for (const int32_t first_row : {0, 128}) {
      const auto all = rows(map, {0, head, static_cast<int32_t>(kExtent) - length + first_row, start + length,
                                  static_cast<int32_t>(kExtent)});
      REQUIRE(all.size() == 128);
      for (int32_t i = 0; i < 128; ++i) {
        const int32_t row = first_row + i;
        CHECK(all[i].valid_bytes == (row < length ? 128u : 0u));
        if (row < length)
          CHECK(all[i].global_address == 0x10000 + head * 128 + uint64_t(start + row) * row_stride);
      }
    }
  }
}

TEST_CASE("H200: what faults") {
  EncodeArguments arguments;
  const TensorMap map = arguments.decoded();
  CHECK(check_box(map, {8, -3}, 0x400, false).empty());
  CHECK(check_box(map, {0, 0}, 0x410, false).find("128-byte aligned") != std::string::npos);
  CHECK(check_box(map, {4, 0}, 0x400, false).find("multiple of 16 bytes") != std::string::npos);
  CHECK(check_box(map, {0, -1}, 0x400, true).find("coordinate 1 = -1") != std::string::npos);
}

}  // namespace jfa::simulator::tensor_map_test
