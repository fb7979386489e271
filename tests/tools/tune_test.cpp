// jfa tune on a simulated device: what becomes of candidates that are right, wrong, crash or hang, and what
// the database is good for afterwards.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/child_process.h"
#include "tests/command_runner.h"
#include "tuning/database.h"

namespace jfa::test {
namespace {

using Outcome = Trial::Outcome;

constexpr const char* kShapes = R"({"shapes": [
  {"name": "own", "kind": "self", "batch": 2, "heads": 1, "head_dim": 16, "max_kv": 20, "fill_kv": 1},
  {"name": "own-too", "kind": "self", "batch": 2, "heads": 1, "head_dim": 16, "max_kv": 19, "fill_kv": 1},
  {"name": "shared", "kind": "pma", "batch": 3, "heads": 1, "head_dim": 16, "q_len": 4, "max_kv": 60, "fill_kv": 0.5}
]})";
constexpr const char* kConfigs =
    R"([{"each": {"query_stages": [1], "key_value_stages": [4, 99], "broadcast_items": [2]}}])";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Tune {
 public:
  Tune() {
    std::ofstream(directory_ / "shapes.json") << kShapes;
    std::ofstream(directory_ / "sweep.json") << kConfigs;
  }
  std::string path(const std::string& name) const { return directory_ / name; }
  // A sweep with one multiprocessor, which is quick.
  std::vector<std::string> sweep_line(const std::string& database, std::vector<std::string> more) const {
    std::vector<std::string> line{JFA_TOOL,     "tune",
                                  "--device",   "sim:sm_90a?sms=1",
                                  "--shapes",   path("shapes.json"),
                                  "--configs",  path("sweep.json"),
                                  "--database", path(database)};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  CommandResult sweep(const std::string& database, std::vector<std::string> more) const {
    return run_command(sweep_line(database, std::move(more)));
  }
  CommandResult operator()(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {JFA_TOOL, "tune"});
    return run_command(arguments);
  }
  std::vector<TuningRecord> records(const std::string& database) const {
    const Result<ReadDatabase> read = read_database(*posix_file_system(), path(database));
    REQUIRE_MESSAGE(read.ok(), read.status().message());
    CHECK(read->complaints.empty());
    return read->records;
  }
  // After a sweep that sabotages query_stages=1.
  Trial sabotaged(const std::string& how, int exit_code = 0) const {
    const CommandResult result =
        sweep(how, {"--only", "own", "--timeout", "2", "--sabotage", "query_stages=1:" + how});
    CHECK_MESSAGE(result.exit_code == exit_code, result.output, result.error);
    const std::vector<TuningRecord> found = records(how);
    REQUIRE(found.size() == 1);
    REQUIRE(found[0].trials.size() == 3);
    CHECK(found[0].trials[0].outcome == Outcome::kChecked);
    CHECK(found[0].trials[1].outcome == Outcome::kChecked);  // the others are tried all the same
    CHECK(found[0].complete);
    CHECK(found[0].winner.empty());
    for (const Trial& trial : found[0].trials)
      if (to_string(trial.tuning) == "query_stages=1") return trial;
    FAIL("no such candidate");
    return {};
  }

 private:
  TemporaryDirectory directory_;
};

