// The environment, and how its variables are documented.
#include "cache/options.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

using Variables = std::map<std::string, std::string>;

Result<CacheOptions> options_of(const Variables& variables) {
  return cache_options_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("where the directory is") {
  CHECK(options_of({{"HOME", "/home/a"}})->directory == "/home/a/.cache/jfa");
  CHECK(options_of({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}})->directory == "/x/jfa");
  CHECK(options_of({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "relative"}})->directory == "/home/a/.cache/jfa");
  CHECK(options_of({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}, {"JFA_CACHE_DIR", "/y"}})->directory ==
        "/y");
  CHECK(options_of({{"XDG_CACHE_HOME", "/x"}})->directory == "/x/jfa");
  CHECK(options_of({})->directory.empty());
  CHECK(options_of({})->no_directory_reason == "HOME is not set");
  CHECK(options_of({{"HOME", "/home/a"}, {"JFA_CACHE", "off"}})->directory.empty());
  CHECK(options_of({{"HOME", "/home/a"}, {"JFA_CACHE", "off"}})->no_directory_reason.empty());
}

TEST_CASE(
    "bug-pool 82: an empty or blank variable is unset, any other path works and can be asked for [cpu]") {
  const std::string fallback = "/home/a/.cache/jfa";
  CHECK(options_of({{"HOME", "/home/a"}, {"JFA_CACHE_DIR", ""}})->directory == fallback);
  CHECK(options_of({{"HOME", "/home/a"}, {"JFA_CACHE_DIR", " "}})->directory == fallback);
  for (const char* name : {"JFA_CACHE", "JFA_CACHE_READ_ONLY_DIRS", "JFA_BUNDLES", "JFA_CACHE_MAX_BYTES",
                           "JFA_CACHE_LOCK_WAIT_MS", "JFA_COMPILE", "XDG_CACHE_HOME"}) {
    CHECK(options_of({{"HOME", "/home/a"}, {name, ""}})->directory == fallback);
  }
  const TemporaryDirectory parent;
  const fs::path old = fs::current_path();
  fs::current_path(parent.path());
  for (const std::string path : {"relative/cache", "with spaces", "größe/カーネル", "./x/../y"}) {
    CAPTURE(path);
    auto options = options_of({{"JFA_CACHE_DIR", path}});
    REQUIRE(options.ok());
    KernelCache cache(*options);
    const CompileRequest request = make_request("kernel " + path);
    CHECK(cache.get_or_compile(request, [&] { return make_image(request); }).ok());
    CHECK(cache.stats().published == 1);
    const KernelCache::State state = cache.state();
    CHECK(state.writable);
    CHECK(state.directory.starts_with("/"));
    CHECK(fs::equivalent(state.directory, fs::path(parent / path).lexically_normal()));
  }
  fs::current_path(old);
}

TEST_CASE("the other variables") {
  const auto options = options_of({{"JFA_CACHE", "readonly"},
                                   {"JFA_CACHE_DIR", "/c"},
                                   {"JFA_CACHE_READ_ONLY_DIRS", "/a::/b/ c:"},
                                   {"JFA_BUNDLES", "/k.jfab"},
                                   {"JFA_CACHE_MAX_BYTES", "512M"},
                                   {"JFA_CACHE_LOCK_WAIT_MS", "250"},
                                   {"JFA_COMPILE", "never"}});
  REQUIRE(options.ok());
  CHECK_FALSE(options->write);
  CHECK(options->read_only_directories == std::vector<std::string>{"/a", "/b/ c"});
  CHECK(options->bundles == std::vector<std::string>{"/k.jfab"});
  CHECK(options->max_bytes == 512ull << 20);
  CHECK(options->lock_wait_ms == 250);
  CHECK(options->compile == CompilePolicy::kNever);
  CHECK(options_of({})->max_bytes == 1ull << 30);
  CHECK(options_of({{"JFA_CACHE_MAX_BYTES", "0"}})->max_bytes == 0);
  CHECK(options_of({{"JFA_CACHE_MAX_BYTES", "12345"}})->max_bytes == 12345);
  CHECK(options_of({{"JFA_CACHE_MAX_BYTES", "2GiB"}})->max_bytes == 2ull << 30);
}

TEST_CASE("values that cannot be used are refused by name and value") {
  const Variables bad[] = {{{"JFA_CACHE", "yes"}},
                           {{"JFA_COMPILE", "nevr"}},
                           {{"JFA_CACHE_MAX_BYTES", "many"}},
                           {{"JFA_CACHE_MAX_BYTES", "-1"}},
                           {{"JFA_CACHE_MAX_BYTES", "1T"}},
                           {{"JFA_CACHE_MAX_BYTES", "99999999999G"}},
                           {{"JFA_CACHE_LOCK_WAIT_MS", "1.5"}},
                           {{"JFA_CACHE_LOCK_WAIT_MS", "-5"}}};
  for (const Variables& variables : bad) {
    const auto& [name, value] = *variables.begin();
    const Status status = options_of(variables).status();
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().starts_with(name + "='" + value + "': expected "));
  }
}

TEST_CASE("a path with a '~' that no shell expanded is refused by name, and no folder '~' is made") {
  const Variables bad[] = {{{"JFA_CACHE_DIR", "~/x"}},
                           {{"JFA_CACHE_DIR", "~"}},
                           {{"JFA_CACHE_DIR", "~user/x"}},
                           {{"JFA_CACHE_READ_ONLY_DIRS", "/a:~/x"}},
                           {{"JFA_BUNDLES", "~/k.jfab:/a"}}};
  for (const Variables& variables : bad) {
    const auto& [name, value] = *variables.begin();
    CAPTURE(name);
    const Status status = options_of(variables).status();
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().starts_with(name + "='~"));
    CHECK(status.message().find("': expected a path without '~'") != std::string::npos);
  }
  CHECK(options_of({{"JFA_CACHE_DIR", "./~x"}})->directory.ends_with("/~x"));
  CHECK(options_of({{"JFA_CACHE_DIR", "/a/~"}})->directory == "/a/~");
  CHECK(options_of({{"JFA_CACHE", "off"}, {"JFA_CACHE_DIR", "~/x"}})->directory.empty());
}

TEST_CASE("a directory opened for reading only is searched, and never written") {
  const TemporaryDirectory directory;
  const CompileRequest stored = make_request("stored");
  REQUIRE(KernelCache(quiet_options(directory.path()))
              .get_or_compile(stored, [&] { return make_image(stored); })
              .ok());
  const auto before = files_below(directory.path());
  CacheOptions options = quiet_options(directory.path());
  options.write = false;
  KernelCache cache(options);
  CHECK(cache.find(stored) != nullptr);
  const CompileRequest fresh = make_request("fresh");
  CHECK(cache.get_or_compile(fresh, [&] { return make_image(fresh); }).ok());
  CHECK(files_below(directory.path()) == before);
  CHECK_FALSE(cache.state().writable);
  CHECK(cache.state().reason == "opened for reading only");
}
