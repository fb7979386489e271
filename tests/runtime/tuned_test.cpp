// Which kernels a call gets from a tuning database, on a fake driver.
#include "runtime/tuned.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "jfa/cache.h"
#include "jfa/log.h"
#include "runtime/device.h"
#include "tests/command_runner.h"
#include "tests/runtime/forward_support.h"
#include "tuning/database.h"

using namespace jfa;
using test::call_of;
using test::contains;
using test::fake_driver;
using test::kStream;
using test::output_of;

namespace {

// Records for calls of call_of(), about so many query rows a sequence, on the device at hand.
void write(const Device& device, const std::string& path, std::int64_t rows, const char* winner) {
  TuningRecord record;
  record.problem.spec = spec_named("forward-bf16-d32-g4-" + device.target()).value();
  record.problem.size = size_class({3, 3 * rows, 500, 8}, false);
  record.device = tuned_device(device.impl());
  record.winner = parse_tuning(winner).value();
  REQUIRE(write_record(*posix_file_system(), path, record).ok());
}

Status run(Device& device, std::int64_t rows, const Tuning* tuning = nullptr) {
  AttentionCall call = call_of(3 * rows);
  call.tuning = tuning;
  return forward(device, call, output_of(call), 0, {}, kStream);
}

// The tuning of the kernel that such calls have been given.
std::string taken(const Device& device, std::int64_t rows, const Tuning* tuning = nullptr) {
  const KernelSpec spec = spec_named("forward-bf16-d32-g4-" + device.target()).value();
  const SizeClass size =
      device.impl().tuned.load() && !tuning ? size_class({3, 3 * rows, 500, 8}, false) : SizeClass();
  const LoadedKernels* kernels = device.impl().kernels.find({spec, size, tuning});
  return kernels ? to_string(kernels->plan.tuning) : "none";
}

struct Tuned {
  test::TemporaryDirectory directory;
  Device device;
  Tuned() : device((test::reset_fake_driver(), test::attach_fake_device())) {}
  std::string path() const { return directory / "db"; }
};

}  // namespace

TEST_CASE("calls take the kernels of their class, all of which the first call loads") {
  Tuned it;
  write(it.device, it.path(), 100, "query_stages=1");
  write(it.device, it.path(), 1600, "split_items=0");
  REQUIRE(it.device.use_tuning_database(it.path()).ok());
  REQUIRE(run(it.device, 100).ok());
  CHECK(taken(it.device, 100) == "query_stages=1");
  CHECK(fake_driver().libraries_loaded == 3);  // of both, and the defaults
  const std::size_t launches = fake_driver().launches.size();
  // No other class waits for a kernel, not even in a capture.
  fake_driver().capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  REQUIRE(run(it.device, 1600).ok());
  REQUIRE(run(it.device, 400).ok());
  REQUIRE(run(it.device, 20).ok());
  REQUIRE(run(it.device, 1).ok());
  CHECK(taken(it.device, 1600) == "split_items=0");
  CHECK(taken(it.device, 400) == "query_stages=1");  // as far from both
  CHECK(taken(it.device, 1) == "");
  CHECK(fake_driver().libraries_loaded == 3);
  CHECK(fake_driver().launches.size() == 5 * launches);
}