TEST_CASE("a sweep on a simulated device checks every candidate and says that it cannot rank them") {
  const Tune tune;
  const CommandResult result = tune.sweep("db", {"--pass", "forward"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.output, result.error);
  CHECK(has(result.error, "cannot rank them"));
  CHECK(has(result.output, "(own, own-too): 3 candidates, 1 more do not fit; no winner"));
  const std::vector<TuningRecord> records = tune.records("db");
  REQUIRE(records.size() == 2);  // shapes that the host cannot tell apart are one class
  for (const TuningRecord& record : records) {
    CHECK(record.simulated);
    CHECK(record.complete);
    CHECK(record.winner.empty());
    CHECK(has(record.policy, "not timed"));
    CHECK(!record.compiler.empty());
    CHECK(record.left_out.size() == 1);
    for (const Trial& trial : record.trials) {
      CHECK(trial.outcome == Outcome::kChecked);
      CHECK(trial.same_bits == true);
      CHECK(trial.ratio == 0);
    }
  }
  CHECK(records[0].shapes.size() == 2);
  CHECK(tune({"verify", tune.path("db")}).exit_code == 0);
  const CommandResult shown = tune({"show", tune.path("db"), "--trials"});
  CHECK(has(shown.output, "simulated: not ranked"));
  CHECK(has(shown.output, "no winner changes bits"));
  CHECK(has(shown.output, "left out: tuning: key_value_stages=99 is not from 4 to 8"));

  SUBCASE("a second time, resumed, nothing is done again") {
    const auto written = std::filesystem::last_write_time(record_file(tune.path("db"), records[0]));
    const CommandResult again = tune.sweep("db", {"--pass", "forward", "--resume"});
    CHECK(again.exit_code == 0);
    CHECK(again.output.empty());
    CHECK(std::filesystem::last_write_time(record_file(tune.path("db"), records[0])) == written);
  }
  SUBCASE("shards and devices side by side are the whole, by file") {
    // One of them by two devices side by side.
    CHECK(tune.sweep("0", {"--shard", "0/2", "--device", "sim:sm_90a?sms=1&seed=1"}).exit_code == 0);
    CHECK(tune.sweep("1", {"--shard", "1/2"}).exit_code == 0);
    std::vector<std::string> line{"import", "-o", tune.path("both")};
    for (const char* part : {"0", "1"})
      if (std::filesystem::exists(tune.path(part))) line.push_back(tune.path(part));
    CHECK(tune(line).exit_code == 0);
    CHECK(tune({"diff", tune.path("both"), tune.path("db")}).exit_code == 0);
    CHECK(tune({"export", tune.path("both"), "-o", tune.path("all.json")}).exit_code == 0);
    CHECK(tune({"diff", tune.path("all.json"), tune.path("db")}).exit_code == 0);
    std::filesystem::remove(record_file(tune.path("both"), records[0]));
    const CommandResult less = tune({"diff", tune.path("both"), tune.path("db")});
    CHECK(less.exit_code == 1);
    CHECK(has(less.output, "+ " + name(records[0])));
  }
}

TEST_CASE("bug-pool 13: gradients do not add up over trials and rounds") {
  const Tune tune;
  const CommandResult result =
      tune.sweep("db", {"--only", "shared", "--pass", "backward", "--try-timing", "--rounds", "4"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.output, result.error);
  const std::vector<TuningRecord> records = tune.records("db");
  REQUIRE(records.size() == 1);
  REQUIRE(records[0].trials.size() == 2);
  const Trial& usual = records[0].trials[0];
  CHECK(usual.outcome == Outcome::kTimed);  // confirmed by a replay after all the others
  CHECK(usual.times_ms[0].size() == 4);
  CHECK(usual.ratio == 1);
  const Trial& other = records[0].trials[1];
  CHECK((other.outcome == Outcome::kTimed || other.outcome == Outcome::kStopped));
  CHECK(other.ratio > 0);
  CHECK(records[0].winner.empty());  // the simulator's times make nobody a winner
}

TEST_CASE("bug-pool 14: a candidate that writes nothing, or something else, is refused with its reason") {
  const Tune tune;
  const Trial stale = tune.sabotaged("stale");
  CHECK(stale.outcome == Outcome::kRefused);
  CHECK(has(stale.reason, "not written"));
  const Trial wrong = tune.sabotaged("wrong");
  CHECK(wrong.outcome == Outcome::kRefused);
  CHECK(has(wrong.reason, "of their norm"));
}

TEST_CASE("a candidate that crashes or hangs is recorded, and the sweep goes on") {
  const Tune tune;
  const Trial crashed = tune.sabotaged("crash");
  CHECK(crashed.outcome == Outcome::kFailed);
  CHECK(has(crashed.reason, "signal 11"));
  const Trial hung = tune.sabotaged("hang");
  CHECK(hung.outcome == Outcome::kFailed);
  CHECK(has(hung.reason, "hung"));
}

TEST_CASE("a candidate whose compilation does not end is recorded too") {
  const Trial slow = Tune().sabotaged("slow-compile");
  CHECK(slow.outcome == Outcome::kFailed);
  CHECK(has(slow.reason, "compilation: hung"));
}

TEST_CASE("a kill loses the running candidate at most, and --resume goes on behind it") {
  const Tune tune;
  {
    Result<tools::ChildProcess> child = tools::ChildProcess::start(
        tune.sweep_line("db", {"--only", "own", "--sabotage", "query_stages=1:hang"}));
    REQUIRE(child.ok());
    // The default and key_value_stages=4 are checked when query_stages=1 hangs.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto two_are_checked = [&] {
      const Result<ReadDatabase> read = read_database(*posix_file_system(), tune.path("db"));
      return read && !read->records.empty() &&
             std::ranges::count(read->records[0].trials, Outcome::kChecked, &Trial::outcome) == 2;
    };
    std::string line;
    while (!two_are_checked() && std::chrono::steady_clock::now() < deadline)
      (void)child->read_line(line, std::chrono::milliseconds(50));
  }  // killed
  const TuningRecord killed = tune.records("db").at(0);
  CHECK(!killed.complete);
  CHECK(std::ranges::count(killed.trials, Outcome::kPending, &Trial::outcome) == 1);
  CHECK(tune({"show", tune.path("db")}).exit_code == 0);
  const CommandResult resumed = tune.sweep("db", {"--only", "own", "--resume"});
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.output, resumed.error);
  CHECK(tune.records("db").at(0).complete);
}

