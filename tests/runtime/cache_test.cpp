// The process's kernel cache through the public API: who watches it, and compiling ahead on a thread of the
// library.
#include "jfa/cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

TEST_CASE("A kernel prepared in the background is compiled once, and every step is told") {
  const auto directory = std::filesystem::temp_directory_path() / "jfa-runtime-cache-test";
  std::filesystem::remove_all(directory);
  REQUIRE(setenv("JFA_CACHE_DIR", directory.c_str(), 1) == 0);
  REQUIRE(setenv("JFA_CACHE", "on", 1) == 0);

  std::mutex mutex;
  std::vector<jfa::CacheEvent::Kind> story;
  REQUIRE(jfa::watch_cache([&](const jfa::CacheEvent& event) {
            const std::lock_guard lock(mutex);
            story.push_back(event.kind);
          }).ok());
  jfa::Device device = jfa::Device::open("sim:sm_100a").value();
  jfa::Configuration configuration;
  configuration.head_dim = 32;
  REQUIRE(jfa::prepare_in_background(device, configuration).ok());
  REQUIRE(jfa::prepare(device, configuration).ok());

  const jfa::CacheStats stats = jfa::cache_stats().value();
  CHECK(stats.compiles == 1);
  CHECK(stats.published == 1);
  CHECK(stats.shared + stats.memory_hits == 1);  // prepare() joined the compilation, or found its image
  {
    const std::lock_guard lock(mutex);
    CHECK(std::ranges::count(story, jfa::CacheEvent::Kind::kCompileStart) == 1);
    CHECK(std::ranges::count(story, jfa::CacheEvent::Kind::kCompileEnd) == 1);
    CHECK(std::ranges::count(story, jfa::CacheEvent::Kind::kPublish) == 1);
  }

  CHECK(jfa::watch_cache({}).kind() == jfa::ErrorKind::kInvalidArgument);
  configuration.head_dim = 12;
  const jfa::Status refused = jfa::prepare_in_background(device, configuration);
  CHECK(refused.kind() == jfa::ErrorKind::kInvalidArgument);
  CHECK(refused.message().find("12") != std::string::npos);
  std::filesystem::remove_all(directory);
}
