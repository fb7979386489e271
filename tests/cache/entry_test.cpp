// Entries as bytes: what is written is read, and nothing else is.
#include "cache/entry.h"

#include <doctest/doctest.h>

#include <random>

#include "cache/compression.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;

namespace {

Entry sample_entry(std::size_t padding_bytes = 0) {
  const CompileRequest request = make_request("sample");
  return {fields_of(request), request.source.size(), make_image(request, kCompiler, padding_bytes)};
}

std::string sample_bytes(std::size_t padding_bytes = 0) {
  return encode_entry(sample_entry(padding_bytes)).value();
}

// The same bytes with a checksum that fits, as a writer with a defect would make them.
std::string resealed(std::string bytes) {
  bytes.resize(bytes.size() - Digest::kBytes);
  bytes += sha256(bytes).view();
  return bytes;
}

// An entry made by hand: of these parts, with a checksum that fits.
std::string entry_of(const std::string& metadata, const std::string& cubin_frame,
                     const std::string& ptx_frame = "") {
  std::string bytes = "JFAENTRY";
  const auto append = [&](std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  append(2, 4);
  append(metadata.size(), 4);
  append(cubin_frame.size(), 8);
  append(ptx_frame.size(), 8);
  return resealed(bytes + metadata + cubin_frame + ptx_frame + std::string(Digest::kBytes, '\0'));
}

std::string metadata_of(const std::string& request, const std::string& registers) {
  return R"({"request":")" + request + R"(","source_sha256":")" + sha256("s").hex() +
         R"(","source_bytes":1,"target":"sm_100f","options":[],"compiler":"c","name":"n","compile_ms":1.5,)" +
         R"("facts":{"f":{"registers":)" + registers +
         R"(,"spill_store_bytes":0,"spill_load_bytes":0,"static_shared_bytes":0,"stack_bytes":0}}})";
}

const std::string kSampleKey = request_key(RequestFields{sha256("s"), "sm_100f", {}}).hex();

}  // namespace

TEST_CASE("an entry is read back as it was written") {
  const Entry entry = sample_entry();
  const auto read = decode_entry(encode_entry(entry).value());
  REQUIRE(read.ok());
  CHECK(read->fields == entry.fields);
  CHECK(read->source_bytes == entry.source_bytes);
  CHECK(read->image.name == entry.image.name);
  CHECK(read->image.target == entry.image.target);
  CHECK(read->image.compiler == entry.image.compiler);
  CHECK(read->image.compile_ms == entry.image.compile_ms);
  CHECK(read->image.cubin == entry.image.cubin);
  CHECK(read->image.ptx == entry.image.ptx);
  REQUIRE(read->image.facts.size() == 1);
  CHECK(read->image.facts.at("forward").registers == 168);
  CHECK(read->image.facts.at("forward").static_shared_bytes == 1024);
  CHECK(read->image.facts.at("forward").stack_bytes == 16);
}

TEST_CASE("equal entries are equal bytes, and what is not compressed is the same from release to release") {
  CHECK(sample_bytes() == sample_bytes());
  // Of the header all but what the version of libzstd decides, and the metadata. If this fails the format has
  // changed: raise its version, then the expectation.
  const std::string bytes = sample_bytes();
  const std::string ours = bytes.substr(0, 16) + bytes.substr(32, bytes.find("\x28\xb5\x2f\xfd") - 32);
  CHECK(sha256(ours).hex() == "c7595dad6590d2d6d6271229643d36d4cf50696b8f75187a276d4a210e646588");
}

TEST_CASE("an entry of another version of libzstd is read, with a cubin, with PTX, with both") {
  const std::string metadata = metadata_of(kSampleKey, "8");
  const auto both = decode_entry(entry_of(metadata, raw_frame("cubin"), raw_frame("PTX")));
  REQUIRE(both.ok());
  CHECK(both->image.cubin == "cubin");
  CHECK(both->image.ptx == "PTX");
  CHECK(decode_entry(entry_of(metadata, raw_frame("cubin")))->image.ptx.empty());
  const auto ptx = decode_entry(entry_of(metadata, "", raw_frame("PTX")));
  REQUIRE(ptx.ok());
  CHECK(ptx->image.cubin.empty());
  CHECK(decode_entry(encode_entry(*ptx).value())->image.ptx == "PTX");
}

TEST_CASE("an image without code, one that is too large, and text that is not UTF-8 are not written") {
  Entry entry = sample_entry();
  entry.image.cubin.clear();
  CHECK(encode_entry(entry).ok());
  entry.image.ptx.clear();
  CHECK(encode_entry(entry).status().message() == "image 'forward-test': it has neither cubin nor PTX");
  entry.image.ptx.resize(kMaxContentBytes + 1);
  CHECK(encode_entry(entry).status().kind() == ErrorKind::kInvalidArgument);
  entry = sample_entry();
  entry.fields.options.push_back("\xff\xfe");
  CHECK(encode_entry(entry).status().kind() == ErrorKind::kInvalidArgument);
}

TEST_CASE("every flipped bit of a 2 KB entry is found") {
  const std::string bytes = sample_bytes(2048 - sample_bytes().size());
  REQUIRE(bytes.size() > 2000);
  REQUIRE(bytes.size() < 2100);
  REQUIRE(decode_entry(bytes).ok());
  std::size_t served = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit)
    served += decode_entry(flipped(bytes, bit)).ok() ? 1 : 0;
  CHECK(served == 0);
  count_faults("bits of a 2 KB entry flipped", 8 * bytes.size());
}

