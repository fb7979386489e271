#include "generator/layout.h"

#include <algorithm>
#include <utility>

namespace jfa {
namespace {

constexpr int kColumnBytes = 4;

int align_up(int value, int alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

const Region& region(const std::vector<Region>& map, const std::string& type) {
  return *std::ranges::find(map, type, &Region::type);
}

int end_of(const std::vector<Region>& map) {
  int end = 0;
  for (const Region& each : map) end = std::max(end, each.end());
  return end;
}

int SharedLayout::end() const { return end_of(regions_); }

SharedLayout& SharedLayout::tiles(std::string type, std::string holds, int rows, int columns, int stages,
                                  int tiles) {
  regions_.push_back({std::move(type), std::move(holds), RegionElement::kInput, rows, columns, tiles, stages,
                      rows * columns * element_bytes_, end()});
  return *this;
}

SharedLayout& SharedLayout::swizzled_tiles(std::string type, std::string holds, int rows, int columns,
                                           int swizzle_bytes, int stages, int tiles) {
  this->tiles(std::move(type), std::move(holds), rows, columns, stages, tiles);
  regions_.back().swizzle_bytes = swizzle_bytes;
  return *this;
}

SharedLayout& SharedLayout::tile_over(std::string type, std::string holds, int rows, int columns,
                                      const std::string& over) {
  const int begin = region(regions_, over).begin;
  regions_.push_back({std::move(type), std::move(holds), RegionElement::kInput, rows, columns, 1, 1,
                      rows * columns * element_bytes_, begin, over});
  return *this;
}

SharedLayout& SharedLayout::bytes(std::string type, std::string holds, int bytes) {
  regions_.push_back(
      {std::move(type), std::move(holds), RegionElement::kBytes, 1, bytes, 1, 1, bytes, end()});
  return *this;
}

int TensorLayout::end() const { return end_of(regions_); }

TensorLayout& TensorLayout::accumulator(std::string type, std::string holds, int rows, int columns,
                                        int alignment, int stages) {
  regions_.push_back({std::move(type), std::move(holds), RegionElement::kFloat, rows, columns, 1, stages,
                      columns, align_up(end(), alignment)});
  return *this;
}

Region TensorLayout::operand_region(std::string type, std::string holds, int rows, int columns) const {
  return {std::move(type),
          std::move(holds),
          RegionElement::kInput,
          rows,
          columns,
          1,
          1,
          columns * element_bytes_ / kColumnBytes,
          0};
}

TensorLayout& TensorLayout::operand(std::string type, std::string holds, int rows, int columns,
                                    int alignment) {
  Region added = operand_region(std::move(type), std::move(holds), rows, columns);
  added.begin = align_up(end(), alignment);
  regions_.push_back(std::move(added));
  return *this;
}

TensorLayout& TensorLayout::operand_over(std::string type, std::string holds, int rows, int columns,
                                         const std::string& over, int stages) {
  Region added = operand_region(std::move(type), std::move(holds), rows, columns);
  added.stages = stages;
  added.begin = region(regions_, over).begin;
  added.over = over;
  regions_.push_back(std::move(added));
  return *this;
}

}  // namespace jfa
