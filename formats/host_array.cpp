#include "formats/host_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <limits>

#include "base/input_file.h"
#include "formats/safetensors.h"
#include "formats/strict_json.h"

namespace jfa::sim {
namespace {

struct Type {
  std::string_view dtype;
  std::string_view descr;  // NumPy's
  std::uint64_t bytes;
};
constexpr Type kTypes[] = {{"F64", "<f8", 8}, {"F32", "<f4", 4}, {"F16", "<f2", 2}, {"BF16", "<V2", 2},
                           {"I64", "<i8", 8}, {"I32", "<i4", 4}, {"I16", "<i2", 2}, {"I8", "|i1", 1},
                           {"U64", "<u8", 8}, {"U32", "<u4", 4}, {"U16", "<u2", 2}, {"U8", "|u1", 1},
                           {"BOOL", "|b1", 1}};
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::uint64_t kMaxBytes = 1ull << 40;

const Type* find_dtype(std::string_view dtype) {
  for (const Type& type : kTypes)
    if (type.dtype == dtype) return &type;
  return nullptr;
}

const Type* find_descr(std::string_view descr) {
  for (const Type& type : kTypes)
    if (type.descr.substr(1) == descr.substr(std::min<std::size_t>(1, descr.size())) && descr[0] != '>')
      return &type;
  return nullptr;
}

// The bytes of a shape; nullopt if it is negative or too large to be meant.
std::optional<std::uint64_t> byte_count(const Type& type, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = type.bytes;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && bytes > kMaxBytes / static_cast<std::uint64_t>(extent)))
      return std::nullopt;
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

// "12, 3" or "12,": the numbers of a tuple.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (text.empty()) return shape;
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    shape.push_back(extent);
  }
}

// The value behind 'key': in the header, a Python dictionary: up to `end`.
std::optional<std::string_view> header_value(std::string_view header, std::string_view key, char begin,
                                             char end) {
  const std::size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t from = header.find(begin, header.find(':', at));
  if (from == std::string_view::npos) return std::nullopt;
  const std::size_t to = header.find(end, from + 1);
  if (to == std::string_view::npos) return std::nullopt;
  return header.substr(from + 1, to - from - 1);
}

}  // namespace

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  const Type* type = find_dtype(dtype);
  if (type == nullptr) return std::nullopt;
  return type->bytes;
}

Result<HostArray> parse_npy(const std::string& path, std::string_view file) {
  const auto refuse = [&](const std::string& what) {
    return Status::invalid_argument(fmt::format("{}: {}", path, what));
  };
  constexpr std::size_t kPreamble = 10;
  if (!file.starts_with(kMagic) || file.size() < kPreamble) return refuse("not a NumPy file");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(file[i]));
  };
  std::size_t length = byte(8) | byte(9) << 8, start = kPreamble;
  if (byte(6) >= 2) {
    if (file.size() < kPreamble + 2) return refuse("ends within its header");
    length |= byte(10) << 16 | byte(11) << 24;
    start += 2;
  }
  if (length > file.size() - start) return refuse("ends within its header");
  const std::string_view header = file.substr(start, length);
  const auto descr = header_value(header, "descr", '\'', '\'');
  const auto shape_text = header_value(header, "shape", '(', ')');
  if (!descr || !shape_text) return refuse("a header without 'descr' or 'shape'");
  if (header.find("'fortran_order': True") != std::string_view::npos) return refuse("in Fortran order");
  const Type* type = descr->empty() ? nullptr : find_descr(*descr);
  if (type == nullptr) return refuse(fmt::format("elements of type '{}'", tools::shown(*descr)));
  const auto shape = parse_shape(*shape_text);
  const auto bytes = shape ? byte_count(*type, *shape) : std::nullopt;
  if (!bytes) return refuse(fmt::format("a shape of ({})", tools::shown(*shape_text)));
  const std::string_view data = file.substr(start + length);
  if (data.size() != *bytes)
    return refuse(fmt::format("{} bytes of data, its shape needs {}", data.size(), *bytes));
  HostArray array{std::string(type->dtype), *shape, std::vector<std::byte>(data.size())};
  if (!data.empty()) std::memcpy(array.bytes.data(), data.data(), data.size());
  return array;
}

Result<HostArray> read_npy(const std::string& path) {
  const Result<std::string> file = tools::read_text(path, tools::kMaxArrayBytes);
  if (!file) return file.status();
  return parse_npy(path, *file);
}

Result<std::string> npy_bytes(const HostArray& array) {
  const Type* type = find_dtype(array.dtype);
  if (type == nullptr)
    return Status::invalid_argument(fmt::format("NumPy has no type for {}", tools::shown(array.dtype)));
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type->descr,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  const std::size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max())
    return Status::invalid_argument(fmt::format("NumPy has no files of {} dimensions", array.shape.size()));
  const char preamble[] = {1, 0, static_cast<char>(header.size() & 0xff),
                           static_cast<char>(header.size() >> 8)};
  std::string bytes(kMagic);
  bytes.append(preamble, sizeof preamble);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return bytes;
}

Result<HostArray> read_array(const std::string& place) {
  const std::size_t hash = place.rfind('#');
  if (hash == std::string::npos) return read_npy(place);
  const std::string path = place.substr(0, hash), name = place.substr(hash + 1);
  const Result<safetensors::File> file = safetensors::read(path);
  if (!file) return file.status();
  const auto tensor = file->contents.tensors.find(name);
  if (tensor == file->contents.tensors.end())
    return Status::invalid_argument(fmt::format("{}: has no tensor '{}'", path, name));
  const safetensors::TensorView& view = tensor->second;
  return HostArray{view.dtype, view.shape, {view.data.begin(), view.data.end()}};
}

Result<HostArray> empty_array(std::string_view description) {
  const auto refuse = [&] {
    return Status::invalid_argument(fmt::format(
        "'{}' is neither a number of bytes nor a type and shape such as F32[128,64]", description));
  };
  HostArray array;
  std::string_view shape_text = description;
  if (const std::size_t bracket = description.find('['); bracket != std::string_view::npos) {
    if (description.back() != ']') return refuse();
    array.dtype = description.substr(0, bracket);
    shape_text = description.substr(bracket + 1, description.size() - bracket - 2);
  }
  const Type* type = find_dtype(array.dtype);
  const auto shape = parse_shape(shape_text);
  if (type == nullptr || !shape || description.empty()) return refuse();
  const auto bytes = byte_count(*type, *shape);
  if (!bytes) return refuse();
  array.shape = *shape;
  try {
    array.bytes.resize(*bytes);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error
    return Status::unavailable(fmt::format("'{}': no memory for its {} bytes", description, *bytes));
  }
  return array;
}

}  // namespace jfa::sim