TEST_CASE(
    "bug-pool 124: a call never tunes: one that the database does not know runs once, with the defaults") {
  Tuned it;
  write(it.device, it.path(), 30'000, "query_stages=1");
  REQUIRE(it.device.use_tuning_database(it.path()).ok());
  REQUIRE(run(it.device, 100).ok());
  CHECK(taken(it.device, 100) == "");
  const std::size_t launches = fake_driver().launches.size();
  Device untuned = (test::reset_fake_driver(), test::attach_fake_device());
  REQUIRE(run(untuned, 100).ok());
  CHECK(fake_driver().launches.size() == launches);
}

TEST_CASE("in the background a configuration is compiled with all tunings that its calls may take") {
  Tuned it;
  REQUIRE(run(it.device, 100).ok());  // the defaults are at hand
  Device device = (test::reset_fake_driver(), test::attach_fake_device());
  write(device, it.path(), 100, "split_items=41");
  write(device, it.path(), 1600, "query_stages=99");
  REQUIRE(device.use_tuning_database(it.path()).ok());
  const auto made = [] {
    const CacheStats stats = cache_stats().value();
    return stats.compiles + stats.directory_hits;
  };
  const auto one_more = [&](std::uint64_t than) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (made() == than && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return made() == than + 1;
  };
  Configuration configuration;
  configuration.head_dim = 32;
  configuration.groups = 4;
  const std::uint64_t before = made();
  REQUIRE(prepare_in_background(device, configuration).ok());
  CHECK(one_more(before));
  const Tuning own = parse_tuning("split_items=42,broadcast_items=2").value();  // one of the backward as well
  configuration.tuning = &own;
  CHECK(supported(configuration).ok());
  REQUIRE(prepare_in_background(device, configuration).ok());
  CHECK(one_more(before + 1));
  const Tuning unknown = parse_tuning("tea=1").value();
  configuration.tuning = &unknown;
  CHECK(contains(prepare_in_background(device, configuration).message(), "'tea' is no knob"));
}

TEST_CASE("what the call says counts, then the database, an empty tuning is the defaults") {
  Tuned it;
  write(it.device, it.path(), 100, "query_stages=1");
  REQUIRE(it.device.use_tuning_database(it.path()).ok());
  const Tuning own = parse_tuning("split_items=0").value();
  const Tuning defaults;
  REQUIRE(run(it.device, 100, &own).ok());
  REQUIRE(run(it.device, 100, &defaults).ok());
  REQUIRE(run(it.device, 100).ok());
  CHECK(taken(it.device, 100, &own) == "split_items=0");
  CHECK(taken(it.device, 100, &defaults) == "");
  CHECK(taken(it.device, 100) == "query_stages=1");
  CHECK(fake_driver().libraries_loaded == 3);
  const Tuning unknown = parse_tuning("tea=1").value();
  CHECK(contains(run(it.device, 100, &unknown).message(), "'tea' is no knob"));
  // Another text for the same kernel loads no other one.
  const Tuning usual = parse_tuning("query_stages=2").value();
  REQUIRE(run(it.device, 100, &usual).ok());
  CHECK(fake_driver().libraries_loaded == 3);
}

TEST_CASE("a winner that no kernel can be made of is one warning, and the defaults serve") {
  std::vector<std::string> warnings;
  (void)set_log_callback([&](LogLevel, std::string_view message) { warnings.emplace_back(message); },
                         LogLevel::kWarning);
  Tuned it;
  write(it.device, it.path(), 100, "key_value_stages=8,query_stages=99");
  std::ofstream(it.path() + "/torn.json") << "{\"format\"";
  REQUIRE(it.device.use_tuning_database(it.path()).ok());
  REQUIRE(run(it.device, 100).ok());
  REQUIRE(run(it.device, 50).ok());
  CHECK(taken(it.device, 100) == "");
  (void)set_log_callback({});
  REQUIRE(warnings.size() == 2);
  CHECK(contains(warnings[0], "torn.json"));
  CHECK(contains(warnings[1], "query_stages=99"));
  CHECK(contains(warnings[1], "left out for the defaults"));
}

TEST_CASE("a database comes before the first kernel, one that is not there is refused") {
  Tuned it;
  write(it.device, it.path(), 100, "query_stages=1");
  CHECK(it.device.use_tuning_database(it.directory / "absent").kind() == ErrorKind::kUnavailable);
  const Status nameless = it.device.use_tuning_database("");
  CHECK(nameless.kind() == ErrorKind::kUnavailable);
  CHECK(contains(nameless.message(), "'': cannot read"));
  REQUIRE(run(it.device, 100).ok());
  const Status late = it.device.use_tuning_database(it.path());
  CHECK(late.kind() == ErrorKind::kInvalidArgument);
  CHECK(contains(late.message(), "has loaded kernels already"));
}

TEST_CASE("the environment names a database for every device, a wrong name is a warning") {
  std::vector<std::string> warnings;
  test::TemporaryDirectory directory;
  test::reset_fake_driver();
  write(test::attach_fake_device(), directory / "db", 100, "query_stages=1");
  ::setenv("JFA_TUNING_DB", (directory / "db").c_str(), 1);
  Device device = (test::reset_fake_driver(), test::attach_fake_device());
  REQUIRE(run(device, 100).ok());
  CHECK(taken(device, 100) == "query_stages=1");
  CHECK(contains(explain_tuning(device.impl(), {spec_named("forward-bf16-d32-g4-" + device.target()).value(),
                                                size_class({3, 300, 500, 8}, false)})
                     .why,
                 "the class itself"));
  ::setenv("JFA_TUNING_DB", (directory / "absent").c_str(), 1);
  (void)set_log_callback([&](LogLevel, std::string_view message) { warnings.emplace_back(message); },
                         LogLevel::kWarning);
  Device untuned = (test::reset_fake_driver(), test::attach_fake_device());
  (void)set_log_callback({});
  ::unsetenv("JFA_TUNING_DB");
  CHECK(untuned.impl().tuned.load() == nullptr);
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "JFA_TUNING_DB is left out"));
}