TEST_CASE("verify finds what does not hold together") {
  const Tune tune;
  TuningRecord record;
  record.problem = class_named("forward-bf16-d128-sm_90a.n6-q5-k13").value();
  record.device = {"NVIDIA H200", 132};
  record.winner = parse_tuning("query_stages=1").value();
  record.winner_ratio = 0.5;
  record.trials = {{.outcome = Outcome::kTimed, .same_bits = true, .ratio = 1},
                   {.tuning = record.winner, .outcome = Outcome::kWon, .same_bits = true, .ratio = 0.5}};
  const auto fault_of = [&](const char* database) {
    REQUIRE(write_record(*posix_file_system(), tune.path(database), record).ok());
    const CommandResult result = tune({"verify", tune.path(database)});
    CHECK(result.exit_code == (has(result.output, "all right") ? 0 : 1));
    return result.output;
  };
  CHECK(has(fault_of("right"), "all right"));
  record.winner_same_bits = false;
  CHECK(has(fault_of("bits"), "bits"));
  record.trials[1].same_bits = false;
  CHECK(has(fault_of("changes"), "all right"));
  CHECK(has(tune({"show", tune.path("changes")}).output, "this database changes bits: 1 of 1 winners"));
  record.trials[1].outcome = Outcome::kRefused;
  CHECK(has(fault_of("refused"), "refused"));
  record.winner = record.trials[1].tuning = parse_tuning("query_stages=9").value();
  CHECK(has(fault_of("no-knob"), "query_stages=9 is not from 1 to 4"));
}

// Of `jfa tune --list`: the candidates of each class, by its name.
std::map<std::string, std::set<std::string>> listed_candidates(const std::string& output) {
  std::map<std::string, std::set<std::string>> candidates;
  std::istringstream lines(output);
  std::string line, problem;
  while (std::getline(lines, line)) {
    if (line.starts_with("  ")) {
      candidates[problem].insert(line.substr(2));
    } else {
      problem = line.substr(0, line.find(' '));
    }
  }
  return candidates;
}

TEST_CASE("the shipped database holds together, fits this version and the sweep of bench/") {
  const Tune tune;
  const std::string bench = JFA_SOURCE_DIR "/bench/", shipped = JFA_SOURCE_DIR "/tuning/databases/h200.json";
  const CommandResult verified = tune({"verify", shipped});
  CHECK_MESSAGE(verified.exit_code == 0, verified.output, verified.error);
  CHECK(tune({"import", shipped, "-o", tune.path("h200")}).exit_code == 0);
  CHECK(tune({"export", tune.path("h200"), "-o", tune.path("again.json")}).exit_code == 0);
  CHECK(tune({"diff", tune.path("again.json"), shipped}).exit_code == 0);

  const CommandResult listed = tune({"--device", "sim:sm_90a", "--shapes", bench + "shapes.json", "--configs",
                                     bench + "sweep.json", "--pass", "forward,backward", "--list"});
  REQUIRE_MESSAGE(listed.exit_code == 0, listed.error);
  const auto candidates = listed_candidates(listed.output);
  const std::vector<TuningRecord> records = tune.records("h200");
  CHECK(records.size() == 28);
  for (const TuningRecord& record : records) {
    ProblemClass simulated = record.problem;
    simulated.spec.target = Target::compute_90a;
    const auto own = candidates.find(name(simulated));
    REQUIRE_MESSAGE(own != candidates.end(), name(record));
    CHECK_MESSAGE((record.winner.empty() || own->second.contains(to_string(record.winner))), name(record));
    CHECK(record.complete);
    CHECK(!record.simulated);
    CHECK(record.device == TunedDevice{"NVIDIA H200", 132});
    CHECK(record.problem.spec.target == Target::sm_90a);
    CHECK(record.policy == records.front().policy);
  }
}

