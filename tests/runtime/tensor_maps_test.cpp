// Ragged tensor maps: the address arithmetic, and that the encoder's limits hold for every tensor we accept.
#include "runtime/tensor_maps.h"

#include <doctest/doctest.h>

#include "runtime/validate.h"

namespace {

using namespace jfa;

constexpr std::uint64_t kE = std::uint64_t{1} << 30;

// The byte offset that the hardware computes, modulo 2^64.
std::uint64_t offset(const RaggedMap& map, std::uint64_t column, std::uint64_t head, std::uint64_t start,
                     std::uint64_t length, std::uint64_t row) {
  const std::uint64_t coordinates[] = {column, head, kE - length + row, start + length, kE};
  std::uint64_t bytes = coordinates[0] * 2;
  for (int i = 1; i < 5; ++i) bytes += coordinates[i] * map.stride_bytes[i - 1];
  return bytes;
}

OperandPlan operand(int padded_dim) {
  OperandPlan plan;
  plan.box_dim = padded_dim % 64 == 0 ? 64 : padded_dim % 32 == 0 ? 32 : 16;
  plan.swizzle_bytes = plan.box_dim * 2;
  return plan;
}

}  // namespace

TEST_CASE("row r of a sequence is where the tensor has it, and rows past its end are out of bounds") {
  for (const auto& [row_stride, head_stride] : {std::pair<std::int64_t, std::int64_t>{480, 40},
                                                {40, 40 * 2000},
                                                {3 * 480, 40},
                                                {0, 40},
                                                {480, 0},
                                                {(std::int64_t{1} << 33) - 8, 40}}) {
    Tensor tensor = Tensor::packed(0, 2000, 12, 40, DType::bf16);
    tensor.row_stride = row_stride;
    tensor.head_stride = head_stride;
    const RaggedMap map = ragged_map(tensor, operand(64), 128);
    for (const std::uint64_t length : {1u, 10u, 128u, 700u}) {
      for (const std::uint64_t row : {std::uint64_t{0}, length / 2, length - 1}) {
        const std::uint64_t start = 1300;
        CHECK(offset(map, 8, 11, start, length, row) ==
              8 * 2 + 11 * static_cast<std::uint64_t>(head_stride) * 2 +
                  (start + row) * static_cast<std::uint64_t>(row_stride) * 2);
        CHECK(kE - length + row < map.extents[2]);
      }
      CHECK(kE - length + length == map.extents[2]);
      CHECK(1300 + length < map.extents[3]);
    }
    CHECK(map.extents[4] == kE + 1);
  }
}

TEST_CASE("extents, strides and boxes are within what the encoder takes") {
  for (const std::int64_t rows : {0, 1, 2, (1 << 30) - 1}) {
    for (const std::int64_t heads : {0, 1, 64}) {
      for (const int padded_dim : {16, 32, 64, 96, 128}) {
        AttentionCall call;
        call.query = Tensor::packed(0x1000, rows, heads, padded_dim - 8, DType::bf16);
        if (rows == 1) call.query.row_stride = 999;
        if (heads == 1) call.query.head_stride = 1;
        call.key = call.value =
            Tensor::packed(0x1000, 1, std::max<std::int64_t>(heads, 1), padded_dim - 8, DType::bf16);
        call.query_offset = call.key_offset = {0x1000, 2, OffsetType::int32};
        const Result<ValidCall> valid = validate(call);
        REQUIRE_MESSAGE(valid.ok(), valid.status().message());
        const RaggedMap map = ragged_map(valid->query, operand(padded_dim), 128);
        for (const std::uint64_t extent : map.extents)
          CHECK((extent >= 1 && extent <= std::uint64_t{1} << 32));
        for (const std::uint64_t stride : map.stride_bytes)
          CHECK((stride % 16 == 0 && stride < std::uint64_t{1} << 40));
        CHECK(map.box[0] * 2 <= 128);
        CHECK(map.box[0] * 2 % 16 == 0);
        CHECK(map.box[2] <= 256);
      }
    }
  }
}
