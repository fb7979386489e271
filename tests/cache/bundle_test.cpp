// Bundles: relocatable, deterministic, and never wrong.
#include "cache/bundle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

std::vector<CompileRequest> some_requests(int count, int from = 0) {
  std::vector<CompileRequest> requests;
  for (int i = from; i < from + count; ++i) requests.push_back(make_request("kernel " + std::to_string(i)));
  return requests;
}

Status write_bundle(const std::string& path, const std::vector<CompileRequest>& requests,
                    const std::string& compiler = kCompiler, double compile_ms = 1,
                    std::size_t padding_bytes = 0) {
  std::map<Digest, CompileRequest> sorted;
  for (const CompileRequest& request : requests) sorted[request_key(request)] = request;
  return write_bundle_with(path, [&](BundleWriter& writer) {
    for (const auto& [key, request] : sorted) {
      Entry entry{fields_of(request), request.source.size(), make_image(request, compiler, padding_bytes)};
      entry.image.compile_ms = compile_ms;
      if (const Status status = writer.add(entry); !status.ok()) return status;
    }
    return Status();
  });
}

// Merges into nowhere.
Status merged(const std::vector<std::shared_ptr<const Bundle>>& bundles) {
  BundleWriter writer([](std::string_view) { return Status(); });
  return merge_bundles(bundles, writer);
}

std::shared_ptr<const Bundle> open_bundle(const std::string& path) {
  return Bundle::open(posix_file_system(), path).value();
}

// Whether anything but the images that were put in comes out; absent and refused are fine.
bool serves_wrongly(const std::string& path, const std::vector<CompileRequest>& requests) {
  const auto bundle = Bundle::open(posix_file_system(), path);
  if (!bundle.ok()) return false;
  for (const CompileRequest& request : requests) {
    const Lookup lookup = (*bundle)->find(request_key(request));
    if (lookup.image != nullptr &&
        (!made_from(*lookup.image, request) || lookup.image->compiler != kCompiler))
      return true;
  }
  return false;
}

// Whether every entry comes out as if nothing had happened.
bool unharmed(const std::string& path, const std::vector<CompileRequest>& requests) {
  const auto bundle = Bundle::open(posix_file_system(), path);
  if (!bundle.ok() || (*bundle)->rows().size() != requests.size()) return false;
  for (const CompileRequest& request : requests) {
    if ((*bundle)->find(request_key(request)).image == nullptr) return false;
  }
  return verify(**bundle).empty();
}

}  // namespace

TEST_CASE("a bundle serves what was put in, and nothing else") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(20);
  REQUIRE(write_bundle(directory / "a.jfab", requests).ok());
  const auto bundle = open_bundle(directory / "a.jfab");
  CHECK(bundle->rows().size() == 20);
  CHECK(verify(*bundle).empty());
  for (const CompileRequest& request : requests) {
    const Lookup lookup = bundle->find(request_key(request));
    REQUIRE(lookup.image != nullptr);
    CHECK(made_from(*lookup.image, request));
    CHECK(lookup.image->facts.at("forward").registers == 168);
    CHECK(lookup.where == directory / "a.jfab");
  }
  CHECK(bundle->find(request_key(make_request("absent"))).image == nullptr);
  CHECK(bundle->find(Digest{}).image == nullptr);
}

TEST_CASE("an empty bundle is a bundle") {
  const TemporaryDirectory directory;
  REQUIRE(write_bundle(directory / "empty.jfab", {}).ok());
  CHECK(open_bundle(directory / "empty.jfab")->rows().empty());
}

TEST_CASE(
    "the same kernels by the same compiler are the same bytes, whatever the time, the place and the order") {
  const TemporaryDirectory one;
  const TemporaryDirectory two;
  auto requests = some_requests(10);
  REQUIRE(write_bundle(one / "a.jfab", requests, kCompiler, 17.25).ok());
  std::reverse(requests.begin(), requests.end());
  REQUIRE(write_bundle(two / "b.jfab", requests, kCompiler, 3.5).ok());
  CHECK(read_bytes(one / "a.jfab") == read_bytes(two / "b.jfab"));
}

TEST_CASE("a bundle that was moved serves a machine without a compiler: zero compiles") {
  const TemporaryDirectory built;
  const TemporaryDirectory target;
  const auto requests = some_requests(8);
  REQUIRE(write_bundle(built / "kernels.jfab", requests).ok());
  fs::copy_file(built / "kernels.jfab", target / "other name.jfab");
  CacheOptions options = quiet_options("");
  options.compiler.clear();
  options.compile = CompilePolicy::kNever;
  options.bundles = {target / "other name.jfab"};
  KernelCache cache(options);
  for (const CompileRequest& request : requests) CHECK(cache.get_or_compile(request, kMustNotCompile).ok());
  CHECK(cache.stats().bundle_hits == 8);
  CHECK(cache.stats().compiles == 0);
}

