#include "formats/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace jfa::test {
namespace {

using safetensors::Contents;
using safetensors::TensorMap;
using safetensors::TensorView;

std::vector<std::byte> bytes_of(const std::string& text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> file_with(const std::string& header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return bytes_of(text + header + std::string(data_bytes, '\x01'));
}

// The error of a file with this header and so many bytes of data.
std::string error_of(const std::vector<std::byte>& bytes) {
  const Result<Contents> contents = safetensors::parse("x.safetensors", bytes);
  if (contents) return "no error";
  CHECK(contents.status().kind() == ErrorKind::kInvalidArgument);
  const std::string message = contents.status().message();
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.rfind("x.safetensors: ", 0) == 0);
  return message;
}

std::string error_of(const std::string& header, std::size_t data_bytes) {
  return error_of(file_with(header, data_bytes));
}

bool has(const std::string& text, const std::string& part) {
  INFO("message: " << text);
  return text.find(part) != std::string::npos;
}

const std::string kGood = R"({"query":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}})";

TEST_CASE("a file is read as it was written") {
  const std::vector<float> floats{1, -2, 3.5F};
  const std::vector<std::int64_t> longs{0, 7};
  TensorMap tensors;
  tensors["lse"] = {"F32", {3, 1}, std::as_bytes(std::span(floats))};
  tensors["query_offset"] = {"I64", {2}, std::as_bytes(std::span(longs))};
  tensors["nothing"] = {"BF16", {0, 4}, {}};
  const std::vector<std::byte> bytes = safetensors::serialize(tensors, {{"made by", "a \"test\""}});

  const Result<Contents> contents = safetensors::parse("x", bytes);
  REQUIRE(contents.ok());
  CHECK(contents->metadata.at("made by") == "a \"test\"");
  REQUIRE(contents->tensors.size() == 3);
  for (const auto& [name, written] : tensors) {
    const TensorView& read = contents->tensors.at(name);
    CHECK(read.dtype == written.dtype);
    CHECK(read.shape == written.shape);
    REQUIRE(read.data.size() == written.data.size());
    CHECK(std::equal(read.data.begin(), read.data.end(), written.data.begin()));
  }
  CHECK(contents->tensors.at("lse").element_count() == 3);
  CHECK(safetensors::describe(contents->tensors.at("lse")) == "F32 [3, 1]");
}

TEST_CASE("a file on disk") {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("jfa-safetensors-{}", std::random_device{}());
  std::filesystem::create_directories(directory);
  const std::string path = directory / "a.safetensors";
  const std::vector<float> floats{1, 2};
  const std::vector<std::byte> bytes =
      safetensors::serialize({{"a", {"F32", {2}, std::as_bytes(std::span(floats))}}});
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Result<safetensors::File> file = safetensors::read(path);
  REQUIRE(file.ok());
  CHECK(file->contents.tensors.at("a").data.size() == 8);

  const auto missing = safetensors::read(directory / "missing");
  CHECK(missing.status().kind() == ErrorKind::kUnavailable);
  CHECK(has(missing.status().message(), "No such file"));
  CHECK_FALSE(safetensors::read(directory).ok());  // a directory
  std::filesystem::remove_all(directory);
}

TEST_CASE("headers that lie are refused by name and value") {
  CHECK(error_of(kGood, 12) == "no error");
  CHECK(has(error_of(bytes_of("")), "0 bytes"));
  CHECK(has(error_of(bytes_of("1234567")), "7 bytes"));
  CHECK(has(error_of(bytes_of(std::string(8, '\xff'))), "header length 18446744073709551615"));
  CHECK(has(error_of(bytes_of("# A text, not tensors")), "not a safetensors file"));
  CHECK(has(error_of(bytes_of(std::string("\x00\xe1\xf5\x05\x00\x00\x00\x00", 8))),
            "header length 100000000 is beyond"));
  CHECK(has(error_of(bytes_of(std::string("\x01\xe1\xf5\x05\x00\x00\x00\x00", 8))), "above the limit"));
  CHECK(has(error_of("", 0), "not JSON"));
  CHECK(has(error_of("{\"query\":", 0), "not JSON"));
  CHECK(has(error_of(std::string("{\"\xff\":1}"), 0), "not JSON"));
  CHECK(has(error_of("[]", 0), "not a JSON object"));
  CHECK(has(error_of(std::string(1 << 20, '['), 0), "nests deeper"));
  CHECK(has(error_of(R"({"a\nb":{"dtype":"F16","shape":[],"data_offsets":[0,2]},)"
                     R"("a\nb":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
                     2),
            "'a?b' twice"));
  CHECK(has(error_of(R"({"a":{"dtype":"F16","dtype":"F16","shape":[],"data_offsets":[0,2]}})", 2),
            "'dtype' twice"));
  CHECK(has(error_of(R"({"__metadata__":{"a":1}})", 0), "'a' is not a string: 1"));
  CHECK(has(error_of(R"({"__metadata__":[]})", 0), "__metadata__ is not an object"));
}

TEST_CASE("tensors that lie are refused by name and value") {
  const auto error = [](const std::string& entry, std::size_t data_bytes) {
    return error_of("{\"query\":" + entry + "}", data_bytes);
  };
  CHECK(has(error("7", 0), "tensor 'query': not an object: 7"));
  CHECK(has(error(R"({"shape":[],"data_offsets":[0,2]})", 2), "tensor 'query': has no dtype"));
  CHECK(has(error(R"({"dtype":"F16","data_offsets":[0,2]})", 2), "has no shape"));
  CHECK(has(error(R"({"dtype":"F16","shape":[]})", 2), "has no data_offsets"));
  CHECK(has(error(R"({"dtype":16,"shape":[],"data_offsets":[0,2]})", 2), "dtype is not a string: 16"));
  CHECK(has(error(R"({"dtype":"F16","shape":1,"data_offsets":[0,2]})", 2), "shape is not a list: 1"));
  CHECK(has(error(R"({"dtype":"F16","shape":[-1],"data_offsets":[0,2]})", 2), "has the extent -1"));
  CHECK(has(error(R"({"dtype":"F16","shape":[1.5],"data_offsets":[0,2]})", 2), "has the extent 1.5"));
  CHECK(has(error(R"({"dtype":"F16","shape":["1"],"data_offsets":[0,2]})", 2), "has the extent \"1\""));
  CHECK(has(error(R"({"dtype":"F16","shape":[18446744073709551615],"data_offsets":[0,2]})", 2),
            "has the extent 18446744073709551615"));
  CHECK(
      has(error(R"({"dtype":"F16","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0), "overflows"));
  CHECK(
      has(error(R"({"dtype":"F16","shape":[9223372036854775807,2],"data_offsets":[0,2]})", 2), "overflows"));
  CHECK(has(error(R"({"dtype":"F16","shape":[1],"data_offsets":[0]})", 2),
            "data_offsets are not two sizes: [0]"));
  CHECK(has(error(R"({"dtype":"F16","shape":[1],"data_offsets":[0,-2]})", 2),
            "data_offsets are not two sizes"));
  CHECK(has(error(R"({"dtype":"F16","shape":[1],"data_offsets":[2,0]})", 2), "[2, 0] are outside"));
  CHECK(
      has(error(R"({"dtype":"F16","shape":[2],"data_offsets":[0,4]})", 2), "[0, 4] are outside the 2 bytes"));
  CHECK(has(error(R"({"dtype":"F16","shape":[3],"data_offsets":[0,4]})", 4),
            "hold 4 bytes, but F16 [3] takes 6"));
  CHECK(has(error(R"({"dtype":"F16","shape":[1],"data_offsets":[2,4]})", 4), "hole behind byte 0"));
  CHECK(has(error_of(kGood, 13), "1 bytes of data belong to no tensor"));
  CHECK(has(error_of(R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                     R"("b":{"dtype":"I32","shape":[2],"data_offsets":[4,12]}})",
                     12),
            "tensor 'b': data_offsets [4, 12] overlap those of tensor 'a'"));
}

TEST_CASE("every type of the format is taken by its size in bits, and one that is newer as it is") {
  const auto entry = [](const std::string& dtype, const std::string& shape, int end) {
    return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})", dtype, shape, end);
  };
  const std::pair<const char*, int> types[] = {
      {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"U16", 16},       {"I16", 16},    {"U32", 32},
      {"I32", 32},    {"U64", 64},    {"I64", 64},        {"F16", 16},       {"BF16", 16},   {"F32", 32},
      {"F64", 64},    {"C64", 64},    {"F8_E5M2", 8},     {"F8_E4M3", 8},    {"F8_E8M0", 8}, {"F4", 4},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
  for (const auto& [dtype, bits] : types) {
    CAPTURE(dtype);
    CHECK(error_of(entry(dtype, "[2,4]", bits), static_cast<std::size_t>(bits)) == "no error");
    CHECK(has(error_of(entry(dtype, "[2,4]", bits + 1), static_cast<std::size_t>(bits) + 1),
              fmt::format("takes {}", bits)));
  }
  CHECK(has(error_of(entry("F4", "[3]", 1), 1), "F4 [3] takes 12 bits, which are no whole bytes"));
  CHECK(error_of(entry("F2_E9M9", "[3]", 7), 7) == "no error");
  CHECK(has(error_of(entry("F2_E9M9", "[3]", 8), 7), "are outside the 7 bytes"));
  CHECK(has(error_of(entry("F2_E9M9", "[9223372036854775807]", 7), 7), "overflows"));
}

