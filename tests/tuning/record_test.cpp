// Records as text and on disk, and inside bundles.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/command_runner.h"
#include "tuning/bundled.h"
#include "tuning/database.h"

namespace jfa {
namespace {

TuningRecord sample_record() {
  TuningRecord record;
  record.problem = class_named("backward-bf16-d128-pma-sm_90a.n6-q5-k13").value();
  record.device = {"NVIDIA H200", 132};
  record.driver = "13.0";
  record.compiler = "build-id:12";
  record.jfa = "0.1.0 (abc)";
  record.policy = "5 \"rounds\"";
  record.complete = true;
  record.shapes = {{"pma-long", {32, 32, 300000, 2}, "pma"}};
  record.winner = parse_tuning("broadcast_items=132").value();
  record.winner_ratio = 0.875;
  record.winner_same_bits = false;
  record.trials = {{.outcome = Trial::Outcome::kTimed, .same_bits = true, .times_ms = {{1, 1.5}}, .ratio = 1},
                   {.tuning = record.winner,
                    .outcome = Trial::Outcome::kWon,
                    .same_bits = false,
                    .times_ms = {{0.875, 1.25}},
                    .ratio = 0.875,
                    .ratio_lower_quartile = 0.86,
                    .ratio_upper_quartile = 0.89},
                   {.tuning = parse_tuning("broadcast_stages=1").value(),
                    .outcome = Trial::Outcome::kFailed,
                    .reason = "signal 11",
                    .times_ms = {{}}}};
  record.left_out = {{parse_tuning("broadcast_stages=8").value(), "does not fit"}};
  return record;
}

void check_equal(const TuningRecord& left, const TuningRecord& right) {
  CHECK(to_text(left) == to_text(right));  // says all
  CHECK(left.problem == right.problem);
  CHECK(left.winner == right.winner);
  CHECK(left.trials.size() == right.trials.size());
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a record is text and back, and tells itself by its name") {
  const TuningRecord record = sample_record();
  const std::string text = to_text(record);
  const Result<TuningRecord> read = parse_record(text);
  REQUIRE_MESSAGE(read.ok(), read.status().message());
  check_equal(record, *read);
  CHECK(read->trials[1].times_ms == std::vector<std::vector<double>>{{0.875, 1.25}});
  CHECK(read->trials[2].reason == "signal 11");
  CHECK(!read->trials[2].same_bits.has_value());
  CHECK(read->left_out[0].reason == "does not fit");
  CHECK(name(record) == "nvidia-h200-132.backward-bf16-d128-pma-sm_90a.n6-q5-k13");
  const Result<std::vector<TuningRecord>> several = parse_records(to_text(std::vector{record, record}));
  REQUIRE(several.ok());
  CHECK(several->size() == 2);
  check_equal((*several)[1], record);
}

TEST_CASE("what is no record is refused with what is wrong") {
  const std::string text = to_text(sample_record());
  const auto refusal = [](const std::string& bad) {
    const Result<TuningRecord> read = parse_record(bad);
    REQUIRE(!read.ok());
    CHECK(read.status().kind() == ErrorKind::kInvalidArgument);
    return read.status().message();
  };
  const auto has = [](const std::string& message, const char* part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  has(refusal(""), "not a tuning record");
  has(refusal("[]"), "not a tuning record");
  has(refusal(text.substr(0, text.size() / 2)), "not a tuning record");
  has(refusal(with(text, "record 1", "record 2")), "'jfa tuning record 2'");
  has(refusal(with(text, "-k13", "-k99")), "-k99");
  has(refusal(with(text, "\"won\"", "\"one\"")), "'one'");
  has(refusal(with(text, "\"winner\": \"broadcast_items=132\"", "\"winner\": \"broadcast_items\"")),
      "winner");
  has(refusal(with(text, "\"multiprocessors\": 132", "\"multiprocessors\": 1.5")), "multiprocessors");
  has(refusal(with(text, "\"policy\"", "\"politics\"")), "policy");
}

TEST_CASE("a directory: one file a record, replaced whole, a damaged one is left out by name") {
  const test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  const std::string path = directory / "a/db";
  TuningRecord record = sample_record();
  REQUIRE(write_record(*files, path, record).ok());
  record.winner_ratio = 0.5;
  REQUIRE(write_record(*files, path, record).ok());
  record.problem = class_named("forward-bf16-d64-sm_90a.n6-q5-k5").value();
  REQUIRE(write_record(*files, path, record).ok());
  std::ofstream(path + "/broken.json") << "{";
  std::ofstream(path + "/.left-1-2.tmp") << "{";
  std::ofstream(path + "/notes.txt") << "not ours";
  const Result<ReadDatabase> read = read_database(*files, path);
  REQUIRE(read.ok());
  REQUIRE(read->records.size() == 2);
  CHECK(read->records[0].winner_ratio == 0.5);
  CHECK(name(read->records[1]) < "nvidia-h200-132.g");
  REQUIRE(read->complaints.size() == 1);
  CHECK(read->complaints[0].find("broken.json: not a tuning record") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 5);

  std::ofstream(directory / "export.json") << to_text(read->records);
  const Result<ReadDatabase> exported = read_database(*files, directory / "export.json");
  REQUIRE(exported.ok());
  CHECK(exported->records.size() == 2);
  const Result<ReadDatabase> absent = read_database(*files, directory / "absent");
  REQUIRE(!absent.ok());
  CHECK(absent.status().message().find("absent: cannot read") != std::string::npos);
  const Result<ReadDatabase> broken = read_database(*files, path + "/broken.json");
  CHECK(broken.status().kind() == ErrorKind::kInvalidArgument);
  CHECK(write_record(*files, "", record).kind() == ErrorKind::kUnavailable);
  const Status unwritten = write_record(*files, directory / "export.json", record);
  CHECK(unwritten.kind() == ErrorKind::kUnavailable);
}

TEST_CASE("in bundles: with the kernels, and together when bundles are merged") {
  const test::TemporaryDirectory directory;
  const auto write = [&](const std::string& path, const std::vector<TuningRecord>& records) {
    std::ofstream file(path, std::ios::binary);
    BundleWriter writer([&](std::string_view bytes) {
      file << bytes;
      return Status();
    });
    if (!records.empty()) REQUIRE(writer.add(bundled_entry(records)).ok());
    REQUIRE(writer.finish().ok());
  };
  TuningRecord other = sample_record();
  other.problem = class_named("forward-bf16-d64-sm_90a.n6-q5-k5").value();
  write(directory / "a.jfab", {sample_record()});
  write(directory / "b.jfab", {other});
  write(directory / "c.jfab", {});
  std::vector<std::shared_ptr<const Bundle>> bundles;
  for (const char* file : {"a.jfab", "b.jfab", "c.jfab"})
    bundles.push_back(Bundle::open(posix_file_system(), directory / file).value());
  CHECK(bundled_records(*bundles[0]).value().size() == 1);
  CHECK(bundled_records(*bundles[2]).value().empty());
  {
    std::ofstream file(directory / "all.jfab", std::ios::binary);
    BundleWriter writer([&](std::string_view bytes) {
      file << bytes;
      return Status();
    });
    REQUIRE(merge_bundles(bundles, writer).ok());
    REQUIRE(writer.finish().ok());
  }
  const auto all = Bundle::open(posix_file_system(), directory / "all.jfab").value();
  const Result<std::vector<TuningRecord>> merged = bundled_records(*all);
  REQUIRE(merged.ok());
  CHECK(merged->size() == 2);
}

}  // namespace
}  // namespace jfa
