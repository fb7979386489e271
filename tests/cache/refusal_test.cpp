// Images that the driver refuses: moved aside where we may write, passed over where we may not.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kWhy = "CUDA_ERROR_INVALID_PTX";

// A cache with every kind of place, whose images can be told from each other by their length.
struct Places {
  TemporaryDirectory parent;
  CompileRequest request = make_request("kernel");
  Watched watched{parent / "own"};
  std::atomic<int> compiles{0};

  Places() {
    fill(parent / "own", request, kCompiler, 1);
    fill(parent / "first", request, kCompiler, 2);
    fill(parent / "second", request, kCompiler, 3);
    fill_bundle(parent / "kernels.jfab", {request}, kCompiler, 4);
    watched.options.read_only_directories = {parent / "first", parent / "second"};
    watched.options.bundles = {parent / "kernels.jfab"};
  }
  bool came_from(const SharedImage& image, std::size_t place) const {
    return image->cubin == make_image(request, kCompiler, place).cubin;
  }
  int lines_about(const std::string& place) const {
    const std::string start = "cached kernel " + parent / place;
    const std::string end = std::string(" is not used: the driver refuses it: ") + kWhy;
    return static_cast<int>(std::ranges::count_if(watched.lines, [&](const std::string& line) {
      return line.starts_with(start) && line.ends_with(end);
    }));
  }
};

}  // namespace

TEST_CASE("refused images are passed over place by place, each with a line, until one is compiled") {
  Places places;
  KernelCache cache(places.watched.options);
  for (std::size_t place = 1; place <= 4; ++place) {
    CAPTURE(place);
    const SharedImage image = cache.get_or_compile(places.request, kMustNotCompile).value();
    CHECK(places.came_from(image, place));
    cache.discard(places.request, *image, kWhy);
    CHECK(cache.find(places.request) != image);
  }
  const SharedImage fresh =
      cache.get_or_compile(places.request, counting(places.request, places.compiles)).value();
  CHECK(places.came_from(fresh, 0));
  CHECK(places.compiles == 1);
  CHECK(files_below(places.parent / "own/damaged").size() == 1);
  CHECK(files_below(places.parent / "own/v2").size() == 1);
  for (const char* place : {"own/v2", "first/v2", "second/v2", "kernels.jfab"}) {
    CAPTURE(std::string(place));
    CHECK(places.lines_about(place) == 1);
  }
  CHECK(places.watched.lines.size() == 4);
  CHECK(cache.stats().damaged == 4);
  // Only this process's driver has refused them: another one starts afresh, with the entry made anew.
  CHECK(places.came_from(KernelCache(quiet_options(places.parent / "own")).find(places.request), 0));
}

TEST_CASE("a bundle that was packed from a refused entry is passed over with it") {
  Places places;
  fill_bundle(places.parent / "kernels.jfab", {places.request}, kCompiler, 1);
  fs::remove_all(places.parent / "first");
  fs::remove_all(places.parent / "second");
  places.watched.options.read_only_directories = {};
  KernelCache cache(places.watched.options);
  cache.discard(places.request, *cache.find(places.request), kWhy);
  CHECK(cache.find(places.request) == nullptr);
  CHECK(places.lines_about("own/v2") == 1);
  CHECK(places.lines_about("kernels.jfab") == 1);
}

TEST_CASE("a refused entry of a directory that is not written is passed over, and the call goes on") {
  Places places;
  places.watched.options.write = false;
  const auto before = files_below(places.parent / "own");
  KernelCache cache(places.watched.options);
  cache.discard(places.request, *cache.find(places.request), kWhy);
  CHECK(places.came_from(cache.get_or_compile(places.request, kMustNotCompile).value(), 2));
  CHECK(files_below(places.parent / "own") == before);
  CHECK(places.lines_about("own/v2") == 1);
}

TEST_CASE("a refused image that somebody has replaced on disk takes nothing else with it") {
  Places places;
  KernelCache cache(places.watched.options);
  const SharedImage refused = cache.find(places.request);
  fs::remove_all(places.parent / "own/v2");
  fill(places.parent / "own", places.request, kCompiler, 5);
  cache.discard(places.request, *refused, kWhy);
  CHECK(places.came_from(cache.find(places.request), 5));
  CHECK(files_below(places.parent / "own/damaged").empty());
}

TEST_CASE("JFA_COMPILE=never with nothing but refused images says so, place by place") {
  Places places;
  places.watched.options.compile = CompilePolicy::kNever;
  KernelCache cache(places.watched.options);
  while (const SharedImage image = cache.find(places.request)) cache.discard(places.request, *image, kWhy);
  const Status status = cache.get_or_compile(places.request, kMustNotCompile).status();
  CHECK(status.kind() == ErrorKind::kUnavailable);
  for (const char* place : {"first", "second", "kernels.jfab"})
    CHECK(status.detail().find(places.parent / place + ": not used: the driver refuses it") !=
          std::string::npos);
}
