// The walk of a request: memory, directory, read-only places, compiler.
#include "cache/kernel_cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

TEST_CASE("compile once, then memory, then another cache finds it on disk") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  std::atomic<int> compiles{0};
  {
    KernelCache cache(quiet_options(directory.path()));
    const auto first = cache.get_or_compile(request, counting(request, compiles));
    REQUIRE(first.ok());
    CHECK(made_from(**first, request));
    CHECK(cache.get_or_compile(request, counting(request, compiles)).value() == *first);
    CHECK(cache.stats().memory_hits == 1);
    CHECK(cache.stats().misses == 1);
    CHECK(cache.stats().published == 1);
  }
  KernelCache other(quiet_options(directory.path()));
  const auto second = other.get_or_compile(request, counting(request, compiles));
  REQUIRE(second.ok());
  CHECK(made_from(**second, request));
  CHECK(compiles == 1);
  CHECK(other.stats().directory_hits == 1);
  CHECK(other.stats().compiles == 0);
}

TEST_CASE("the directory is 0700, entries 0600, and nothing is left behind") {
  const TemporaryDirectory parent;
  const std::string directory = parent / "a/b/jfa";
  const mode_t old_mask = ::umask(0);
  fill(directory, make_request("kernel"));
  ::umask(old_mask);
  for (const char* name : {"", "/v2", "/locks", "/tmp", "/damaged"}) {
    struct stat status;
    REQUIRE(::stat((directory + name).c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0700);
  }
  struct stat status;
  REQUIRE(::stat(only_entry(directory).c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(files_below(directory + "/tmp").empty());
  CHECK(files_below(directory + "/locks").empty());
  CHECK(files_below(directory + "/damaged").empty());
}

TEST_CASE("32 threads that ask for one key share one compilation and one image") {
  const TemporaryDirectory directory;
  KernelCache cache(quiet_options(directory.path()));
  const CompileRequest request = make_request("kernel");
  std::atomic<int> compiles{0};
  std::vector<SharedImage> images(32);
  std::vector<std::thread> threads;
  for (SharedImage& image : images) {
    threads.emplace_back([&] {
      image = cache
                  .get_or_compile(request,
                                  [&]() -> Result<KernelImage> {
                                    ++compiles;
                                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                    return make_image(request);
                                  })
                  .value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(compiles == 1);
  for (const SharedImage& image : images) CHECK(image == images[0]);
  CHECK(cache.stats().shared + cache.stats().memory_hits == 31);
}

TEST_CASE("different keys compile at the same time") {
  KernelCache cache(quiet_options(""));
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const CompileRequest request = make_request("kernel " + std::to_string(i));
      CHECK(cache
                .get_or_compile(request,
                                [&]() -> Result<KernelImage> {
                                  ++inside;
                                  for (int wait = 0; wait < 5000 && inside < 4; ++wait) {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                  }
                                  if (inside == 4) met = true;
                                  return make_image(request);
                                })
                .ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(met);
}

TEST_CASE(
    "bug-pool 74: a failed compilation is reported to that call, stored nowhere and tried again [cpu]") {
  const TemporaryDirectory directory;
  KernelCache cache(quiet_options(directory.path()));
  const CompileRequest request = make_request("kernel");
  const auto failure = cache.get_or_compile(
      request, []() -> Result<KernelImage> { return Status(ErrorKind::kCompile, "error: no", "the log"); });
  CHECK(failure.status().kind() == ErrorKind::kCompile);
  CHECK(failure.status().message() == "error: no");
  CHECK(failure.status().detail() == "the log");

  SUBCASE("an empty output is a failure") {
    const auto empty = cache.get_or_compile(request, [&]() -> Result<KernelImage> {
      KernelImage image = make_image(request);
      image.cubin.clear();
      image.ptx.clear();
      return image;
    });
    CHECK(empty.status().kind() == ErrorKind::kCompile);
  }
  SUBCASE("so is an exception") {
    const auto thrown = cache.get_or_compile(
        request, []() -> Result<KernelImage> { throw std::runtime_error("out of disk"); });
    CHECK(thrown.status().kind() == ErrorKind::kInternal);
    CHECK(thrown.status().message().find("out of disk") != std::string::npos);
  }
  SUBCASE("and an image for another target") {
    const auto other = cache.get_or_compile(request, [&]() -> Result<KernelImage> {
      KernelImage image = make_image(request);
      image.target = "sm_90a";
      return image;
    });
    CHECK(other.status().message().find("'sm_90a' instead of 'sm_100f'") != std::string::npos);
  }
  CHECK(files_below(directory / "v2").empty());
  std::atomic<int> compiles{0};
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(compiles == 1);
}

TEST_CASE("threads that waited for a failing compilation get its error, and the key stays usable") {
  KernelCache cache(quiet_options(""));
  const CompileRequest request = make_request("kernel");
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto result = cache.get_or_compile(request, []() -> Result<KernelImage> {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        throw std::runtime_error("no");
      });
      failures += result.ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 8);
  std::atomic<int> compiles{0};
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
}

TEST_CASE("a compilation that asks for its own key is an error, not a deadlock") {
  KernelCache cache(quiet_options(""));
  const CompileRequest request = make_request("kernel");
  const auto result = cache.get_or_compile(request, [&]() -> Result<KernelImage> {
    const auto inner = cache.get_or_compile(request, kMustNotCompile);
    if (!inner.ok()) return inner.status();
    return **inner;
  });
  CHECK(result.status().kind() == ErrorKind::kInternal);
  CHECK(result.status().message().find("asks the cache for itself") != std::string::npos);
}

TEST_CASE("lookup order: directory, read-only directories in order, bundles in order") {
  const TemporaryDirectory parent;
  const CompileRequest in_all = make_request("in all");
  const CompileRequest in_second = make_request("in the second directory and the bundles");
  const CompileRequest in_last = make_request("in the last bundle");
  for (const auto& request : {in_all}) fill(parent / "own", request);
  fill(parent / "first", in_all, "first");
  fill(parent / "second", in_all, "second");
  fill(parent / "second", in_second, "second");
  fill_bundle(parent / "one.jfab", {in_all, in_second}, "one");
  fill_bundle(parent / "two.jfab", {in_all, in_second, in_last}, "two");
  CacheOptions options = quiet_options(parent / "own");
  options.read_only_directories = {parent / "first", parent / "second"};
  options.bundles = {parent / "one.jfab", parent / "two.jfab"};
  KernelCache cache(options);
  CHECK(cache.get_or_compile(in_all, kMustNotCompile).value()->compiler == kCompiler);
  CHECK(cache.get_or_compile(in_second, kMustNotCompile).value()->compiler == "second");
  CHECK(cache.get_or_compile(in_last, kMustNotCompile).value()->compiler == "two");
  CHECK(cache.stats().directory_hits == 1);
  CHECK(cache.stats().read_only_hits == 1);
  CHECK(cache.stats().bundle_hits == 1);
  CHECK(cache.stats().compiles == 0);

  options.directory = parent / "empty";
  KernelCache without_own(options);
  CHECK(without_own.get_or_compile(in_all, kMustNotCompile).value()->compiler == "first");
}

TEST_CASE("bug-pool 68: another compiler misses, both entries stay, and going back hits [cpu]") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request, "build-id:x");
  CacheOptions options = quiet_options(directory.path());
  options.compiler = "build-id:y";
  {
    KernelCache cache(options);
    CHECK(cache.find(request) == nullptr);
    CHECK(cache.get_or_compile(request, [&] { return make_image(request, "build-id:y"); }).ok());
    CHECK(cache.stats().compiles == 1);
  }
  CHECK(files_below(directory / "v2").size() == 2);
  options.compiler = "build-id:x";
  KernelCache back(options);
  CHECK(back.get_or_compile(request, kMustNotCompile).value()->compiler == "build-id:x");
}

TEST_CASE("without a compiler at hand the directory serves what any compiler made") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request, "build-id:x");
  CacheOptions options = quiet_options(directory.path());
  options.compiler.clear();
  CHECK(KernelCache(options).get_or_compile(request, kMustNotCompile).value()->compiler == "build-id:x");
}

TEST_CASE("bug-pool 67: one source for two targets is two entries, each served for its own [cpu]") {
  const TemporaryDirectory directory;
  CompileRequest first = make_request("kernel");
  CompileRequest second = first;
  second.target = "sm_103a";
  fill(directory.path(), first);
  fill(directory.path(), second);
  CHECK(files_below(directory / "v2").size() == 2);
  KernelCache cache(quiet_options(directory.path()));
  CHECK(cache.get_or_compile(first, kMustNotCompile).value()->target == "sm_100f");
  CHECK(cache.get_or_compile(second, kMustNotCompile).value()->target == "sm_103a");
}

TEST_CASE("bug-pool 78: equal names with different sources are different kernels [cpu]") {
  const TemporaryDirectory directory;
  KernelCache cache(quiet_options(directory.path()));
  std::atomic<int> compiles{0};
  for (const char* source : {"constexpr int kWindow = 4;", "constexpr int kWindow = 5;"}) {
    const CompileRequest request = make_request(source, "the same name");
    CHECK(made_from(*cache.get_or_compile(request, counting(request, compiles)).value(), request));
  }
  CHECK(compiles == 2);
}

TEST_CASE("bug-pool 79: what another generator emitted under the same name is not served [cpu]") {
  const TemporaryDirectory directory;
  fill(directory.path(), make_request("output *= 2;", "forward-bf16-d128"));
  KernelCache cache(quiet_options(directory.path()));
  const CompileRequest request = make_request("output *= 1;", "forward-bf16-d128");
  std::atomic<int> compiles{0};
  CHECK(made_from(*cache.get_or_compile(request, counting(request, compiles)).value(), request));
  CHECK(compiles == 1);
}

TEST_CASE("bug-pool 86: what a second process restores is what the first one made, bit for bit [cpu]") {
  const TemporaryDirectory directory;
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(make_request("shape " + std::to_string(i)));
  for (const CompileRequest& request : requests) fill(directory.path(), request);
  const pid_t second = start_process([&] {
    KernelCache cache(quiet_options(directory.path()));
    for (const CompileRequest& request : requests) {
      const SharedImage image = cache.find(request);
      const KernelImage expected = make_image(request);
      if (image == nullptr || image->cubin != expected.cubin || image->ptx != expected.ptx ||
          image->facts.at("forward").registers != expected.facts.at("forward").registers) {
        return 1;
      }
    }
    return 0;
  });
  CHECK(wait_for(second) == 0);
}

TEST_CASE("JFA_COMPILE=never: a miss names the configuration, the command and why it missed") {
  const TemporaryDirectory directory;
  fill(directory.path(), make_request("older source", "forward-bf16-d64"));
  CacheOptions options = quiet_options(directory.path());
  options.compile = CompilePolicy::kNever;
  KernelCache cache(options);
  CHECK(cache.get_or_compile(make_request("older source", "forward-bf16-d64"), kMustNotCompile).ok());

  const auto miss = cache.get_or_compile(make_request("newer source", "forward-bf16-d64"), kMustNotCompile);
  CHECK(miss.status().kind() == ErrorKind::kUnavailable);
  CHECK(miss.status().message().find("'forward-bf16-d64'") != std::string::npos);
  CHECK(miss.status().message().find("jfa precompile --name forward-bf16-d64") != std::string::npos);
  CHECK(miss.status().detail().find("differs in source_sha256") != std::string::npos);
  CHECK(cache.stats().compiles == 0);
  CHECK(cache.stats().misses == 1);
}

TEST_CASE("why: places, and how the entries of the same name differ") {
  const TemporaryDirectory directory;
  CompileRequest stored = make_request("kernel");
  fill(directory.path(), stored);
  KernelCache cache(quiet_options(directory.path()));
  CHECK(cache.why(stored)[1].find("found, made by build-id:0123abcd") != std::string::npos);
  CompileRequest asked = stored;
  asked.options.push_back("-G");
  const auto lines = cache.why(asked);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "memory: not there");
  CHECK(lines[1] == directory.path() + ": not there");
  CHECK(lines[2].find("differs in option[2]: (absent) -> -G") != std::string::npos);
}

TEST_CASE("a compilation over the limit is logged while it runs and when it ends") {
  const TemporaryDirectory directory;
  std::mutex mutex;
  std::vector<std::string> lines;
  CacheOptions options = quiet_options(directory.path());
  options.slow_compile_ms = 20;
  options.log.write = [&](LogLevel, const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  KernelCache cache(options);
  const CompileRequest slow = make_request("slow", "forward-slow");
  CHECK(cache
            .get_or_compile(slow,
                            [&]() -> Result<KernelImage> {
                              for (int wait = 0; wait < 5000; ++wait) {
                                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                const std::lock_guard lock(mutex);
                                if (!lines.empty()) break;
                              }
                              return make_image(slow);
                            })
            .ok());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("still compiling forward-slow after 0.0 s"));
  CHECK(lines[1].starts_with("compiled forward-slow in "));
  CHECK(lines[1].ends_with("cached in " + directory.path()));
  lines.clear();
  options.slow_compile_ms = std::numeric_limits<std::int64_t>::max();  // never
  options.lock_wait_ms = std::numeric_limits<std::int64_t>::max();
  const CompileRequest quick = make_request("quick");
  KernelCache patient(options);
  CHECK(patient
            .get_or_compile(quick,
                            [&] {
                              std::this_thread::sleep_for(std::chrono::milliseconds(50));
                              return make_image(quick);
                            })
            .ok());
  CHECK(lines.empty());
}

TEST_CASE("events tell the whole story") {
  const TemporaryDirectory directory;
  std::vector<std::string> story;
  CacheOptions options = quiet_options(directory.path());
  options.on_event = [&](const CacheEvent& event) { story.push_back(to_string(event.kind)); };
  KernelCache cache(options);
  const CompileRequest request = make_request("kernel");
  std::atomic<int> compiles{0};
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
  write_bytes(only_entry(directory.path()), "damaged");
  KernelCache second(options);
  CHECK(second.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(story == std::vector<std::string>{"miss", "compile start", "compile end", "publish", "hit",  //
                                          "damage", "miss", "compile start", "compile end", "publish"});
}

TEST_CASE("prepare() compiles in the background, once, and a call joins it") {
  std::atomic<int> compiles{0};
  const TemporaryDirectory directory;
  {
    KernelCache cache(quiet_options(directory.path()));
    const CompileRequest request = make_request("kernel");
    for (int i = 0; i < 10; ++i) cache.prepare(request, counting(request, compiles));
    CHECK(made_from(*cache.get_or_compile(request, counting(request, compiles)).value(), request));
    for (int i = 0; i < 20; ++i) {
      const CompileRequest other = make_request("kernel " + std::to_string(i));
      cache.prepare(other, counting(other, compiles));
    }
  }
  CHECK(compiles == 21);
  CHECK(files_below(directory / "v2").size() == 21);
}

TEST_CASE("a discarded image is forgotten everywhere and made anew") {
  const TemporaryDirectory parent;
  const CompileRequest request = make_request("kernel");
  fill(parent / "own", request);
  fill_bundle(parent / "one.jfab", {request});
  CacheOptions options = quiet_options(parent / "own");
  options.bundles = {parent / "one.jfab"};
  KernelCache cache(options);
  const SharedImage refused = cache.get_or_compile(request, kMustNotCompile).value();
  cache.discard(request, *refused, "CUDA_ERROR_INVALID_IMAGE");
  CHECK(files_below(parent / "own/damaged").size() == 1);
  std::atomic<int> compiles{0};
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(compiles == 1);
  CHECK(files_below(parent / "own/v2").size() == 1);
}

TEST_CASE("a refused image does not hide another compiler's beside it") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request, "build-id:x");
  fill(directory.path(), request, "build-id:y", /*padding_bytes=*/10);  // refusals go by content
  CacheOptions options = quiet_options("");
  options.read_only_directories = {directory.path()};
  options.compiler.clear();
  KernelCache cache(options);
  const SharedImage refused = cache.get_or_compile(request, kMustNotCompile).value();
  cache.discard(request, *refused, "CUDA_ERROR_INVALID_IMAGE");
  const SharedImage other = cache.get_or_compile(request, kMustNotCompile).value();
  CHECK(other->compiler != refused->compiler);
}