TEST_CASE("winners travel: a bundle has exactly them and the database, and calls take them from there") {
  const Tune tune;
  TuningRecord record;
  record.problem = class_named("forward-bf16-d16-compute_90a.n1-q4-k4").value();
  record.device = {"Simulated Hopper", 1};
  record.winner = parse_tuning("query_stages=1").value();
  record.winner_ratio = 0.5;
  REQUIRE(write_record(*posix_file_system(), tune.path("db"), record).ok());
  const CommandResult listed = run_command({JFA_TOOL, "precompile", "--tuned", tune.path("db"), "--list"});
  CHECK(listed.output == "forward-bf16-d16-compute_90a,query_stages=1\n");
  const std::string bundle = tune.path("kernels.jfab");
  const CommandResult made = run_command({JFA_TOOL, "precompile", "--tuned", tune.path("db"), "-o", bundle});
  REQUIRE_MESSAGE(made.exit_code == 0, made.error);
  const CommandResult held = run_command({JFA_TOOL, "bundle", "list", bundle});
  CHECK(has(held.output, "tuning-database"));
  CHECK(has(held.output, "forward-bf16-d16-compute_90a-query_stages=1"));
  const CommandResult ran =
      run_command({JFA_TOOL, "bench", "--device", "sim:sm_90a?sms=1", "--shapes", tune.path("shapes.json"),
                   "--only", "own", "--repeat", "1"},
                  {"JFA_BUNDLES=" + bundle, "JFA_CACHE=off", "JFA_COMPILE=never", "JFA_VERBOSE=2"});
  CHECK_MESSAGE(ran.exit_code == 0, ran.error);
  CHECK(has(ran.error, "exec,sim:sm_90a?sms=1,forward,forward-bf16-d16-compute_90a"));
  CHECK(has(ran.error, "load,sim:sm_90a?sms=1,forward-bf16-d16-compute_90a-query_stages=1"));
  CHECK(!has(ran.error, "load,sim:sm_90a?sms=1,forward-bf16-d16-compute_90a,"));
}

TEST_CASE("jfa emit --explain says which record a call takes, and why") {
  const Tune tune;
  TuningRecord record;
  record.problem = class_named("forward-bf16-d128-sm_90a.n12-q9-k9").value();
  record.device = {"NVIDIA H200", 132};
  record.winner = parse_tuning("query_stages=1").value();
  record.winner_ratio = 0.5;
  REQUIRE(write_record(*posix_file_system(), tune.path("db"), record).ok());
  const auto explained = [&](const char* rows, std::vector<std::string> more = {}) {
    std::vector<std::string> line{
        JFA_TOOL, "emit",       "--explain", "--target",          "sm_90a",       "--head-dim",
        "128",    "--heads",    "4",         "--batch",           "1024",         "--query-rows",
        rows,     "--key-rows", rows,        "--tuning-database", tune.path("db")};
    line.insert(line.end(), more.begin(), more.end());
    const CommandResult result = run_command(line);
    return result.output + result.error;
  };
  CHECK(has(explained("524288"),
            "nvidia-h200-132.forward-bf16-d128-sm_90a.n12-q9-k9 (the class itself): query_stages=1"));
  CHECK(has(explained("1048576"),
            "the nearest class, 2 powers of two from forward-bf16-d128-sm_90a.n12-q10-k10"));
  CHECK(has(explained("8388608"), "further than a factor of 4"));
  CHECK(has(explained("524288", {"--pass", "backward"}), "has no class of backward-bf16-d128-sm_90a"));
  CHECK(has(explained("524288", {"--gpu", "H100"}), "no record of sm_90a for a GPU 'H100'"));
  record.device = {"NVIDIA H100", 132};
  REQUIRE(write_record(*posix_file_system(), tune.path("db"), record).ok());
  CHECK(has(explained("524288"), "choose one by --gpu"));
  CHECK(has(explained("524288", {"--gpu", "H100"}), "nvidia-h100-132.forward"));
}

TEST_CASE("what cannot be swept is said") {
  const Tune tune;
  const auto refused = [&](std::vector<std::string> line, const char* part) {
    const CommandResult result = tune(std::move(line));
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(has(result.error, part), result.error);
  };
  refused({"--device", "sim:sm_90a"}, "--shapes is missing");
  const std::string shapes = tune.path("shapes.json");
  refused({"--device", "sim:sm_90a", "--shapes", shapes}, "--database is missing");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--device", "sim:sm_90a", "--shapes", shapes, "--database", tune.path("db")});
    return more;
  };
  refused(with({"--budget", "soon"}), "--budget 'soon'");
  refused(with({"--shard", "2/2"}), "--shard '2/2'");
  refused(with({"--only", "huge"}), "has no shape 'huge'");
  refused(with({"--pass", "sideways"}), "sideways");
  refused(with({"--device", "sim:sm_90a?sms=3"}), "of one kind of device");
  refused(with({"--device", "sim:sm_90a"}), "'sim:sm_90a' is named twice");
  refused({"show", tune.path("absent")}, "absent: cannot read");
}

}  // namespace
}  // namespace jfa::test
