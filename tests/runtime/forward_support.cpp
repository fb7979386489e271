#include "tests/runtime/forward_support.h"

#include <doctest/doctest.h>

namespace jfa::test {
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

AttentionCall call_of(std::int64_t total_q, std::int64_t total_kv) {
  AttentionCall call;
  call.query = Tensor::packed(kAddress, total_q, 8, 24, DType::bf16);
  call.key = Tensor::packed(kAddress * 2, total_kv, 2, 24, DType::bf16);
  call.value = Tensor::packed(kAddress * 3, total_kv, 2, 24, DType::bf16);
  call.query_offset = {kAddress * 4, 4, OffsetType::int64};
  call.key_offset = {kAddress * 5, 4, OffsetType::int32};
  return call;
}
Tensor output_of(const AttentionCall& call) {
  return Tensor::packed(kAddress * 6, call.query.rows, call.query.heads, call.query.head_dim,
                        call.query.dtype);
}

Device warm_device() {
  reset_fake_driver();
  Device device = attach_fake_device();
  const AttentionCall call = call_of();
  const Status warm = forward(device, call, output_of(call), 0, {}, kStream);
  REQUIRE_MESSAGE(warm.ok(), warm.message(), "\n", warm.detail());
  fake_driver().calls.clear();
  fake_driver().launches.clear();
  fake_driver().maps.clear();
  return device;
}

Workspace workspace_for(Device& device, const AttentionCall& call) {
  const auto bytes = workspace_bytes(call);
  REQUIRE(bytes.ok());
  const auto address = device.allocate(*bytes);
  REQUIRE(address.ok());
  fake_driver().calls.clear();
  return {*address, *bytes};
}

}  // namespace jfa::test
