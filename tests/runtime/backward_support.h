// Calls of backward() on the fake driver: what its tests share.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/runtime/fake_driver.h"

namespace jfa::test {

inline const Stream kStream = reinterpret_cast<Stream>(0x1000);
inline constexpr std::uint64_t kAddress = 0x10000000;

/// All arguments of a backward of grouped heads, to be spoilt one by one.
struct Arguments {
  AttentionCall call;
  Tensor output;
  std::uint64_t lse = kAddress * 7;
  OutputGradient output_grad;
  std::uint64_t lse_grad = 0;
  Tensor query_grad, key_grad, value_grad;

  explicit Arguments(std::int64_t query_rows = 300, std::int64_t output_rows = 300) {
    call.query = Tensor::packed(kAddress, query_rows, 8, 24, DType::bf16);
    call.key = Tensor::packed(kAddress * 2, 500, 2, 24, DType::bf16);
    call.value = Tensor::packed(kAddress * 3, 500, 2, 24, DType::bf16);
    call.query_offset = {kAddress * 4, 4, OffsetType::int64};
    call.key_offset = {kAddress * 5, 4, OffsetType::int32};
    output = Tensor::packed(kAddress * 6, output_rows, 8, 24, DType::bf16);
    output_grad = OutputGradient::of(Tensor::packed(kAddress * 8, output_rows, 8, 24, DType::bf16));
    query_grad = call.query;
    key_grad = call.key;
    value_grad = call.value;
    query_grad.address = kAddress * 9;
    key_grad.address = kAddress * 10;
    value_grad.address = kAddress * 11;
  }

  static Arguments broadcast(std::int64_t query_rows) {
    Arguments arguments(query_rows, 3 * query_rows);
    arguments.call.broadcast_q = true;
    arguments.call.query_offset = {};
    return arguments;
  }

  Status run(Device& device, Workspace workspace = {}) const {
    return backward(device, call, output, lse, output_grad, lse_grad, query_grad, key_grad, value_grad,
                    workspace, kStream);
  }
  Result<std::uint64_t> bytes() const { return backward_workspace_bytes(call, output_grad); }
};

/// A fresh fake driver's device; its kernels are loaded by the first call.
inline Device fresh_device() {
  reset_fake_driver();
  return attach_fake_device();
}

inline Workspace workspace_for(Device& device, const Arguments& arguments) {
  const auto bytes = arguments.bytes();
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message());
  return {device.allocate(*bytes).value(), *bytes};
}

inline std::vector<std::string> launched() {
  std::vector<std::string> entries;
  for (const FakeLaunch& launch : fake_driver().launches) entries.push_back(launch.entry);
  return entries;
}

inline std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace jfa::test
