// Stored kernels that pass their checksum and that the simulated driver refuses all the same: moved aside or
// passed over, made anew once, and said so. Needs NVRTC.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cache/bundle.h"
#include "cache/entry.h"
#include "jfa/cache.h"
#include "tests/cache/support.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;

Configuration small() {
  Configuration configuration;
  configuration.head_dim = 16;
  return configuration;
}

// What a process did that loads the kernel, as its exit status.
enum Outcome { kLoaded, kFailed, kSurprised };

// Loads the kernel in a process of its own, since the cache is set up once a process.
Outcome load(const std::vector<std::pair<std::string, std::string>>& environment, std::uint64_t compiles,
             std::uint64_t damaged) {
  return static_cast<Outcome>(wait_for(start_process([&]() -> int {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    Device device = Device::open("sim:sm_100a").value();
    const Status status = prepare(device, small());
    const CacheStats stats = cache_stats().value();
    if (stats.compiles != compiles || stats.damaged != damaged) return kSurprised;
    return status.ok() ? kLoaded : kFailed;
  })));
}

// The kernel as it should be stored.
struct Stored {
  TemporaryDirectory parent;
  std::string directory = parent / "cache";
  std::string whole;

  Stored() {
    REQUIRE(load({{"JFA_CACHE", "on"}, {"JFA_CACHE_DIR", directory}}, 1, 0) == kLoaded);
    whole = read_bytes(only_entry(directory));
  }
};
const Stored& stored() {
  static const Stored kernel;
  return kernel;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

struct Damage {
  const char* what;
  std::function<void(std::string& ptx)> act;
};
const Damage kDamages[] = {
    {"cut in the middle", [](std::string& ptx) { ptx.resize(ptx.size() / 2); }},
    {"for another target", [](std::string& ptx) { replace(ptx, ".target sm_100f", ".target sm_90a"); }},
    {"without entries", [](std::string& ptx) { ptx.resize(ptx.find(".visible .entry")); }},
    {"one entry renamed",
     [](std::string& ptx) { replace(ptx, ".entry jfa_forward(", ".entry jfa_backward("); }},
    {"no PTX at all", [](std::string& ptx) { ptx = "junk"; }},
};

// The entry with other PTX and a checksum that fits.
Entry forged(const Damage& damage) {
  Entry entry = decode_entry(stored().whole).value();
  damage.act(entry.image.ptx);
  return entry;
}

// A directory with the forged entry where the whole one was.
void forge(const std::string& directory, const Damage& damage) {
  fs::copy(stored().directory, directory, fs::copy_options::recursive);
  fs::permissions(directory, fs::perms::owner_all);
  write_bytes(only_entry(directory), encode_entry(forged(damage)).value());
}

TEST_CASE(
    "a stored kernel with a right checksum that the driver refuses is moved aside and made anew, once") {
  for (const Damage& damage : kDamages) {
    CAPTURE(std::string(damage.what));
    const TemporaryDirectory parent;
    const std::string directory = parent / "cache";
    const std::string log = parent / "log";
    forge(directory, damage);
    const std::string path = only_entry(directory);
    const int outcome = wait_for(start_process([&]() -> int {
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) return kSurprised;
      return load({{"JFA_CACHE", "on"}, {"JFA_CACHE_DIR", directory}, {"JFA_VERBOSE", "1"}}, 1, 1);
    }));
    CHECK(outcome == kLoaded);
    CHECK(files_below(directory + "/damaged").size() == 1);
    const bool made_anew =
        decode_entry(read_bytes(path))->image.ptx == decode_entry(stored().whole)->image.ptx;
    CHECK(made_anew);
    CHECK(read_bytes(log).find("\njfa: cached kernel " + path + " is not used: the driver refuses it: ") !=
          std::string::npos);
    CHECK(load({{"JFA_CACHE", "on"}, {"JFA_CACHE_DIR", directory}}, 0, 0) == kLoaded);
  }
}

TEST_CASE("a refused kernel of a read-only directory or a bundle is passed over for one from elsewhere") {
  const TemporaryDirectory parent;
  forge(parent / "forged", kDamages[3]);
  for (const auto& [name, damage] : {std::pair{"bad.jfab", &kDamages[0]}, {"worse.jfab", &kDamages[2]}}) {
    const Status status =
        write_bundle_with(parent / name, [&](BundleWriter& writer) { return writer.add(forged(*damage)); });
    REQUIRE(status.ok());
  }
  const std::string bundles = parent / "bad.jfab" + ":" + parent / "worse.jfab";
  // Compiled where nobody has a good one ...
  CHECK(load({{"JFA_CACHE", "on"},
              {"JFA_CACHE_DIR", parent / "new"},
              {"JFA_CACHE_READ_ONLY_DIRS", parent / "forged"},
              {"JFA_BUNDLES", bundles}},
             1, 3) == kLoaded);
  CHECK(files_below(parent / "new/v2").size() == 1);
  // ... and fetched where somebody has, also where nothing may be compiled.
  const Status status = write_bundle_with(parent / "good.jfab", [](BundleWriter& writer) {
    return writer.add(decode_entry(stored().whole).value());
  });
  REQUIRE(status.ok());
  CHECK(load({{"JFA_CACHE", "off"},
              {"JFA_COMPILE", "never"},
              {"JFA_CACHE_READ_ONLY_DIRS", parent / "forged"},
              {"JFA_BUNDLES", bundles + ":" + parent / "good.jfab"}},
             0, 3) == kLoaded);
  CHECK(load({{"JFA_CACHE", "off"}, {"JFA_COMPILE", "never"}, {"JFA_BUNDLES", bundles}}, 0, 2) == kFailed);
}

}  // namespace
}  // namespace jfa::test
