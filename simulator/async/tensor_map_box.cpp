#include "simulator/async/tensor_map_box.h"

#include <fmt/format.h>

namespace jfa::simulator {

std::string check_box(const TensorMap& map, const BoxCoordinates& coordinates, uint32_t shared_address,
                      bool is_store) {
  if (shared_address % 128 != 0)
    return fmt::format("shared address {:#x} of the box is not 128-byte aligned", shared_address);
  if (static_cast<int64_t>(coordinates[0]) * map.element_bits % 128 != 0)
    return fmt::format("coordinate 0 = {} times {}-{} elements is not a multiple of 16 bytes", coordinates[0],
                       map.element_bits < 8 ? map.element_bits : map.element_bits / 8,
                       map.element_bits < 8 ? "bit" : "byte");
  if (map.padded && coordinates[0] % 128 != 0)
    return fmt::format("coordinate 0 = {} of padded elements is not a multiple of 128", coordinates[0]);
  if (map.padded && is_store) return "a store of a padded type is not simulated";
  if (!is_store) return {};
  for (uint32_t d = 0; d < map.rank; ++d)
    if (coordinates[d] < 0)
      return fmt::format("coordinate {} = {} of a tensor store is negative", d, coordinates[d]);
  return {};
}

}  // namespace jfa::simulator
