#include "tests/witnesses/witness.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "simulator/async/tensor_map.h"

namespace jfa::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

CUtensorMapSwizzle swizzle_of(int bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

std::vector<Witness> read_witnesses() {
  const auto root = nlohmann::json::parse(read_file("tests/witnesses/witnesses.json"));
  std::vector<Witness> witnesses;
  for (const auto& facts : root.at("witnesses")) witnesses.push_back({facts});
  return witnesses;
}

std::string Witness::ptx() const { return read_file("tests/witnesses/ptx/" + name() + ".ptx"); }

WitnessLaunch::WitnessLaunch(const Witness& witness) : witness_(witness) {
  scalar("scratch", std::uint64_t{0});
}

void WitnessLaunch::set(const std::string& name, const void* value, std::size_t bytes) {
  auto& stored = values_[name];
  stored.resize(bytes);
  std::memcpy(stored.data(), value, bytes);
}

std::byte* WitnessLaunch::allocate(const std::string& name, std::size_t bytes) {
  const std::uint64_t address = memory_.allocate(bytes, name);
  buffers_[name] = {address, bytes};
  scalar(name, address);
  return memory_.host(address, bytes);
}

void WitnessLaunch::mapped(const std::string& name, const std::vector<std::uint16_t>& values,
                           std::uint64_t rows, std::uint64_t columns) {
  buffer(name, values);
  const auto& facts = witness_.facts.at("maps").at(name);
  const cuuint64_t extents[] = {columns, rows};
  const cuuint64_t strides[] = {columns * sizeof(std::uint16_t)};
  const cuuint32_t box[] = {facts.at("box").at(1), facts.at("box").at(0)};
  const cuuint32_t element_strides[] = {1, 1};
  CUtensorMap map;
  std::string reason;
  const CUresult result = simulator::encode_tiled_tensor_map(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, reinterpret_cast<void*>(buffers_.at(name).address), extents,
      strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(facts.at("swizzle_bytes")),
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, &reason);
  REQUIRE_MESSAGE(result == CUDA_SUCCESS, reason);
  scalar(name + ".map", map);
  scalar(name + ".shape0", rows);
  scalar(name + ".shape1", columns);
  scalar(name + ".stride0", columns);
  scalar(name + ".stride1", std::uint64_t{1});
}

void WitnessLaunch::run(std::uint32_t x, std::uint32_t y, const simulator::RunOptions& options) {
  const simulator::LaunchResult result = run_ptx(witness_.ptx(), x, y, options);
  REQUIRE_MESSAGE(result.ok, result.report.text());
}

simulator::LaunchResult WitnessLaunch::run_ptx(const std::string& ptx, std::uint32_t x, std::uint32_t y,
                                               const simulator::RunOptions& options) {
  const auto module = simulator::Module::load(ptx, memory_);
  REQUIRE_MESSAGE(module.ok(), module.status().message());
  const simulator::Entry* entry = (*module)->find(witness_.facts.at("entry"));
  REQUIRE(entry != nullptr);
  simulator::LaunchConfig config;
  config.grid = {x, y, 1};
  config.block = {witness_.facts.at("threads"), 1, 1};
  config.dynamic_shared_bytes = witness_.facts.at("shared_bytes");
  config.options = options;
  config.parameters.resize(entry->parameter_bytes);
  const auto& names = witness_.facts.at("parameters");
  REQUIRE(names.size() == entry->parameters.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& parameter = entry->parameters[i];
    const std::string name = names[i];
    REQUIRE_MESSAGE(values_.count(name) == 1, name);
    const auto& value = values_.at(name);
    REQUIRE_MESSAGE(value.size() >= parameter.size_bytes, name);  // scalars are little-endian integers
    std::memcpy(config.parameters.data() + parameter.offset, value.data(), parameter.size_bytes);
  }
  return run_grid(**module, *entry, config, memory_);
}

}  // namespace jfa::test
