// jfa conformance: what a device does, against what we assume. The first thing to run on a new GPU:
// instruction tests, the experiments for open doubts and the suites of the tests, in child processes that may
// hang or crash.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "base/child_process.h"
#include "base/output_file.h"
#include "base/standard_streams.h"
#include "conformance/doubts.h"
#include "conformance/item.h"
#include "conformance/supervisor.h"
#include "tools/command_line.h"
#include "tools/option_checks.h"

namespace jfa::tools {
namespace {

using namespace conformance;
using Json = nlohmann::ordered_json;

constexpr std::string_view kConformanceCommand = "conformance";
constexpr std::size_t kKeptCharacters = 2000;  // of what a suite's case wrote
constexpr const char* kSuites[] = {"forward_suite_test", "forward_edges_test", "backward_suite_test"};

struct Options {
  std::string device = "cuda:0";
  std::string golden, only;
  std::optional<std::string> record, json;
  std::vector<std::string> suites;
  bool no_suites = false, list = false;
  double item_timeout_s = 30, suite_timeout_s = 120;
  int child_from = -1;  // not negative: this is a child
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// --- The child

int refuse(const Status& status) {
  write_refusal(status.message());
  return kFailure;
}

// Before the first item's answer it tells of the device, by way of the supervisor's extra item 0.
int run_child(const Options& options) {
  const std::vector<Item> all = items(options.only);
  Golden golden;
  if (!options.golden.empty()) {
    Result<Golden> read = read_golden(options.golden);
    if (!read) return refuse(read.status());
    golden = *std::move(read);
  }
  Result<std::unique_ptr<Session>> session = Session::open(options.device);
  if (!session) return refuse(session.status());
  for (auto i = static_cast<std::size_t>(options.child_from); i <= all.size(); ++i) {
    write_begin(i);
    if (i == 0) {
      const DeviceFacts& facts = (*session)->facts();
      write_end(i,
                Json{{"name", facts.name}, {"target", facts.target}, {"driver_version", facts.driver_version}}
                    .dump());
      continue;
    }
    const ItemResult result = run_item(**session, all[i - 1], options.golden.empty() ? nullptr : &golden);
    write_end(i, to_json(result).dump(-1, ' ', false, Json::error_handler_t::replace));
    // An error of a GPU sticks to its context, and the context to the process.
    if (result.device_lost && !(*session)->simulated()) _exit(kContinue);
  }
  return 0;
}

// --- The parent

struct Tally {
  std::map<std::string, int> counts;
  void add(const std::string& verdict) { ++counts[verdict]; }
  bool clean() const {
    for (const char* bad : {"failed", "crashed", "hung"})
      if (counts.contains(bad)) return false;
    return true;
  }
  std::string text() const {
    std::string text;
    for (const auto& [verdict, count] : counts)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, verdict);
    return text;
  }
};

Json item_json(const Item& item, const ItemOutcome& outcome, ItemResult* result) {
  Json json{{"name", item.name}, {"group", item.group}};
  if (outcome.kind == ItemOutcome::Kind::kAnswered) {
    const Json answer = Json::parse(outcome.answer);
    *result = result_from_json(answer);
    json.update(answer);
  } else {
    json["verdict"] = outcome.kind == ItemOutcome::Kind::kHung ? "hung" : "crashed";
    json["message"] = outcome.message;
  }
  json["seconds"] = outcome.seconds;
  return json;
}

Json doubts_json(const Json& done) {
  Json list = Json::array();
  for (const Doubt& doubt : doubts()) {
    Json experiments = Json::array();
    for (const Json& item : done)
      if (item.at("name").get_ref<const std::string&>().starts_with(fmt::format("doubt {}:", doubt.number)))
        experiments.push_back({{"name", item.at("name")}, {"verdict", item.at("verdict")}});
    Json json{{"number", doubt.number}, {"open", doubt.open}, {"assumption", doubt.assumption}};
    if (doubt.without_experiment.empty())
      json["experiments"] = experiments;
    else
      json["without_experiment"] = doubt.without_experiment;
    list.push_back(json);
  }
  return list;
}

// All that a child writes until it ends or its time is up.
struct Finished {
  bool hung = false;
  std::optional<int> exit_status;
  std::string how, output;
};
Result<Finished> run_to_end(const std::vector<std::string>& command,
                            const std::vector<std::string>& environment, double timeout_s) {
  Result<ChildProcess> child = ChildProcess::start(command, environment);
  if (!child) return child.status();
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(timeout_s);
  Finished finished;
  std::string line;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const ChildProcess::Read read = child->read_line(line, std::max(left, std::chrono::milliseconds(0)));
    if (read == ChildProcess::Read::kLine) finished.output += line + "\n";
    finished.hung = read == ChildProcess::Read::kTimeout;
    if (read != ChildProcess::Read::kLine) break;
  }
  finished.how = child->finish();
  finished.exit_status = child->exit_status();
  return finished;
}

// The arguments of a suite's cases, if it lists them: "--case=N" for each line with "case N:".
std::vector<std::string> cases_of(const std::string& suite, double timeout_s) {
  constexpr std::string_view kCase = "case ";
  std::vector<std::string> cases;
  const Result<Finished> listed = run_to_end({suite, "--list"}, {}, timeout_s);
  if (!listed || listed->exit_status != 0) return cases;
  std::istringstream lines(listed->output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(kCase), end = line.find(':', at);
    if (at == std::string::npos || end == std::string::npos) continue;
    const std::string number = line.substr(at + kCase.size(), end - at - kCase.size());
    if (number.find_first_not_of("0123456789") == std::string::npos) cases.push_back("--case=" + number);
  }
  return cases;
}

void run_suite(const Options& options, const std::string& suite, Json& results, Tally& tally) {
  std::vector<std::string> cases = cases_of(suite, options.suite_timeout_s);
  if (cases.empty()) cases.emplace_back();  // as a whole
  for (const std::string& one : cases) {
    std::vector<std::string> command{suite};
    if (!one.empty()) command.push_back(one);
    const auto start = std::chrono::steady_clock::now();
    const Result<Finished> finished =
        run_to_end(command, {"JFA_TEST_DEVICE=" + options.device}, options.suite_timeout_s);
    const std::string name =
        std::filesystem::path(suite).filename().string() + (one.empty() ? "" : " " + one);
    std::string verdict = "failed", message;
    if (!finished) {
      message = finished.status().message();
    } else {
      verdict = finished->hung               ? "hung"
                : finished->exit_status == 0 ? "passed"
                : finished->exit_status      ? "failed"
                                             : "crashed";
      message = finished->how;
    }
    tally.add(verdict);
    Json json{{"name", name}, {"verdict", verdict}, {"message", message}};
    if (finished && verdict != "passed")
      json["detail"] = finished->output.substr(finished->output.size() -
                                               std::min(finished->output.size(), kKeptCharacters));
    json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (verdict != "passed") tell(fmt::format("{}: {}: {}\n", verdict, name, message));
    results.push_back(json);
  }
}

// Those that were built beside this program, unless some are named.
std::vector<std::string> suites_of(const Options& options) {
  if (options.no_suites || !options.suites.empty()) return options.suites;
  std::vector<std::string> found;
  const std::filesystem::path tests = std::filesystem::path(own_path()).parent_path().parent_path() / "tests";
  for (const char* name : kSuites)
    if (std::filesystem::exists(tests / name)) found.push_back((tests / name).string());
  return found;
}

int run_parent(const Options& options) {
  for (const std::string& suite : options.suites)
    if (::access(suite.c_str(), X_OK) != 0)
      return fail(kConformanceCommand,
                  Status::unavailable(fmt::format("--suite {}: {}", suite, std::strerror(errno))));
  if (!options.golden.empty())
    if (const Result<Golden> golden = read_golden(options.golden); !golden)
      return fail(kConformanceCommand, golden.status());
  Result<std::optional<OutputFile>> report_file = open_if_given(options.json);
  if (!report_file) return fail(kConformanceCommand, report_file.status());
  Result<std::optional<OutputFile>> golden_file = open_if_given(options.record);
  if (!golden_file) return fail(kConformanceCommand, golden_file.status());
  const std::vector<Item> all = items(options.only);
  SupervisorOptions supervisor;
  supervisor.command = {own_path(), "--device", options.device};
  if (!options.only.empty()) supervisor.command.insert(supervisor.command.end(), {"--only", options.only});
  if (!options.golden.empty())
    supervisor.command.insert(supervisor.command.end(), {"--golden", options.golden});
  supervisor.command.push_back("--child-from");
  supervisor.count = all.size() + 1;
  supervisor.item_timeout = milliseconds(options.item_timeout_s);
  Tally tally;
  Json done = Json::array();
  Golden recorded;
  recorded.date = today();
  supervisor.progress = [&](std::size_t index, const ItemOutcome& outcome) {
    if (index == 0) {
      if (outcome.kind != ItemOutcome::Kind::kAnswered) return;
      const Json facts = Json::parse(outcome.answer);
      recorded.device = {facts.at("name"), facts.at("target"), facts.at("driver_version")};
      tell(fmt::format("{}, {}, driver for CUDA {}\n", recorded.device.name, recorded.device.target,
                       recorded.device.driver_version));
      return;
    }
    const Item& item = all[index - 1];
    ItemResult result;
    Json json = item_json(item, outcome, &result);
    const std::string verdict = json.at("verdict");
    tally.add(verdict);
    if (verdict == "failed" || verdict == "hung" || verdict == "crashed")
      tell(fmt::format("{}: {}: {}\n", verdict, item.name, json.at("message").get<std::string>()));
    if (item.group != "doubt" && !result.answer.digest.empty()) recorded.cases[item.name] = result.answer;
    if (!result.sweep.digest.empty()) recorded.sweeps[item.name] = result.sweep;
    json.erase("answer");
    done.push_back(std::move(json));
  };
  const auto outcomes = supervise(supervisor);
  if (!outcomes) return fail(kConformanceCommand, outcomes.status());
  Json suites = Json::array();
  for (const std::string& suite : suites_of(options)) run_suite(options, suite, suites, tally);
  tell(tally.text() + "\n");
  if (*report_file) {
    const Json report{{"device", options.device},
                      {"name", recorded.device.name},
                      {"target", recorded.device.target},
                      {"driver_version", recorded.device.driver_version},
                      {"date", recorded.date},
                      {"golden", options.golden},
                      {"summary", tally.counts},
                      {"items", done},
                      {"doubts", doubts_json(done)},
                      {"suites", suites}};
    const std::string text = report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (Status status = (*report_file)->write(text); !status.ok()) return fail(kConformanceCommand, status);
  }
  if (*golden_file)
    if (Status status = (*golden_file)->write(golden_text(recorded)); !status.ok())
      return fail(kConformanceCommand, status);
  return tally.clean() ? kSuccess : kNegative;
}

int run(const Options& options) {
  if (options.child_from >= 0) return run_child(options);
  if (items(options.only).empty())
    return fail(
        kConformanceCommand,
        Status::invalid_argument(fmt::format(
            "--only {}: no item has that in its name or group; --list prints them all", options.only)));
  if (!options.list) return run_parent(options);
  for (const Item& item : items(options.only)) fmt::print("{:<14} {}\n", item.group, item.name);
  return kSuccess;
}

}  // namespace