TEST_CASE("every header bit and 10,000 random bits of an entry of real size are found") {
  const std::string bytes = sample_bytes(300'000);
  std::size_t served = 0;
  for (std::size_t bit = 0; bit < 8 * 32; ++bit) served += decode_entry(flipped(bytes, bit)).ok() ? 1 : 0;
  std::mt19937 random(7);
  for (int i = 0; i < 10'000; ++i)
    served += decode_entry(flipped(bytes, random() % (8 * bytes.size()))).ok() ? 1 : 0;
  CHECK(served == 0);
  count_faults("bits of a 300 KB entry flipped", 8 * 32 + 10'000);
}

TEST_CASE("an entry cut anywhere, or continued, is found") {
  const std::string bytes = sample_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_entry(bytes.substr(0, size)).ok());
  CHECK_FALSE(decode_entry(bytes + '\0').ok());
  CHECK_FALSE(decode_entry(bytes + bytes).ok());
  count_faults("entries truncated or continued", bytes.size() + 2);
}

TEST_CASE("an older or newer format is named, not read") {
  for (const char version : {'\0', '\1', '\3', '\x7f'}) {
    std::string bytes = sample_bytes();
    bytes[8] = version;
    const auto read = decode_entry(resealed(bytes));
    REQUIRE_FALSE(read.ok());
    CHECK(read.status().message().find("format version " + std::to_string(version)) != std::string::npos);
  }
  count_faults("older and newer formats", 3);
}

TEST_CASE("metadata that a sound writer would not write is refused even with a right checksum") {
  const auto with_metadata = [](const std::string& text) { return entry_of(text, raw_frame("cubin")); };
  REQUIRE(decode_entry(with_metadata(metadata_of(kSampleKey, "8"))).ok());
  CHECK_FALSE(decode_entry(with_metadata(metadata_of(sha256("other").hex(), "8"))).ok());
  for (const char* registers :
       {"-1", "1e300", "1.5", "99999999999", "\"8\"", "null", "[]", "18446744073709551615"}) {
    CHECK_FALSE(decode_entry(with_metadata(metadata_of(kSampleKey, registers))).ok());
  }
  for (const char* text : {"", "{}", "[]", "null", "{", "\"text\"", "{\"request\":1}"}) {
    CHECK_FALSE(decode_entry(with_metadata(text)).ok());
  }
  CHECK_FALSE(decode_entry(with_metadata(std::string(100'000, '['))).ok());
  count_faults("unsound metadata under a right checksum", 17);
}

TEST_CASE("compressed data that a sound writer would not write is refused even with a right checksum") {
  const std::string metadata = metadata_of(kSampleKey, "8");
  const std::string frame = raw_frame("cubin");
  const auto complaint = [&](const std::string& cubin_frame, const std::string& ptx_frame = "") {
    return decode_entry(entry_of(metadata, cubin_frame, ptx_frame)).status().message();
  };
  CHECK(complaint(frame).empty());
  CHECK(complaint("") == "it has neither cubin nor PTX");
  CHECK(complaint(raw_frame("")) == "it has neither cubin nor PTX");
  CHECK(complaint("cubin") == "cubin: no Zstandard frame");
  CHECK(complaint("", "text") == "PTX: no Zstandard frame");
  std::uint64_t faults = 6;
  for (std::size_t size = 1; size < frame.size(); ++size, ++faults)
    CHECK_FALSE(complaint(frame.substr(0, size)).empty());
  // More than it says, less than it says, and a second frame behind the first.
  CHECK(complaint(raw_frame("cubi") + "n").starts_with("cubin: "));
  for (const char size : {'\4', '\6'})
    CHECK(complaint(std::string(frame).replace(5, 1, 1, size)).starts_with("cubin: "));
  CHECK(complaint(frame + frame).starts_with("cubin: "));
  // Gigabytes from a handful of bytes: refused by the frame's own header, before any memory is asked for.
  std::string bomb = std::string("\x28\xb5\x2f\xfd\xe0", 5) + std::string("\0\0\0\0\0\1\0\0", 8);
  CHECK(complaint(bomb + std::string("\3\0\0\0", 4)) ==
        "cubin: a frame of 1099511627776 bytes, more than an entry may hold");
  // One that does not say: no single segment, a window instead.
  CHECK(complaint(std::string("\x28\xb5\x2f\xfd\0\x58\x29\0\0cubin", 14)) ==
        "cubin: a frame that does not say its size");
  count_faults("unsound frames under a right checksum", faults + 6);
}

TEST_CASE("sizes in the header that would overflow are refused") {
  for (const std::size_t field : {12u, 16u, 24u}) {
    std::string bytes = sample_bytes();
    for (std::size_t i = field; i < field + (field == 12 ? 4 : 8); ++i) bytes[i] = '\xff';
    CHECK_FALSE(decode_entry(resealed(bytes)).ok());
  }
}

TEST_CASE("a peek needs the metadata only") {
  const std::string bytes = sample_bytes(100'000);
  const auto peeked = peek_entry(std::string_view(bytes).substr(0, 4096));
  REQUIRE(peeked.ok());
  CHECK(peeked->image.name == "forward-test");
  CHECK(peeked->image.cubin.empty());
  CHECK_FALSE(peek_entry(std::string_view(bytes).substr(0, 100)).ok());
}

TEST_CASE("an entry says which jfa wrote it, where that is known, and no key depends on it") {
  Entry entry = sample_entry();
  CHECK(decode_entry(encode_entry(entry).value()).value().written_by.empty());
  entry.written_by = "0.1.0 (4f6269a0ba1c)";
  const std::string bytes = encode_entry(entry).value();
  CHECK(decode_entry(bytes).value().written_by == entry.written_by);
  CHECK(peek_entry(bytes).value().written_by == entry.written_by);
  CHECK(request_key(decode_entry(bytes)->fields) == request_key(sample_entry().fields));
}
