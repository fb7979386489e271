#include "tools/jfa_sim/launch_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include "tools/jfa_sim/tensor_map_file.h"

namespace jfa::sim {
namespace {

using simulator::Entry;
using simulator::Parameter;

// Bytes of one argument, and what they would be aligned to in a struct.
struct Value {
  std::vector<std::byte> bytes;
  std::size_t alignment = 1;
};

template <class T>
Value value_of(T number) {
  Value value{std::vector<std::byte>(sizeof number), sizeof number};
  std::memcpy(value.bytes.data(), &number, sizeof number);
  return value;
}

template <class T>
std::optional<Value> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  const bool hexadecimal = text.starts_with("0x");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  T number{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size() || (negative && std::is_unsigned_v<T>))
    return std::nullopt;
  return value_of(number);
}

template <class T>
std::optional<Value> parse_float(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value_of(number);
}

struct Scalar {
  std::string_view type;
  std::optional<Value> (*parse)(std::string_view);
};
constexpr Scalar kScalars[] = {{"i8", parse_integer<std::int8_t>},    {"i16", parse_integer<std::int16_t>},
                               {"i32", parse_integer<std::int32_t>},  {"i64", parse_integer<std::int64_t>},
                               {"u8", parse_integer<std::uint8_t>},   {"u16", parse_integer<std::uint16_t>},
                               {"u32", parse_integer<std::uint32_t>}, {"u64", parse_integer<std::uint64_t>},
                               {"f32", parse_float<float>},           {"f64", parse_float<double>}};

bool is_buffer(std::string_view kind) {
  return kind == "in" || kind == "inout" || kind == "out" || kind == "zero";
}

// "kind:rest"
std::pair<std::string_view, std::string_view> split(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

class Builder {
 public:
  Status add_buffer(const std::string& name, std::string_view description) {
    if (places_.contains(name))
      return Status::invalid_argument(fmt::format("there are two buffers '{}'", name));
    const auto [kind, rest] = split(description, ':');
    const auto [place, result] = split(rest, '=');
    if (!is_buffer(kind))
      return Status::invalid_argument(fmt::format("'{}' is no kind of buffer: in, inout, out or zero", kind));
    const bool from_file = kind == "in" || kind == "inout";
    Result<HostArray> array = from_file ? read_array(std::string(place)) : empty_array(place);
    if (!array) return array.status();
    if (kind == "out") std::fill(array->bytes.begin(), array->bytes.end(), std::byte{0xff});
    std::string path(result);
    if (kind == "inout" && path.empty()) path = place;
    if (kind == "in" && !path.empty()) return Status::invalid_argument("an input has no result");
    if (path.find('#') != std::string::npos)
      return Status::invalid_argument(
          fmt::format("results are written as .npy: say where to after '{}='", place));
    if (!path.empty() && !element_bytes(array->dtype))
      return Status::invalid_argument(
          fmt::format("a result of {} cannot be written: NumPy has no such type", array->dtype));
    const std::size_t index = prepared_.recording.buffers.size();
    if (!path.empty()) prepared_.results.push_back({index, path, array->dtype, array->shape});
    const std::uint64_t address = addresses_.allocate(array->bytes.size());
    places_[name] = {address, array->bytes.size()};
    prepared_.recording.buffers.push_back({address, name, std::move(array->bytes)});
    return {};
  }

  /// implicit_name: of a buffer that the argument makes.
  Result<Value> value(std::string_view text, const std::string& implicit_name) {
    const auto [kind, rest] = split(text, ':');
    for (const Scalar& scalar : kScalars) {
      if (scalar.type != kind) continue;
      if (std::optional<Value> parsed = scalar.parse(rest)) return *std::move(parsed);
      return Status::invalid_argument(fmt::format("'{}' is no {}", rest, kind));
    }
    if (is_buffer(kind)) {
      if (Status status = add_buffer(implicit_name, text); !status.ok()) return status;
      return value_of(places_.at(implicit_name).address);
    }
    if (kind == "buffer") return buffer_address(rest);
    if (kind == "map") return tensor_map(rest);
    if (kind == "struct") return structure(rest, implicit_name);
    return Status::invalid_argument(fmt::format("'{}' is no kind of argument", kind));
  }

  PreparedLaunch take() { return std::move(prepared_); }

 private:
  Result<BufferPlace> find(std::string_view name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) return Status::invalid_argument(fmt::format("there is no buffer '{}'", name));
    return found->second;
  }

  Result<Value> buffer_address(std::string_view text) {
    const auto [name, offset_text] = split(text, '+');
    const Result<BufferPlace> place = find(name);
    if (!place) return place.status();
    std::uint64_t offset = 0;
    if (!offset_text.empty()) {
      const std::optional<Value> parsed = parse_integer<std::uint64_t>(offset_text);
      if (!parsed) return Status::invalid_argument(fmt::format("'{}' is no number of bytes", offset_text));
      std::memcpy(&offset, parsed->bytes.data(), sizeof offset);
    }
    return value_of(place->address + offset);
  }

  Result<Value> tensor_map(std::string_view text) {
    const auto [path, name] = split(text, '#');
    Result<std::vector<std::byte>> bytes = read_tensor_map(std::string(path), std::string(name),
                                                           [this](std::string_view it) { return find(it); });
    if (!bytes) return bytes.status();
    return Value{*std::move(bytes), 64};
  }

  Result<Value> structure(std::string_view text, const std::string& implicit_name) {
    Value whole;
    for (int field = 0; !text.empty(); ++field) {
      const auto [head, tail] = split(text, ';');
      const Result<Value> one = value(head, fmt::format("{}.{}", implicit_name, field));
      if (!one) return one.status();
      align(whole.bytes, one->alignment);
      whole.bytes.insert(whole.bytes.end(), one->bytes.begin(), one->bytes.end());
      whole.alignment = std::max(whole.alignment, one->alignment);
      text = tail;
    }
    align(whole.bytes, whole.alignment);
    return whole;
  }

  static void align(std::vector<std::byte>& bytes, std::size_t alignment) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }

  simulator::DeviceMemory addresses_;  // gives them out; the contents are the recording's
  std::map<std::string, BufferPlace, std::less<>> places_;
  PreparedLaunch prepared_;
};

Status prefixed(const std::string& what, const Status& status) {
  return Status(status.kind(), fmt::format("{}: {}", what, status.message()), status.detail());
}

}  // namespace

std::optional<simulator::Dim3> parse_dim3(const std::string& text) {
  std::uint32_t values[3] = {1, 1, 1};
  std::string_view rest = text;
  for (std::uint32_t& value : values) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || value == 0) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) return simulator::Dim3{values[0], values[1], values[2]};
    if (rest[0] != ',') return std::nullopt;
    rest.remove_prefix(1);
  }
  return std::nullopt;
}

Result<PreparedLaunch> prepare_launch(const LaunchDescription& description, const std::string& ptx) {
  simulator::DeviceMemory memory;
  const auto module = simulator::Module::load(ptx, memory);
  if (!module) return module.status();
  const Entry* entry = (*module)->find(description.entry);
  if (entry == nullptr) {
    std::string names;
    for (const auto& known : (*module)->entries()) names += (names.empty() ? "" : ", ") + known->name;
    return Status::invalid_argument(fmt::format("entry '{}': the PTX has {}", description.entry, names));
  }
  if (description.arguments.size() != entry->parameters.size())
    return Status::invalid_argument(fmt::format("{} arguments, entry '{}' takes {}",
                                                description.arguments.size(), entry->name,
                                                entry->parameters.size()));
  Builder builder;
  for (const std::string& buffer : description.buffers) {
    const auto [name, rest] = split(buffer, '=');
    if (Status status = builder.add_buffer(std::string(name), rest); !status.ok())
      return prefixed(fmt::format("buffer '{}'", buffer), status);
  }
  simulator::RecordedLaunch launch;
  launch.entry = description.entry;
  launch.config.grid = description.grid;
  launch.config.block = description.block;
  launch.config.cluster = description.cluster;
  launch.config.dynamic_shared_bytes = description.dynamic_shared_bytes;
  launch.config.parameters.resize(entry->parameter_bytes);
  for (std::size_t i = 0; i < entry->parameters.size(); ++i) {
    const Parameter& parameter = entry->parameters[i];
    const std::string what = fmt::format("argument {} ('{}')", i, description.arguments[i]);
    const Result<Value> value = builder.value(description.arguments[i], fmt::format("arg{}", i));
    if (!value) return prefixed(what, value.status());
    if (value->bytes.size() != parameter.size_bytes)
      return Status::invalid_argument(fmt::format("{} has {} bytes, parameter '{}' takes {}", what,
                                                  value->bytes.size(), parameter.name, parameter.size_bytes));
    std::copy(value->bytes.begin(), value->bytes.end(),
              launch.config.parameters.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
  }
  PreparedLaunch prepared = builder.take();
  prepared.recording.launches.push_back(std::move(launch));
  return prepared;
}

}  // namespace jfa::sim