TEST_CASE("shards merge into the bundle that one run would have made") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(30);
  REQUIRE(write_bundle(directory / "whole.jfab", requests).ok());
  std::vector<std::shared_ptr<const Bundle>> shards;
  std::size_t smallest = requests.size();
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    std::vector<CompileRequest> own;
    for (const CompileRequest& request : requests) {
      if (shard_of(request_key(request), 3) == shard) own.push_back(request);
    }
    smallest = std::min(smallest, own.size());
    const std::string path = directory / ("shard" + std::to_string(shard));
    REQUIRE(write_bundle(path, own).ok());
    shards.push_back(open_bundle(path));
  }
  CHECK(smallest >= 4);
  shards.push_back(shards[1]);  // given twice: no harm
  REQUIRE(write_bundle_with(directory / "merged.jfab", [&](BundleWriter& writer) {
            return merge_bundles(shards, writer);
          }).ok());
  CHECK(read_bytes(directory / "merged.jfab") == read_bytes(directory / "whole.jfab"));
}

TEST_CASE("merging: two compilers side by side, but not two images of one") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(3);
  REQUIRE(write_bundle(directory / "a", requests, "compiler a").ok());
  REQUIRE(write_bundle(directory / "b", requests, "compiler b").ok());
  REQUIRE(write_bundle(directory / "c", requests, "compiler a", 1, 7).ok());
  REQUIRE(write_bundle_with(directory / "ab", [&](BundleWriter& writer) {
            return merge_bundles({open_bundle(directory / "a"), open_bundle(directory / "b")}, writer);
          }).ok());
  const auto both = open_bundle(directory / "ab");
  CHECK(both->rows().size() == 6);
  CHECK(verify(*both).empty());
  CHECK(both->find(request_key(requests[0])).image != nullptr);

  const Status status = merged({open_bundle(directory / "a"), open_bundle(directory / "c")});
  CHECK(status.kind() == ErrorKind::kInvalidArgument);
  CHECK(status.message().find("different images for request") != std::string::npos);
}

TEST_CASE("merging: one kernel that two versions of libzstd compressed is one kernel") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  REQUIRE(write_bundle(directory / "ours", {request}).ok());
  const auto ours = open_bundle(directory / "ours");
  const Entry entry = decode_entry(ours->read(ours->rows()[0]).value()).value();
  // The same entry with its PTX as it is.
  std::string bytes = ours->read(ours->rows()[0]).value();
  const std::size_t ptx = bytes.rfind("\x28\xb5\x2f\xfd");
  const std::string frame = raw_frame(entry.image.ptx);
  REQUIRE(frame != bytes.substr(ptx, bytes.size() - Digest::kBytes - ptx));
  bytes.resize(ptx);
  bytes += frame;
  bytes[24] = static_cast<char>(frame.size());
  bytes += sha256(bytes).view();
  BundleRow row = ours->rows()[0];
  row.bytes = bytes.size();
  row.checksum = entry_checksum(bytes);
  REQUIRE(write_bundle_with(directory / "theirs", [&](BundleWriter& writer) {
            return writer.add(row, bytes);
          }).ok());
  const auto theirs = open_bundle(directory / "theirs");
  REQUIRE(verify(*theirs).empty());
  for (const auto& both : {std::vector{ours, theirs}, {theirs, ours}}) {
    REQUIRE(write_bundle_with(directory / "both", [&](BundleWriter& writer) {
              return merge_bundles(both, writer);
            }).ok());
    CHECK(read_bytes(directory / "both") == read_bytes(both[0]->path()));
  }
}

TEST_CASE("an append that fails ends the writing, with its error") {
  const CompileRequest request = make_request("kernel");
  for (int appends = 0;; ++appends) {
    int left = appends;
    BundleWriter writer([&](std::string_view) {
      return left-- > 0 ? Status() : Status::unavailable("No space left on device");
    });
    Status status = writer.add({fields_of(request), request.source.size(), make_image(request)});
    if (status.ok()) status = writer.finish();
    if (status.ok()) {
      CHECK(appends == 3);  // header, entry, index
      break;
    }
    CHECK(status.message() == "No space left on device");
  }
}

TEST_CASE("entries out of order or twice are refused") {
  std::map<Digest, CompileRequest> sorted;
  for (const CompileRequest& request : some_requests(2)) sorted[request_key(request)] = request;
  const CompileRequest first = sorted.begin()->second;
  const CompileRequest second = sorted.rbegin()->second;
  BundleWriter writer([](std::string_view) { return Status(); });
  REQUIRE(writer.add({fields_of(second), 1, make_image(second)}).ok());
  CHECK(writer.add({fields_of(first), 1, make_image(first)}).kind() == ErrorKind::kInvalidArgument);
  CHECK(writer.add({fields_of(second), 1, make_image(second)}).kind() == ErrorKind::kInvalidArgument);
}

