#include "formats/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/input_file.h"
#include "formats/strict_json.h"

namespace jfa::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using Json = nlohmann::json;
using tools::shown;
using tools::shown_json;
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kBitsOfByte = 8;
constexpr std::size_t kMaxDescription = 120;  // characters
constexpr std::string_view kMetadataName = "__metadata__";
// The header, a tensor's description, a list in it.
constexpr tools::JsonRules kHeaderRules{.max_depth = 3};

struct NamedSize {
  std::string_view name;
  std::uint64_t bits;
};
// Every type of the format as of its version 0.8.
constexpr NamedSize kDtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"U16", 16},       {"I16", 16},    {"U32", 32},
    {"I32", 32},    {"U64", 64},    {"I64", 64},        {"F16", 16},       {"BF16", 16},   {"F32", 32},
    {"F64", 64},    {"C64", 64},    {"F8_E5M2", 8},     {"F8_E4M3", 8},    {"F8_E8M0", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

// nullopt for a type that is newer than this list.
std::optional<std::uint64_t> element_bits(std::string_view dtype) {
  for (const NamedSize& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string_view name;  // the key in Contents
};

class Parser {
 public:
  Parser(std::string_view file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  Result<Contents> run() {
    if (Status status = read_header(); !status.ok()) return status;
    if (Status status = check_tiling(); !status.ok()) return status;
    return std::move(contents_);
  }

 private:
  Status bad(std::string_view what) const {
    return Status::invalid_argument(fmt::format("{}: {}", file_, what));
  }
  Status bad_tensor(std::string_view name, std::string_view what) const {
    return bad(fmt::format("tensor '{}': {}", shown(name), what));
  }

  Status read_header() {
    if (bytes_.size() < kLengthBytes) {
      return bad(fmt::format("{} bytes are too few for a safetensors file", bytes_.size()));
    }
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes_.data(), kLengthBytes);
    const std::uint64_t rest_bytes = bytes_.size() - kLengthBytes;
    // Some other file: its text read as a number says nothing to anybody.
    if (header_bytes > rest_bytes && rest_bytes > 0 && bytes_[kLengthBytes] != std::byte{'{'})
      return bad("not a safetensors file");
    if (header_bytes > kMaxHeaderBytes) {
      return bad(fmt::format("header length {} is above the limit of {}", header_bytes, kMaxHeaderBytes));
    }
    if (header_bytes > rest_bytes) {
      return bad(fmt::format("header length {} is beyond the end of the file ({} bytes)", header_bytes,
                             bytes_.size()));
    }
    data_ = bytes_.subspan(kLengthBytes + header_bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, header_bytes);

    return tools::parse_json_members(fmt::format("{}: header", file_), text, kHeaderRules,
                                     [this](const std::string& name, const Json& entry) {
                                       return name == kMetadataName ? read_metadata(entry)
                                                                    : read_tensor(name, entry);
                                     });
  }

  Status read_metadata(const Json& entry) {
    if (!entry.is_object()) return bad(fmt::format("__metadata__ is not an object: {}", shown_json(entry)));
    for (const auto& [name, text] : entry.items()) {
      if (!text.is_string()) {
        return bad(fmt::format("__metadata__ '{}' is not a string: {}", shown(name), shown_json(text)));
      }
      contents_.metadata.emplace(name, text.get<std::string>());
    }
    return {};
  }

  Status read_tensor(const std::string& name, const Json& entry) {
    if (!entry.is_object()) return bad_tensor(name, fmt::format("not an object: {}", shown_json(entry)));
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!entry.contains(field)) return bad_tensor(name, fmt::format("has no {}", field));
    }
    const Json& dtype = entry["dtype"];
    if (!dtype.is_string())
      return bad_tensor(name, fmt::format("dtype is not a string: {}", shown_json(dtype)));
    TensorView tensor{dtype.get<std::string>(), {}, {}};

    const Json& shape = entry["shape"];
    if (!shape.is_array()) return bad_tensor(name, fmt::format("shape is not a list: {}", shown_json(shape)));
    // One of a type that is not known is for whoever asks for it to judge.
    const std::optional<std::uint64_t> known_bits = element_bits(tensor.dtype);
    std::uint64_t tensor_bits = known_bits.value_or(kBitsOfByte);
    bool overflow = false;
    for (const Json& extent : shape) {
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
        return bad_tensor(name,
                          fmt::format("shape {} has the extent {}", shown_json(shape), shown_json(extent)));
      }
      tensor.shape.push_back(extent.get<std::int64_t>());
      overflow |= __builtin_mul_overflow(tensor_bits, extent.get<std::uint64_t>(), &tensor_bits);
    }
    if (overflow) return bad_tensor(name, fmt::format("shape {} overflows 64 bits", shown_json(shape)));
    if (known_bits && tensor_bits % kBitsOfByte != 0) {
      return bad_tensor(name, fmt::format("{} {} takes {} bits, which are no whole bytes", tensor.dtype,
                                          shown_json(shape), tensor_bits));
    }

    const Json& offsets = entry["data_offsets"];
    const auto is_offset = [](const Json& value) { return value.is_number_unsigned(); };
    if (!offsets.is_array() || offsets.size() != 2 ||
        !std::all_of(offsets.begin(), offsets.end(), is_offset)) {
      return bad_tensor(name, fmt::format("data_offsets are not two sizes: {}", shown_json(offsets)));
    }
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > data_.size()) {
      return bad_tensor(name, fmt::format("data_offsets [{}, {}] are outside the {} bytes of data", begin,
                                          end, data_.size()));
    }
    if (known_bits && end - begin != tensor_bits / kBitsOfByte) {
      return bad_tensor(name,
                        fmt::format("data_offsets [{}, {}] hold {} bytes, but {} {} takes {}", begin, end,
                                    end - begin, tensor.dtype, shown_json(shape), tensor_bits / kBitsOfByte));
    }
    tensor.data = data_.subspan(begin, end - begin);
    const auto place = contents_.tensors.emplace(name, std::move(tensor)).first;
    ranges_.push_back({begin, end, place->first});
    return {};
  }

  // The format wants every byte of the data to belong to exactly one tensor.
  Status check_tiling() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::uint64_t reached = 0;
    std::string_view previous;
    for (const Range& range : ranges_) {
      if (range.begin < reached) {
        return bad_tensor(range.name, fmt::format("data_offsets [{}, {}] overlap those of tensor '{}'",
                                                  range.begin, range.end, shown(previous)));
      }
      if (range.begin > reached) {
        return bad_tensor(range.name, fmt::format("data_offsets [{}, {}] leave a hole behind byte {}",
                                                  range.begin, range.end, reached));
      }
      reached = range.end;
      previous = range.name;
    }
    if (reached != data_.size()) {
      return bad(fmt::format("{} bytes of data belong to no tensor", data_.size() - reached));
    }
    return {};
  }

  std::string_view file_;
  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  Contents contents_;
  std::vector<Range> ranges_;
};

}  // namespace

