// jfa tune show, export, import, diff and verify.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "generator/plan.h"
#include "tools/command_line.h"
#include "tools/command_tune.h"
#include "tools/option_checks.h"
#include "tools/table.h"
#include "tuning/database.h"

namespace jfa::tools {
namespace {

using Records = std::map<std::string, TuningRecord>;  // by name

std::string words(const Tuning& tuning) { return tuning.empty() ? "defaults" : to_string(tuning); }

// The records of several databases; of one name the last one's. complaints are notes.
Result<Records> read_all(std::string_view command, const std::vector<std::string>& paths, bool* damaged) {
  Records records;
  for (const std::string& path : paths) {
    Result<ReadDatabase> database = read_database(*posix_file_system(), path);
    if (!database) return database.status();
    for (const std::string& complaint : database->complaints) note(command, complaint);
    *damaged = *damaged || !database->complaints.empty();
    for (TuningRecord& record : database->records) records.insert_or_assign(name(record), std::move(record));
  }
  return records;
}

std::string bits_of(const TuningRecord& record) {
  if (record.winner.empty()) return "-";
  return record.winner_same_bits ? "same" : "OTHER";
}

std::size_t count(const TuningRecord& record, Trial::Outcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(record.trials, outcome, &Trial::outcome));
}

void show_trials(const TuningRecord& record) {
  tell(fmt::format("\n{}\n  {}\n  {} with {} multiprocessors, driver {}, {}, jfa {}\n  {}\n", name(record),
                   describe(record.problem.size), record.device.name, record.device.multiprocessors,
                   record.driver, record.compiler, record.jfa, record.policy));
  std::vector<const Trial*> trials;
  for (const Trial& trial : record.trials) trials.push_back(&trial);
  // The fastest first; those without times behind.
  std::ranges::stable_sort(trials, {},
                           [](const Trial* trial) { return trial->ratio > 0 ? trial->ratio : 1e9; });
  Table table({"  ratio", "quartiles", "bits", "outcome", "tuning"});
  for (const Trial* trial : trials) {
    const bool timed = trial->ratio > 0;
    table.add(
        {timed ? fmt::format("  {:.4f}", trial->ratio) : "  -",
         timed ? fmt::format("{:.4f} {:.4f}", trial->ratio_lower_quartile, trial->ratio_upper_quartile) : "-",
         !trial->same_bits   ? "-"
         : *trial->same_bits ? "same"
                             : "other",
         std::string(to_string(trial->outcome)) + (trial->reason.empty() ? "" : ": " + trial->reason),
         words(trial->tuning)});
  }
  for (const LeftOut& left : record.left_out)
    table.add({"  -", "-", "-", "left out: " + left.reason, words(left.tuning)});
  tell(table.text());
}

int show(const std::vector<std::string>& paths, const std::string& only, bool all) {
  bool damaged = false;
  const Result<Records> records = read_all("tune show", paths, &damaged);
  if (!records) return fail("tune show", records.status());
  Table table({"class", "winner", "of defaults", "bits", "trials", "refused", "failed", "state"});
  std::vector<std::string> changing;
  for (const auto& [key, record] : *records) {
    if (key.find(only) == key.npos) continue;
    table.add({key, words(record.winner),
               record.winner.empty() ? "-" : fmt::format("{:.3f}", record.winner_ratio), bits_of(record),
               fmt::format("{}", record.trials.size()),
               fmt::format("{}", count(record, Trial::Outcome::kRefused)),
               fmt::format("{}", count(record, Trial::Outcome::kFailed)),
               record.simulated  ? "simulated: not ranked"
               : record.complete ? "complete"
                                 : "incomplete"});
    if (!record.winner.empty() && !record.winner_same_bits) changing.push_back(key);
  }
  tell(table.text());
  if (changing.empty()) {
    tell("no winner changes bits: results are the defaults'\n");
  } else {
    tell(fmt::format("this database changes bits: {} of {} winners round differently from the defaults\n",
                     changing.size(), records->size()));
  }
  for (const auto& [key, record] : *records)
    if (all && key.find(only) != key.npos) show_trials(record);
  return damaged ? kNegative : kSuccess;
}

int export_records(const std::vector<std::string>& paths, const std::string& path) {
  Result<OutputFile> output = OutputFile::open(path);
  if (!output) return fail("tune export", output.status());
  bool damaged = false;
  const Result<Records> records = read_all("tune export", paths, &damaged);
  if (!records) return fail("tune export", records.status());
  std::vector<TuningRecord> list;
  for (const auto& [key, record] : *records) list.push_back(record);
  const Status status = output->write(to_text(list));
  if (!status.ok()) return fail("tune export", status);
  tell(fmt::format("{}: {} records\n", output->name(), list.size()));
  return damaged ? kNegative : kSuccess;
}

int import_records(const std::vector<std::string>& paths, const std::string& directory) {
  bool damaged = false;
  const Result<Records> records = read_all("tune import", paths, &damaged);
  if (!records) return fail("tune import", records.status());
  for (const auto& [key, record] : *records) {
    if (Status status = write_record(*posix_file_system(), directory, record); !status.ok())
      return fail("tune import", status);
  }
  tell(fmt::format("{}: {} records\n", directory, records->size()));
  return damaged ? kNegative : kSuccess;
}

int diff(const std::vector<std::string>& paths) {
  bool damaged = false;
  Result<Records> left = read_all("tune diff", {paths[0]}, &damaged);
  Result<Records> right = read_all("tune diff", {paths[1]}, &damaged);
  if (!left) return fail("tune diff", left.status());
  if (!right) return fail("tune diff", right.status());
  bool differs = damaged;
  const auto line = [&](const std::string& text) {
    tell(text + "\n");
    differs = true;
  };
  for (const auto& [key, record] : *left) {
    const auto other = right->find(key);
    if (other == right->end()) {
      line(fmt::format("- {}: {}", key, words(record.winner)));
      continue;
    }
    if (other->second.winner != record.winner)
      line(fmt::format("! {}: {} ({:.3f}) -> {} ({:.3f})", key, words(record.winner), record.winner_ratio,
                       words(other->second.winner), other->second.winner_ratio));
    if (other->second.policy != record.policy)
      line(fmt::format("! {}: measured differently: '{}' -> '{}'", key, record.policy, other->second.policy));
  }
  for (const auto& [key, record] : *right)
    if (!left->contains(key)) line(fmt::format("+ {}: {}", key, words(record.winner)));
  return differs ? kNegative : kSuccess;
}

// What a record says must hold together, and its winner must fit this version's plan.
std::string fault_of(const TuningRecord& record) {
  const Result<KernelPlan> planned = plan(record.problem.spec, record.winner);
  if (!planned) return "its winner: " + planned.status().message();
  if (planned->tuning != record.winner)
    return fmt::format("its winner {} is {} in this version", words(record.winner), words(planned->tuning));
  if (record.trials.empty() || !record.trials.front().tuning.empty())
    return "its first trial is not of the defaults";
  const auto trial = std::ranges::find(record.trials, record.winner, &Trial::tuning);
  if (trial == record.trials.end()) return "its winner was no candidate";
  if (record.winner.empty()) return {};
  if (record.simulated) return "a simulated device cannot have a winner";
  if (trial->outcome != Trial::Outcome::kWon)
    return fmt::format("its winner's trial is '{}'", to_string(trial->outcome));
  if (!trial->same_bits) return "its winner was never checked";
  if (!(trial->ratio > 0 && trial->ratio < 1) || std::abs(trial->ratio - record.winner_ratio) > 1e-6)
    return "its winner's ratio is not that of its times";
  if (*trial->same_bits != record.winner_same_bits) return "what it says of its winner's bits differs";
  return {};
}

int verify(const std::vector<std::string>& paths) {
  bool damaged = false;
  const Result<Records> records = read_all("tune verify", paths, &damaged);
  if (!records) return fail("tune verify", records.status());
  for (const auto& [key, record] : *records) {
    const std::string fault = fault_of(record);
    if (fault.empty()) continue;
    tell(fmt::format("{}: {}\n", key, fault));
    damaged = true;
  }
  tell(fmt::format("{} records{}\n", records->size(), damaged ? "" : ", all right"));
  return damaged ? kNegative : kSuccess;
}

}  // namespace