TEST_CASE("every flipped bit of a 2 KB bundle: nothing wrong is served, and verify finds it") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(2);
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, requests, kCompiler, 1, 280).ok());
  const std::string bytes = read_bytes(path);
  REQUIRE(bytes.size() > 1900);
  REQUIRE(bytes.size() < 2200);
  REQUIRE(unharmed(path, requests));
  int wrong = 0;
  int unnoticed = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    write_bytes(path, flipped(bytes, bit));
    wrong += serves_wrongly(path, requests) ? 1 : 0;
    unnoticed += unharmed(path, requests) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(unnoticed == 0);
  count_faults("bits of a 2 KB bundle flipped", 8 * bytes.size());
}

TEST_CASE("every header, index and footer bit and 2,000 random bits of a bundle of real size") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(3);
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, requests, kCompiler, 1, 50'000).ok());
  const std::string bytes = read_bytes(path);
  const std::size_t index = bytes.size() - 64 - 112 * requests.size();
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < 8 * 16; ++bit) bits.push_back(bit);
  for (std::size_t bit = 8 * index; bit < 8 * bytes.size(); ++bit) bits.push_back(bit);
  std::mt19937 random(3);
  for (int i = 0; i < 2'000; ++i) bits.push_back(random() % (8 * bytes.size()));
  // In place: the whole file a flip would be gigabytes.
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  REQUIRE(file != nullptr);
  std::setbuf(file, nullptr);
  const auto put = [&](std::size_t offset, char byte) {
    std::fseek(file, static_cast<long>(offset), SEEK_SET);
    std::fputc(byte, file);
  };
  int wrong = 0;
  int unnoticed = 0;
  for (const std::size_t bit : bits) {
    const std::size_t offset = bit / 8;
    put(offset, static_cast<char>(bytes[offset] ^ (1 << (bit % 8))));
    const auto bundle = Bundle::open(posix_file_system(), path);
    if (bundle.ok()) {
      int missing = 0;
      for (const CompileRequest& request : requests) {
        const Lookup lookup = (*bundle)->find(request_key(request));
        if (lookup.image == nullptr)
          ++missing;
        else if (!made_from(*lookup.image, request))
          ++wrong;
      }
      unnoticed += missing == 0 ? 1 : 0;
    }
    put(offset, bytes[offset]);
  }
  std::fclose(file);
  CHECK(wrong == 0);
  CHECK(unnoticed == 0);
  CHECK(unharmed(path, requests));
  count_faults("bits of a bundle of real size flipped", bits.size());
}

TEST_CASE("a bundle cut anywhere, or continued, is refused as a whole") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(2);
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, requests).ok());
  const std::string bytes = read_bytes(path);
  int opened = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path, bytes.substr(0, size));
    opened += Bundle::open(posix_file_system(), path).ok() ? 1 : 0;
  }
  write_bytes(path, bytes + '\0');
  opened += Bundle::open(posix_file_system(), path).ok() ? 1 : 0;
  write_bytes(path, bytes + bytes);
  opened += Bundle::open(posix_file_system(), path).ok() ? 1 : 0;
  CHECK(opened == 0);
  count_faults("bundles truncated or continued", bytes.size() + 2);
}

TEST_CASE("what is wrong with a bundle is said in words") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, some_requests(1)).ok());
  const std::string bytes = read_bytes(path);
  const auto complaint = [&](const std::string& changed) {
    write_bytes(path, changed);
    return Bundle::open(posix_file_system(), path).status().message();
  };
  std::string newer = bytes;
  newer[8] = 3;
  CHECK(complaint(newer) == "bundle " + path + ": format version 3, this library reads 2");
  CHECK(complaint("short") == "bundle " + path + ": too short for a bundle");
  CHECK(complaint(bytes.substr(0, bytes.size() - 1)).find("truncated") != std::string::npos);
  CHECK(complaint(std::string(200, 'x')).find("wrong magic") != std::string::npos);
  CHECK(complaint(flipped(bytes, 8 * (bytes.size() - 80))).find("checksum of the index") !=
        std::string::npos);
}

TEST_CASE("a bundle replaced while it is open goes on serving the old one") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(3);
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, requests).ok());
  const auto bundle = open_bundle(path);
  REQUIRE(write_bundle(path + ".new", some_requests(5, 100)).ok());
  fs::rename(path + ".new", path);
  for (const CompileRequest& request : requests) CHECK(bundle->find(request_key(request)).image != nullptr);
}

TEST_CASE("a damaged entry of a bundle is reported, counted, and compiled") {
  const TemporaryDirectory directory;
  const auto requests = some_requests(1);
  const std::string path = directory / "a.jfab";
  REQUIRE(write_bundle(path, requests).ok());
  write_bytes(path, flipped(read_bytes(path), 8 * 300));
  CacheOptions options = quiet_options("");
  options.bundles = {path};
  std::vector<std::string> damage;
  options.on_event = [&](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kDamage) damage.push_back(event.detail);
  };
  KernelCache cache(options);
  std::atomic<int> compiles{0};
  CHECK(made_from(*cache.get_or_compile(requests[0], counting(requests[0], compiles)).value(), requests[0]));
  CHECK(compiles == 1);
  CHECK(cache.stats().damaged == 1);
  CHECK(damage == std::vector<std::string>{"the checksum is wrong"});
}
