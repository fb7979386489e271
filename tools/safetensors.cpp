#include "tools/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace jfa::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using Json = nlohmann::json;
constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataName = "__metadata__";
constexpr std::size_t kMaxShownCharacters = 60;

struct NamedSize {
  std::string_view name;
  std::uint64_t bytes;
};
// Every type of the format, so that a file may hold tensors beside the ones that are wanted.
constexpr NamedSize kDtypes[] = {{"BF16", 2}, {"F16", 2},  {"F32", 4}, {"F64", 8},     {"I32", 4},
                                 {"I64", 8},  {"BOOL", 1}, {"U8", 1},  {"I8", 1},      {"U16", 2},
                                 {"I16", 2},  {"U32", 4},  {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  for (const NamedSize& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

// Text from the file on its way into a one-line message: cut, and without control characters.
std::string shown(std::string_view text, std::size_t limit = kMaxShownCharacters) {
  std::string result;
  for (const char c : text.substr(0, limit)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return text.size() > limit ? result + "…" : result;
}

std::string shown_json(const Json& value) {
  return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

class Parser {
 public:
  Parser(std::string_view file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  Result<Contents> run() {
    if (Status status = read_header(); !status.ok()) return status;
    for (const auto& [name, entry] : header_.items()) {
      Status status = name == kMetadataName ? read_metadata(entry) : read_tensor(name, entry);
      if (!status.ok()) return status;
    }
    if (Status status = check_tiling(); !status.ok()) return status;
    return std::move(contents_);
  }

 private:
  Status bad(std::string_view what) const {
    return Status::invalid_argument(fmt::format("{}: {}", shown(file_, std::string::npos), what));
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
    if (header_bytes > kMaxHeaderBytes) {
      return bad(fmt::format("header length {} is above the limit of {}", header_bytes, kMaxHeaderBytes));
    }
    if (header_bytes > bytes_.size() - kLengthBytes) {
      return bad(fmt::format("header length {} is beyond the end of the file ({} bytes)", header_bytes,
                             bytes_.size()));
    }
    data_ = bytes_.subspan(kLengthBytes + header_bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, header_bytes);

    std::string duplicate;
    bool too_deep = false;
    std::vector<std::set<std::string>> names(1);  // of the objects that are open
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second) {
        duplicate = parsed.get<std::string>();
      }
      too_deep = too_deep || depth > 3;
      return !too_deep;  // a value that is too deep is dropped as it is read
    };
    header_ = Json::parse(text, watch, /*allow_exceptions=*/false);
    if (too_deep) return bad("header nests deeper than a tensor's description");
    if (header_.is_discarded()) return bad(fmt::format("header is not JSON: {}", shown(text)));
    if (!header_.is_object()) return bad(fmt::format("header is not a JSON object: {}", shown(text)));
    if (!duplicate.empty()) return bad(fmt::format("header names '{}' twice", shown(duplicate)));
    return {};
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
    const auto size = dtype.is_string() ? element_bytes(dtype.get_ref<const std::string&>()) : std::nullopt;
    if (!size) return bad_tensor(name, fmt::format("unknown dtype {}", shown_json(dtype)));

    const Json& shape = entry["shape"];
    if (!shape.is_array()) return bad_tensor(name, fmt::format("shape is not a list: {}", shown_json(shape)));
    TensorView tensor{dtype.get<std::string>(), {}, {}};
    std::uint64_t tensor_bytes = *size;
    bool overflow = false;
    for (const Json& extent : shape) {
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
        return bad_tensor(name,
                          fmt::format("shape {} has the extent {}", shown_json(shape), shown_json(extent)));
      }
      tensor.shape.push_back(extent.get<std::int64_t>());
      overflow |= __builtin_mul_overflow(tensor_bytes, extent.get<std::uint64_t>(), &tensor_bytes);
    }
    if (overflow) return bad_tensor(name, fmt::format("shape {} overflows 64 bits", shown_json(shape)));

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
    if (end - begin != tensor_bytes) {
      return bad_tensor(name, fmt::format("data_offsets [{}, {}] hold {} bytes, but {} {} takes {}", begin,
                                          end, end - begin, tensor.dtype, shown_json(shape), tensor_bytes));
    }
    tensor.data = data_.subspan(begin, end - begin);
    ranges_.push_back({begin, end, name});
    contents_.tensors.emplace(name, std::move(tensor));
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
  Json header_;
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
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

Result<Contents> parse(std::string_view file, std::span<const std::byte> bytes) {
  return Parser(file, bytes).run();
}

Result<File> read(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error)
    return Status::unavailable(fmt::format("{}: {}", shown(path, std::string::npos), error.message()));
  File file;
  try {
    file.bytes.resize(size);
  } catch (const std::exception&) {
    return Status::unavailable(
        fmt::format("{}: no memory for its {} bytes", shown(path, std::string::npos), size));
  }
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(file.bytes.data()), static_cast<std::streamsize>(size));
  if (!stream)
    return Status::unavailable(fmt::format("{}: {}", shown(path, std::string::npos), std::strerror(errno)));
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

Status write(const std::string& path, const TensorMap& tensors, const Metadata& metadata) {
  const std::vector<std::byte> bytes = serialize(tensors, metadata);
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::error_code error;
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    if (!stream) error.assign(errno, std::generic_category());
  }
  if (!error) std::filesystem::rename(temporary, path, error);
  if (!error) return {};
  const Status failure = Status::unavailable(fmt::format("{}: cannot write: {}", path, error.message()));
  std::filesystem::remove(temporary, error);
  return failure;
}

}  // namespace jfa::safetensors
