// What lies where in a CTA's shared memory and in tensor memory: named regions of tiles.
#pragma once

#include <string>
#include <vector>

namespace jfa {

/// Tiles start at multiples of the widest swizzle's repeat, wherever dynamic shared memory starts.
inline constexpr int kTileAlignmentBytes = 1024;

/// What a region consists of: the tensors' elements, fp32, or bytes that only the kernel knows.
enum class RegionElement { kInput, kFloat, kBytes };

/// `stages` times `tiles` tiles [rows, columns], one after the other.
struct Region {
  std::string type;   // its name in the emitted source: "KeysAndValues"
  std::string holds;  // for people: "keys and values"
  RegionElement element = RegionElement::kInput;
  int rows = 0, columns = 0;  // of one tile; in tensor memory rows are lanes. Of kBytes: 1 x bytes
  int tiles = 1;              // of a stage: 2 for pairs
  int stages = 1;
  int tile_size = 0;      // bytes, or columns of tensor memory
  int begin = 0;          // as tile_size, behind the alignment of tiles
  std::string over = {};  // the region in whose place it lies, at another time; empty: its own
  int swizzle_bytes = 0;  // of tiles in shared memory that are not cut as the plan's operands; 0: as those

  int size() const { return tile_size * tiles * stages; }
  int end() const { return begin + size(); }
};

/// Builds one map: regions one after the other.
class SharedLayout {
 public:
  explicit SharedLayout(int element_bytes) : element_bytes_(element_bytes) {}
  SharedLayout& tiles(std::string type, std::string holds, int rows, int columns, int stages = 1,
                      int tiles = 1);
  /// The same in another swizzle than the plan's operands.
  SharedLayout& swizzled_tiles(std::string type, std::string holds, int rows, int columns, int swizzle_bytes,
                               int stages = 1, int tiles = 1);
  /// In the place of region `over`, which is large enough.
  SharedLayout& tile_over(std::string type, std::string holds, int rows, int columns,
                          const std::string& over);
  SharedLayout& bytes(std::string type, std::string holds, int bytes);
  std::vector<Region> regions() const { return regions_; }

 private:
  int end() const;
  const int element_bytes_;
  std::vector<Region> regions_;
};

class TensorLayout {
 public:
  explicit TensorLayout(int element_bytes) : element_bytes_(element_bytes) {}
  /// fp32 accumulators; they begin at a multiple of `alignment` columns.
  TensorLayout& accumulator(std::string type, std::string holds, int rows, int columns, int alignment,
                            int stages = 1);
  /// An operand of the tensors' elements, several a column.
  TensorLayout& operand(std::string type, std::string holds, int rows, int columns, int alignment);
  TensorLayout& operand_over(std::string type, std::string holds, int rows, int columns,
                             const std::string& over, int stages = 1);
  std::vector<Region> regions() const { return regions_; }

 private:
  int end() const;
  Region operand_region(std::string type, std::string holds, int rows, int columns) const;
  const int element_bytes_;
  std::vector<Region> regions_;
};

/// The region of that type in a map; it is there.
const Region& region(const std::vector<Region>& map, const std::string& type);
/// One behind the last byte or column.
int end_of(const std::vector<Region>& map);

}  // namespace jfa
