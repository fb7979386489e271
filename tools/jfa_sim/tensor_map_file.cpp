#include "tools/jfa_sim/tensor_map_file.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "base/input_file.h"
#include "formats/strict_json.h"
#include "simulator/async/tensor_map.h"

namespace jfa::sim {
namespace {

using Json = nlohmann::json;

std::optional<CUtensorMapDataType> data_type(const std::string& name) {
  const std::pair<const char*, CUtensorMapDataType> kTypes[] = {
      {"U8", CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {"U16", CU_TENSOR_MAP_DATA_TYPE_UINT16},
      {"U32", CU_TENSOR_MAP_DATA_TYPE_UINT32},
      {"I32", CU_TENSOR_MAP_DATA_TYPE_INT32},
      {"U64", CU_TENSOR_MAP_DATA_TYPE_UINT64},
      {"I64", CU_TENSOR_MAP_DATA_TYPE_INT64},
      {"F16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
      {"F32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
      {"F64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64},
      {"BF16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
      {"U4", CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B},
      {"U4_PADDED", CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B},
      {"U6_PADDED", CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B}};
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  return std::nullopt;
}

std::optional<CUtensorMapSwizzle> swizzle_of(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return std::nullopt;
  }
}

// The JSON library's own conversions cut what does not fit, and make numbers of 1e300.
template <class Number>
Number number_of(const Json& json, const char* key) {
  if (!json.is_number_unsigned() ||
      json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<Number>::max()})
    throw std::domain_error(fmt::format("{} has {}, which is no whole number from 0 to {}", key,
                                        tools::shown_json(json), std::numeric_limits<Number>::max()));
  return json.get<Number>();
}

std::int64_t signed_number_of(const Json& json, const char* key) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                        : json.is_number_integer();
  if (!fits)
    throw std::domain_error(
        fmt::format("{} has {}, which is no whole number of 64 bits", key, tools::shown_json(json)));
  return json.get<std::int64_t>();
}

template <class Number>
std::vector<Number> numbers_of(const Json& json, const char* key) {
  const Json& list = json.at(key);
  if (!list.is_array())
    throw std::domain_error(fmt::format("{} is {}, no list", key, tools::shown_json(list)));
  std::vector<Number> numbers;
  for (const Json& number : list) numbers.push_back(number_of<Number>(number, key));
  return numbers;
}

Result<std::vector<std::byte>> encode(const std::string& where, const Json& json,
                                      const FindBuffer& find_buffer) {
  const auto refuse = [&](const std::string& what) {
    return Status::invalid_argument(fmt::format("{}: {}", where, what));
  };
  const auto extents = numbers_of<cuuint64_t>(json, "extents");
  const auto strides = json.contains("strides_bytes") ? numbers_of<cuuint64_t>(json, "strides_bytes")
                                                      : std::vector<cuuint64_t>();
  const auto box = numbers_of<cuuint32_t>(json, "box");
  const auto element_strides = json.contains("element_strides")
                                   ? numbers_of<cuuint32_t>(json, "element_strides")
                                   : std::vector<cuuint32_t>(extents.size(), 1);
  if (extents.empty() || extents.size() > simulator::kMaxTensorRank)
    return refuse(fmt::format("{} extents, 1 to {} are possible", extents.size(), simulator::kMaxTensorRank));
  if (strides.size() != extents.size() - 1)
    return refuse(fmt::format("{} strides_bytes for {} extents: all but the innermost have one",
                              strides.size(), extents.size()));
  if (box.size() != extents.size() || element_strides.size() != extents.size())
    return refuse(fmt::format("box has {} and element_strides {} numbers for {} extents", box.size(),
                              element_strides.size(), extents.size()));
  const auto type = data_type(json.at("type").get<std::string>());
  if (!type) return refuse(fmt::format("type {}", tools::shown_json(json.at("type"))));
  const auto swizzle =
      swizzle_of(json.contains("swizzle") ? number_of<int>(json.at("swizzle"), "swizzle") : 0);
  if (!swizzle) return refuse(fmt::format("swizzle {} is not 0, 32, 64 or 128", json.at("swizzle").dump()));
  const Result<BufferPlace> buffer = find_buffer(json.at("buffer").get<std::string>());
  if (!buffer) return refuse(buffer.status().message());
  // The base may lie outside: what copies access is checked, and addresses count modulo 2^64.
  const auto offset = static_cast<std::uint64_t>(
      json.contains("offset_bytes") ? signed_number_of(json.at("offset_bytes"), "offset_bytes") : 0);

  CUtensorMap map;
  std::string reason;
  const CUresult result = simulator::encode_tiled_tensor_map(
      &map, *type, static_cast<cuuint32_t>(extents.size()), reinterpret_cast<void*>(buffer->address + offset),
      extents.data(), strides.data(), box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      *swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, &reason);
  if (result != CUDA_SUCCESS) return refuse(reason);
  std::vector<std::byte> bytes(sizeof map);
  std::memcpy(bytes.data(), &map, sizeof map);
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> parse_tensor_map(const std::string& path, std::string_view text,
                                                const std::string& name, const FindBuffer& find_buffer) {
  const Result<Json> file = tools::parse_json(path, text);
  if (!file) return file.status();
  if (!file->is_object() || !file->contains(name))
    return Status::invalid_argument(fmt::format("{}: has no tensor map '{}'", path, name));
  const std::string where =
      fmt::format("{}: tensor map '{}'", tools::json_place(path, text, {}, {name}), name);
  try {
    return encode(where, file->at(name), find_buffer);
  } catch (const Json::exception& error) {
    return Status::invalid_argument(fmt::format("{}: {}", where, error.what()));
  } catch (const std::domain_error& error) {
    return Status::invalid_argument(fmt::format("{}: {}", where, error.what()));
  }
}

Result<std::vector<std::byte>> read_tensor_map(const std::string& path, const std::string& name,
                                               const FindBuffer& find_buffer) {
  const Result<std::string> text = tools::read_text(path);
  if (!text) return text.status();
  return parse_tensor_map(path, *text, name, find_buffer);
}

}  // namespace jfa::sim
