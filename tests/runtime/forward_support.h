// Calls of forward() on the fake driver: what its tests share.
#pragma once

#include <cstdint>
#include <string>

#include "tests/runtime/fake_driver.h"

namespace jfa::test {

inline const Stream kStream = reinterpret_cast<Stream>(0x1000);
inline constexpr std::uint64_t kAddress = 0x10000000;

bool contains(const std::string& text, const std::string& part);

/// A batch of 3 with grouped heads; one specialisation everywhere, so that it is compiled once. Tensors lie
/// at multiples of kAddress.
AttentionCall call_of(std::int64_t total_q = 300, std::int64_t total_kv = 500);
Tensor output_of(const AttentionCall& call);

/// A device on a fresh fake driver, with the kernel of call_of() loaded and the books empty.
Device warm_device();
Workspace workspace_for(Device& device, const AttentionCall& call);

}  // namespace jfa::test
