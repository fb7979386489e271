// Whether a call's memory lies on the GPU that runs the call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "jfa/attention.h"
#include "runtime/device.h"

namespace jfa {

/// An address that a call uses beside its inputs.
struct NamedAddress {
  std::string_view name;
  std::uint64_t address;  // 0: absent
};

/// kInvalidArgument names the first address, of the call's inputs or `others`, whose memory is another GPU's.
/// Managed and host memory, and
/// memory that the driver knows nothing of, pass. Asks the driver only in a process that sees several GPUs. A
/// context is current.
Status check_residence(const Device::Impl& device, const AttentionCall& call,
                       std::initializer_list<NamedAddress> others);

}  // namespace jfa