std::int64_t TensorView::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string describe(const TensorView& tensor) {
  return shown(fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", ")), kMaxDescription);
}

Result<Contents> parse(std::string_view file, std::span<const std::byte> bytes) {
  return Parser(file, bytes).run();
}

Result<File> read(const std::string& path) {
  Result<std::vector<std::byte>> bytes = tools::read_bytes(path);
  if (!bytes) return bytes.status();
  File file;
  file.bytes = std::move(*bytes);
  Result<Contents> contents = parse(path, file.bytes);
  if (!contents) return contents.status();
  file.contents = std::move(*contents);
  return file;
}

std::vector<std::byte> serialize(const TensorMap& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json texts = Json::object();
    for (const auto& [name, text] : metadata) texts[name] = text;
    header[std::string(kMetadataName)] = std::move(texts);
  }
  std::uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data_bytes, data_bytes + tensor.data.size()}}};
    data_bytes += tensor.data.size();
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');

  const std::uint64_t header_bytes = text.size();
  std::vector<std::byte> bytes(kLengthBytes + header_bytes + data_bytes);
  std::memcpy(bytes.data(), &header_bytes, kLengthBytes);
  std::memcpy(bytes.data() + kLengthBytes, text.data(), text.size());
  auto position = bytes.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + header_bytes);
  for (const auto& [name, tensor] : tensors) {
    position = std::copy(tensor.data.begin(), tensor.data.end(), position);
  }
  return bytes;
}

}  // namespace jfa::safetensors