TEST_CASE("images in memory are bounded, least recently used out first") {
  CacheOptions options = quiet_options("");
  options.memory_max_bytes = 100;  // about two images
  KernelCache cache(options);
  std::atomic<int> compiles{0};
  const auto get = [&](const char* source) {
    const CompileRequest request = make_request(source);
    CHECK(made_from(*cache.get_or_compile(request, counting(request, compiles)).value(), request));
  };
  get("a"), get("b"), get("a"), get("b");
  CHECK(compiles == 2);
  for (const char* source : {"c", "d", "e", "f"}) get(source);
  CHECK(compiles == 6);
  get("a");
  CHECK(compiles == 7);
  get("f");
  CHECK(compiles == 7);
}

TEST_CASE(
    "who wants records gets one of every step, and of a miss what stored kernels of the name differ in") {
  const TemporaryDirectory directory;
  std::vector<std::string> lines;
  std::string miss;
  CacheOptions options = quiet_options(directory.path());
  options.log.write = [&](LogLevel level, const std::string& line) {
    CHECK(level == LogLevel::kInfo);
    lines.push_back(line);
  };
  options.log.wants = [](LogLevel level) { return level <= LogLevel::kInfo; };
  options.on_event = [&](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kMiss) miss = event.detail;
  };
  const CompileRequest request = make_request("kernel");
  const auto get = [&] {
    KernelCache cache(options);
    CHECK(cache.get_or_compile(request, [&] { return make_image(request, options.compiler); }).ok());
    return cache.stats();
  };
  const CacheStats stats = get();
  const std::string kernel = ",forward-test," + request_key(request).hex().substr(0, 16) + ",";
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "jfa_verbose,1,cache,miss" + kernel + ",," + directory.path() + ": not there");
  CHECK(lines[1] == "jfa_verbose,1,cache,compile start" + kernel + ",,");
  CHECK(lines[2].starts_with("jfa_verbose,1,cache,compile end" + kernel));
  CHECK(lines[3] == "jfa_verbose,1,cache,publish" + kernel + "," + only_entry(directory.path()) + ",");
  CHECK(stats.published_bytes == fs::file_size(only_entry(directory.path())));

  lines.clear();
  get();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "jfa_verbose,1,cache,hit" + kernel + "," + only_entry(directory.path()) + ",");

  lines.clear();
  options.compiler = "build-id:new";
  get();
  REQUIRE(!lines.empty());
  CHECK(lines[0].find(" differs in compiler: " + kCompiler + " -> build-id:new") != std::string::npos);
  CHECK(miss.find(" differs in compiler: ") != std::string::npos);

  // Reasons cost a look at every entry: nobody pays for what nobody hears.
  options.compiler = "build-id:newer";
  options.log = {};
  get();
  CHECK(miss.empty());

  // Many kernels of one name, each with an option of its own.
  options = quiet_options(directory / "many");
  for (int i = 0; i < 20; ++i) {
    CompileRequest other = request;
    other.options.push_back("-DN=" + std::to_string(i));
    fill(directory / "many", other);
  }
  options.log = {[&](LogLevel, const std::string& line) { lines.push_back(line); },
                 [](LogLevel) { return true; }};
  lines.clear();
  get();
  REQUIRE(!lines.empty());
  CHECK(lines[0].ends_with("; and 5 more"));
}

TEST_CASE("an image by another compiler than expected is used, and stored under its own") {
  const TemporaryDirectory directory;
  std::vector<std::string> lines;
  CacheOptions options = quiet_options(directory.path());
  options.log.write = [&](LogLevel, const std::string& line) { lines.push_back(line); };
  const CompileRequest request = make_request("kernel");
  CHECK(
      KernelCache(options).get_or_compile(request, [&] { return make_image(request, "build-id:new"); }).ok());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("build-id:new although build-id:0123abcd was expected") != std::string::npos);
  CHECK(KernelCache(options).find(request) == nullptr);
  options.compiler = "build-id:new";
  CHECK(KernelCache(options).find(request) != nullptr);
}
