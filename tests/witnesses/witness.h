// A kernel that another compiler made (tests/witnesses/witnesses.json): its launch, and its arguments by
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "simulator/machine/launch.h"

namespace jfa::test {

struct Witness {
  nlohmann::json facts;  // as generate.py writes them
  std::string name() const { return facts.at("name"); }
  std::string kind() const { return facts.at("kind"); }
  std::string ptx() const;
  std::uint32_t block(int index) const { return facts.at("blocks").at(static_cast<std::size_t>(index)); }
};

/// All of witnesses.json.
std::vector<Witness> read_witnesses();

/// One launch of a witness in the simulator.
class WitnessLaunch {
 public:
  explicit WitnessLaunch(const Witness& witness);

  /// Sets a parameter: a scalar, or a buffer that download() reads. "scratch" is 0 from the start.
  template <class T>
  void scalar(const std::string& name, T value) {
    set(name, &value, sizeof value);
  }
  template <class T>
  void buffer(const std::string& name, const std::vector<T>& values) {
    std::memcpy(allocate(name, values.size() * sizeof(T)), values.data(), values.size() * sizeof(T));
  }
  /// A buffer of rows x columns 16-bit floats as a tensor map, with the shapes and strides that go with it.
  void mapped(const std::string& name, const std::vector<std::uint16_t>& values, std::uint64_t rows,
              std::uint64_t columns);

  /// Runs a grid of x by y; fails the test case, with the report, unless the run ends well.
  void run(std::uint32_t x, std::uint32_t y, const simulator::RunOptions& options);
  /// The same of PTX that need not be the witness's own and may fail.
  simulator::LaunchResult run_ptx(const std::string& ptx, std::uint32_t x, std::uint32_t y,
                                  const simulator::RunOptions& options);

  template <class T>
  std::vector<T> download(const std::string& name) {
    const Buffer& from = buffers_.at(name);
    std::vector<T> values(from.bytes / sizeof(T));
    std::memcpy(values.data(), memory_.host(from.address, from.bytes), from.bytes);
    return values;
  }

 private:
  struct Buffer {
    std::uint64_t address = 0, bytes = 0;
  };
  void set(const std::string& name, const void* value, std::size_t bytes);
  std::byte* allocate(const std::string& name, std::size_t bytes);

  const Witness& witness_;
  simulator::DeviceMemory memory_;
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, std::vector<std::byte>> values_;
};

}  // namespace jfa::test
