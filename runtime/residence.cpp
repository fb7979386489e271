#include "runtime/residence.h"

#include <fmt/format.h>

namespace jfa {
namespace {

// Memory that the driver moves or maps itself has an owner too, but every GPU may use it.
bool only_its_gpus(const DriverTable& driver, std::uint64_t address) {
  unsigned type = 0, managed = 0;
  return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE &&
         driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
         managed == 0;
}

Status check_all(const Device::Impl& device, std::initializer_list<NamedAddress> addresses) {
  for (const auto& [name, address] : addresses) {
    if (address == 0) continue;
    int owner = 0;
    const CUresult result =
        device.driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (result != CUDA_SUCCESS || owner == device.device || !only_its_gpus(device.driver, address)) continue;
    return Status::invalid_argument(
        fmt::format("{} {:#x} is memory of CUDA device {}, but the call runs on {}: all of its memory must "
                    "lie there",
                    name, address, owner, device.name));
  }
  return {};
}

}  // namespace

Status check_residence(const Device::Impl& device, const AttentionCall& call,
                       std::initializer_list<NamedAddress> others) {
  if (device.gpu_count < 2) return {};
  Status inputs =
      check_all(device, {{"query.address", call.query.address},
                         {"key.address", call.key.address},
                         {"value.address", call.value.address},
                         {"query_offset.address", call.broadcast_q ? 0 : call.query_offset.address},
                         {"key_offset.address", call.key_offset.address},
                         {"output_offset.address", call.output_offset ? call.output_offset->address : 0}});
  return inputs.ok() ? check_all(device, others) : inputs;
}

}  // namespace jfa