void add_tune_database_commands(CLI::App& tune, int& exit_code) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  const auto add = [&](const char* name, const char* what, int least, int most) -> CLI::App& {
    CLI::App& command = *tune.add_subcommand(name, what);
    command.add_option("DATABASE", *paths, "directory or export")
        ->required()
        ->expected(least, most)
        ->type_name("FILE");
    return command;
  };
  constexpr int kMany = 1000;
  CLI::App& shown = add("show", "Winners of a database, and whether they change bits", 1, kMany);
  const auto only = std::make_shared<std::string>();
  const auto trials = std::make_shared<bool>(false);
  shown.add_option("--only", *only, "classes whose names have this in them")->type_name("TEXT");
  shown.add_flag("--trials", *trials, "also every candidate, with ratios and reasons");
  shown.callback([=, &exit_code] { exit_code = show(*paths, *only, *trials); });

  const auto output = std::make_shared<std::string>();
  CLI::App& exported = add("export", "Several databases as one file", 1, kMany);
  exported.add_option("-o,--output", *output, "file to write; - is stdout")->required()->type_name("OUT");
  exported.callback([=, &exit_code] { exit_code = export_records(*paths, *output); });

  CLI::App& imported = add("import", "Adds exports and databases to a directory", 1, kMany);
  imported.add_option("--database,-o", *output, "directory to add to")->required()->type_name("DIR");
  imported.callback([=, &exit_code] { exit_code = import_records(*paths, *output); });

  CLI::App& differing = add("diff", "Winners that differ; exit status 1 if some do", 2, 2);
  differing.callback([=, &exit_code] { exit_code = diff(*paths); });
  CLI::App& verified =
      add("verify", "Whether records hold together and fit this version; exit status 1 if not", 1, kMany);
  verified.callback([=, &exit_code] { exit_code = verify(*paths); });
}

}  // namespace jfa::tools