void add_conformance_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App& command =
      *app.add_subcommand(std::string(kConformanceCommand),
                          "Check a GPU, instruction by instruction, against what is assumed of it");
  command.footer(
      "Instruction tests are compared with golden answers (--golden), or on a GPU with the simulator of its "
      "target;\n"
      "approximations with the bounds of the PTX ISA; the experiments for doubts (docs/doubts.md) with what "
      "is assumed.\n"
      "Each runs in a child process under a watchdog, so that hangs, crashes and errors that stick to a "
      "context are\n"
      "noted and passed. Then the suites of the tests run, one child a case.\n"
      "Exit status: 0, 1 if anything failed, hung or crashed, 2 on any error.");
  command.add_option("--device", options->device, "cuda:N, or a simulated GPU such as sim:sm_100a")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--json", options->json, "where to write the report; - is stdout")->type_name("FILE");
  command.add_option("--golden", options->golden, "answers of a GPU, such as tests/golden/h200.json")
      ->type_name("FILE");
  command
      .add_option("--record", options->record,
                  "where to write this device's answers, as golden ones; - is stdout")
      ->type_name("FILE");
  command.add_option("--only", options->only, "items whose name or group contains TEXT")->type_name("TEXT");
  command
      .add_option("--suite", options->suites,
                  "a test program to run on the device; default: those built beside jfa")
      ->type_name("PROGRAM");
  command.add_flag("--no-suites", options->no_suites, "run none");
  finite(command.add_option("--timeout", options->item_timeout_s, "seconds an item may take"), 0)
      ->type_name("S")
      ->capture_default_str();
  finite(command.add_option("--suite-timeout", options->suite_timeout_s, "seconds a suite's case may take"),
         0)
      ->type_name("S")
      ->capture_default_str();
  command.add_flag("--list", options->list, "print the items and run none");
  command.add_option("--child-from", options->child_from, "")->group("");  // not for people
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tools
