// What counts as use, and how exactly it is known when entries are evicted.
#include <doctest/doctest.h>

#include <filesystem>

#include "cache/entry_directory.h"
#include "cache/maintenance.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

// Counts how often a stamp is written.
std::shared_ptr<FaultyFileSystem> counting_stamps(int& stamps) {
  const auto files = std::make_shared<FaultyFileSystem>();
  files->before = [&stamps](Step step, const std::string& path) {
    stamps += step == Step::kSetModified && path.ends_with(".entry") ? 1 : 0;
    return std::error_code();
  };
  return files;
}

}  // namespace

TEST_CASE("trim evicts what was used ten minutes ago and keeps what was used just now") {
  const TemporaryDirectory directory;
  const CompileRequest used = make_request("used");
  const CompileRequest unused = make_request("unused");
  for (const CompileRequest& request : {used, unused}) {
    fill(directory.path(), request);
    set_age(stored_path(directory.path(), request), 600);
  }
  CHECK(KernelCache(quiet_options(directory.path())).find(used) != nullptr);
  CHECK(stamp_age_s(stored_path(directory.path(), used)) < 5);
  CHECK(stamp_age_s(stored_path(directory.path(), unused)) >= 600);
  EntryDirectory entries = open_directory(directory.path());
  CHECK(trim(entries, trim_policy(1)).evicted.size() == 1);
  CHECK(fs::exists(stored_path(directory.path(), used)));
  CHECK_FALSE(fs::exists(stored_path(directory.path(), unused)));
}

TEST_CASE("whatever the stamp before, an entry that was just used is a minute safe") {
  const CompileRequest request = make_request("kernel");
  for (const std::int64_t age : {0, 1, 9, 10, 11, 59, 60, 69, 70, 3599, 100'000}) {
    CAPTURE(age);
    const TemporaryDirectory directory;
    fill(directory.path(), request);
    const std::string path = stored_path(directory.path(), request);
    set_age(path, age);
    CHECK(KernelCache(quiet_options(directory.path())).find(request) != nullptr);
    CHECK(stamp_age_s(path) <= 11);
    set_age(path, stamp_age_s(path) + 58);  // 58 s later
    EntryDirectory entries = open_directory(directory.path());
    CHECK(trim(entries, trim_policy(1)).evicted.empty());
    set_age(path, stamp_age_s(path) + 13);
    CHECK(trim(entries, trim_policy(1)).evicted.size() == 1);
  }
}

TEST_CASE("an image served from memory is use of its entry") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  std::atomic<int> compiles{0};
  KernelCache cache(quiet_options(directory.path()));
  const std::string path = stored_path(directory.path(), request);
  REQUIRE(cache.get_or_compile(request, counting(request, compiles)).ok());
  set_age(path, 600);
  REQUIRE(cache.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(cache.stats().memory_hits == 1);
  CHECK(stamp_age_s(path) < 5);
  set_age(path, 600);
  CHECK(cache.find(request) != nullptr);
  CHECK(stamp_age_s(path) < 5);
}

TEST_CASE("stamps are written once in ten seconds, not once a use") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  set_age(stored_path(directory.path(), request), 600);
  int stamps = 0;
  const auto files = counting_stamps(stamps);
  for (int process = 0; process < 20; ++process) {
    KernelCache cache(quiet_options(directory.path(), files));
    for (int i = 0; i < 5; ++i) CHECK(cache.find(request) != nullptr);
  }
  CHECK(stamps >= 1);
  CHECK(stamps <= 3);  // this test may be held up for some seconds
}

TEST_CASE("a stamp in the future is mended by the next use") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  set_age(path, -86400);
  CHECK(KernelCache(quiet_options(directory.path())).find(request) != nullptr);
  CHECK(stamp_age_s(path) >= 0);
  CHECK(stamp_age_s(path) < 5);
}

TEST_CASE("neither a directory opened for reading nor a question changes a stamp") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  set_age(path, 7200);
  CacheOptions reading = quiet_options(directory.path());
  reading.write = false;
  KernelCache cache(reading);
  CHECK(cache.find(request) != nullptr);
  CHECK(cache.find(request) != nullptr);  // now from memory
  CacheOptions shared = quiet_options("");
  shared.read_only_directories = {directory.path()};
  CHECK(KernelCache(shared).find(request) != nullptr);
  CHECK(KernelCache(quiet_options(directory.path())).why(request).size() == 2);
  CHECK(stamp_age_s(path) >= 7200);
}

TEST_CASE("what is moved aside is kept for a week from then, sixteen files at most") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  write_bytes(path, "damaged");
  set_age(path, 30 * 86400);
  fill(directory.path(), make_request("another"));
  KernelCache cache(quiet_options(directory.path()));
  CHECK(cache.get_or_compile(request, [&] { return make_image(request); }).ok());
  EntryDirectory entries = open_directory(directory.path());
  trim(entries, trim_policy(0));
  const auto aside = files_below(directory / "damaged");
  REQUIRE(aside.size() == 1);
  set_age(aside.front(), 8 * 86400);
  CHECK(trim(entries, trim_policy(0)).swept == 1);

  for (int i = 0; i < 20; ++i) {
    write_bytes(path, "damaged");
    KernelCache again(quiet_options(directory.path()));
    CHECK(again.get_or_compile(request, [&] { return make_image(request); }).ok());
  }
  trim(entries, trim_policy(0));
  CHECK(files_below(directory / "damaged").size() == 16);
}