TEST_CASE("the time for a header grows with its length, not with the square of its names") {
  std::string header = "{";
  for (int i = 0; i < 60'000; ++i)
    header += fmt::format(R"("layer.{}.weight":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  const auto start = std::chrono::steady_clock::now();
  const Result<Contents> contents = safetensors::parse("x", file_with(header + "\"__metadata__\":{}}", 0));
  REQUIRE(contents.ok());
  CHECK(contents->tensors.size() == 60'000);
  CHECK(has(error_of(header + R"("layer.7.weight":1})", 0), "names 'layer.7.weight' twice"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("a header that nests without end is refused as it is read") {
  for (const char* opening : {"[", R"({"a":)", R"({"t":{"dtype":[)", R"({"t":{"shape":[[)"}) {
    std::string header = opening;
    while (header.size() < (1 << 20)) header += opening[0] == '{' ? R"({"a":)" : "[";
    CHECK(has(error_of(header, 0), "nests deeper than 3 levels"));
  }
}

TEST_CASE("a scalar, empty tensors and zero extents beside huge ones") {
  CHECK(error_of(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8) == "no error");
  CHECK(
      error_of(
          R"({"a":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F64","shape":[0,9],"data_offsets":[0,0]}})",
          0) == "no error");
  CHECK(error_of(R"({"a":{"dtype":"F64","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0) ==
        "no error");
}

TEST_CASE("no damaged file crashes the parser, and whatever it accepts is in bounds") {
  const std::vector<float> floats(6, 1.0F);
  const std::vector<std::byte> good =
      safetensors::serialize({{"a", {"F32", {2, 3}, std::as_bytes(std::span(floats))}},
                              {"b", {"I64", {3}, std::as_bytes(std::span(floats))}}},
                             {{"k", "v"}});
  std::mt19937 random(1);
  const std::string alphabet = "{}[]\",:0123456789-.eE\\ abFI\xff" + std::string(1, '\0');
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = good;
    for (unsigned edits = 1 + random() % 3; edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<std::byte>(alphabet[random() % alphabet.size()]);
          break;
        case 1:
          bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        default:
          bytes.resize(1 + random() % bytes.size());
      }
    }
    const Result<Contents> contents = safetensors::parse("x", bytes);
    if (!contents) continue;
    ++accepted;
    for (const auto& [name, tensor] : contents->tensors) {
      if (tensor.data.empty()) continue;
      CHECK(tensor.data.data() >= bytes.data());
      CHECK(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
    }
  }
  CHECK(accepted > 0);  // edits of the data, of names and of the metadata
}

}  // namespace
}  // namespace jfa::test
