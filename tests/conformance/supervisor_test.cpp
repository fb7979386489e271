// jfa conformance: children that hang, crash and get stuck; the command on a simulated device; the page of
// doubts.
#include "conformance/supervisor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "conformance/doubts.h"
#include "conformance/item.h"
#include "tests/command_runner.h"

namespace jfa::conformance {
namespace {

using namespace std::chrono_literals;
using Kind = ItemOutcome::Kind;
using test::CommandResult;
using test::read_text;
using test::TemporaryDirectory;

// A child in the shell: $0 is the item to begin with, `item N` does what `behaviour` says for it.
SupervisorOptions shell(std::size_t count, const std::string& behaviour) {
  SupervisorOptions options;
  options.command = {"/bin/sh", "-c",
                     "i=$0; while [ $i -lt " + std::to_string(count) +
                         " ]; do echo \"@begin $i\"; case $i in " + behaviour +
                         " esac; echo \"@end $i {\\\"v\\\": $i}\"; i=$((i + 1)); done"};
  options.count = count;
  options.start_timeout = 5000ms;
  options.item_timeout = 700ms;
  return options;
}

TEST_CASE("what hangs and what crashes is noted, and the others are answered") {
  const auto outcomes = supervise(shell(8,
                                        "1) sleep 60;;"
                                        "2) echo about to go wrong; kill -SEGV $$;;"
                                        "4) exit 7;;"
                                        "5) while :; do :; done;;"
                                        "6) sh -c 'sleep 60 & wait' ;;"))
                            .value();
  REQUIRE(outcomes.size() == 8);
  for (const std::size_t answered : {0, 3, 7}) {
    CAPTURE(answered);
    CHECK(outcomes[answered].kind == Kind::kAnswered);
    CHECK(outcomes[answered].answer == fmt::format("{{\"v\": {}}}", answered));
  }
  for (const std::size_t hung : {1, 5, 6}) {
    CAPTURE(hung);
    CHECK(outcomes[hung].kind == Kind::kHung);
    CHECK(outcomes[hung].message.find("no answer in 0.7 s") == 0);
    CHECK(outcomes[hung].seconds > 0.6);
  }
  CHECK(outcomes[2].kind == Kind::kCrashed);
  CHECK(outcomes[2].message.find("signal 11") == 0);
  CHECK(outcomes[2].message.find("about to go wrong") != std::string::npos);
  CHECK(outcomes[4].kind == Kind::kCrashed);
  CHECK(outcomes[4].message.find("exit status 7") == 0);
}

TEST_CASE("a child that gives up behind an answer is followed by another") {
  // As after an error that sticks to a CUDA context: the answer is out, the process is of no more use.
  const auto outcomes = supervise(shell(4, "1|2) echo \"@end $i {}\"; exit 3;;")).value();
  REQUIRE(outcomes.size() == 4);
  for (const ItemOutcome& outcome : outcomes) CHECK(outcome.kind == Kind::kAnswered);
  CHECK(outcomes[2].answer == "{}");
}

TEST_CASE("a child that never begins is an error, with what it wrote") {
  SupervisorOptions options;
  options.command = {"/bin/sh", "-c", "echo no device here; exit 2"};
  options.count = 3;
  const Status status = supervise(options).status();
  CHECK(status.kind() == ErrorKind::kUnavailable);
  CHECK(status.message().find("exit status 2") != std::string::npos);
  CHECK(status.detail() == "no device here\n");
  options.command = {"/bin/sh", "-c", "echo '@refuse no device here'; exit 2"};
  CHECK(supervise(options).status().message() == "no device here");
  options.command = {"/nowhere/program"};
  CHECK(supervise(options).status().message().find("/nowhere/program cannot be started") == 0);
  options.command = {"/bin/sh", "-c", "sleep 60"};
  options.start_timeout = 300ms;
  CHECK(supervise(options).status().message().find("no answer in 0.3 s") != std::string::npos);
}

TEST_CASE("progress is told in order") {
  SupervisorOptions options = shell(5, "3) exit 1;;");
  std::vector<std::size_t> told;
  options.progress = [&](std::size_t item, const ItemOutcome&) { told.push_back(item); };
  REQUIRE(supervise(options).ok());
  CHECK(told == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("every doubt has an experiment or a reason, and its place on the page") {
  const std::string page = read_text("docs/doubts.md");
  int number = 0;
  for (const Doubt& doubt : doubts()) {
    CAPTURE(doubt.number);
    CHECK(doubt.number == ++number);
    const std::string prefix = fmt::format("doubt {}: ", doubt.number);
    std::string experiments_of_it;
    for (const TestCase& test : experiments())
      if (test.name.starts_with(prefix))
        experiments_of_it += (experiments_of_it.empty() ? "" : "; ") + test.name.substr(prefix.size());
    CHECK(experiments_of_it.empty() != doubt.without_experiment.empty());
    const std::string row = fmt::format(
        "| {} | {} | {} | {} |\n", doubt.number, doubt.open, doubt.assumption,
        experiments_of_it.empty() ? fmt::format("none: {}", doubt.without_experiment) : experiments_of_it);
    CHECK_MESSAGE(page.find(row) != std::string::npos, row);
  }
  CHECK(number >= 35);
  for (const TestCase& test : experiments()) CHECK(test.name.starts_with("doubt "));
}

TEST_CASE("experiments come out on the simulator as assumed") {
  for (const char* device :
       {"sim:sm_90a", "sim:sm_100a", "sim:sm_100a?schedule=lazy", "sim:sm_100a?schedule=random&seed=1"}) {
    CAPTURE(std::string(device));
    const std::unique_ptr<Session> session = Session::open(device).value();
    for (const Item& item : items("doubt")) {
      CAPTURE(item.name);
      const ItemResult result = run_item(*session, item, nullptr);
      CAPTURE(result.message);
      CAPTURE(result.detail);
      const bool for_it = runs_on(item.test->needs, session->facts().target);
      CHECK(result.verdict != Verdict::kFailed);
      CHECK((result.verdict == Verdict::kSkipped) == !for_it);
      // Only sums are left to a GPU and the simulator to agree on.
      if (result.verdict == Verdict::kRan) CHECK(item.name.starts_with("doubt 14"));
    }
  }
}

TEST_CASE("an experiment that comes out otherwise fails") {
  const std::unique_ptr<Session> session = Session::open("sim:sm_90a").value();
  const TestCase* clipped = nullptr;
  for (const TestCase& test : experiments())
    if (test.name.starts_with("doubt 12")) clipped = &test;
  REQUIRE(clipped != nullptr);
  TestCase wrong = *clipped;
  wrong.make = [clipped] {
    TestKernel kernel = clipped->make();
    kernel.expected[103 * 4] ^= std::byte{1};
    return kernel;
  };
  const ItemResult result = run_item(*session, {wrong.name, wrong.group, &wrong, nullptr}, nullptr);
  CHECK(result.verdict == Verdict::kFailed);
  CHECK(result.message.find("1 of 128 words differ, the first at byte 412") != std::string::npos);
  wrong.make = [clipped] {
    TestKernel kernel = clipped->make();
    kernel.must_fail = true;
    return kernel;
  };
  CHECK(run_item(*session, {wrong.name, wrong.group, &wrong, nullptr}, nullptr).verdict == Verdict::kFailed);
}

#ifdef JFA_TOOL
CommandResult conformance(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {JFA_TOOL, "conformance"});
  return test::run_command(arguments);
}

TEST_CASE("the command writes one report") {
  const TemporaryDirectory directory;
  const std::string report = directory / "report.json", recorded = directory / "golden.json";
  test::write_script(directory / "hangs",
                     "#!/bin/sh\n[ \"$1\" = --list ] && { echo 'kernel 1, case 4: x'; echo 'kernel 2, case "
                     "9: y'; exit 0; }\n"
                     "echo \"$1 on $JFA_TEST_DEVICE\"; [ \"$1\" = --case=4 ] || sleep 60\n");
  test::write_script(directory / "crashes", "#!/bin/sh\n[ \"$1\" = --list ] && exit 2\nkill -ABRT $$\n");
  const CommandResult result = conformance(
      {"--device", "sim:sm_90a", "--golden", "tests/golden/h200.json", "--only", "doubt", "--json", report,
       "--suite", directory / "hangs", "--suite", directory / "crashes", "--suite-timeout", "1"});
  CAPTURE(result.output);
  CAPTURE(result.error);
  CHECK(result.exit_code == 1);
  const auto json = nlohmann::json::parse(read_text(report));
  CHECK(json.at("target") == "sm_90a");
  CHECK(json.at("items").size() == experiments().size());
  CHECK(json.at("doubts").size() == doubts().size());
  CHECK(json.at("doubts")[11].at("experiments")[0].at("verdict") == "passed");
  REQUIRE(json.at("suites").size() == 3);
  CHECK(json.at("suites")[0].at("verdict") == "passed");
  CHECK(json.at("suites")[1].at("verdict") == "hung");
  CHECK(json.at("suites")[1].at("detail") == "--case=9 on sim:sm_90a\n");
  CHECK(json.at("suites")[2].at("verdict") == "crashed");
  CHECK(json.at("summary").at("hung") == 1);

  const CommandResult instructions =
      conformance({"--device", "sim:sm_100a", "--golden", "tests/golden/h200.json", "--only", "mbarrier",
                   "--no-suites", "--record", recorded});
  CHECK_MESSAGE(instructions.exit_code == 0, instructions.error);
  CHECK(instructions.output.find("passed") != std::string::npos);
  const Golden golden = read_golden(recorded).value();
  CHECK(golden.device.target == "sm_100a");
  CHECK(golden.cases.contains("mbarrier counts"));
}

TEST_CASE("what cannot be done is said") {
  const CommandResult device = conformance({"--device", "sim:sm_75", "--no-suites"});
  CHECK(device.exit_code == 2);
  CHECK(device.error.find("sm_75") != std::string::npos);
  const CommandResult golden =
      conformance({"--device", "sim:sm_90a", "--golden", "nowhere.json", "--no-suites"});
  CHECK(golden.exit_code == 2);
  CHECK(golden.error.find("nowhere.json") != std::string::npos);
  const CommandResult list = conformance({"--list", "--only", "wgmma"});
  CHECK(list.exit_code == 0);
  CHECK(list.output.find("wgmma n64 bf16") != std::string::npos);
}
#endif

}  // namespace
}  // namespace jfa::conformance
