// Proof by mutation: runs every mutant of a kernel on several schedules and counts those that go unnoticed.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "simulator/campaign/mutation.h"
#include "simulator/campaign/recording.h"

namespace jfa::sim {

/// What a mutant came to on one schedule.
struct Outcome {
  enum class Kind {
    kUnnoticed,  // silent, and every buffer as without the mutation
    kReported,   // by a checker
    kHung,       // deadlock, or out of instructions
    kDiffers,    // silent, but a buffer differs
    kRefused,    // does not load
  };
  Kind kind = Kind::kUnnoticed;
  std::string why;  // the report's first line, the buffer that differs
  bool killed() const { return kind != Kind::kUnnoticed; }
};

struct MutantResult {
  std::size_t mutant = 0;         // index into Mutations::mutants
  std::vector<Outcome> outcomes;  // by schedule
  bool killed() const;
  bool killed_everywhere() const;
};

struct CampaignOptions {
  std::vector<simulator::RunOptions> schedules;
  std::size_t sample = 0;    // mutants of each operation and change, spread over the kernel; 0: all
  std::string entry;         // mutants of this one only; empty: of all
  bool first_death = false;  // a mutant runs on no further schedule once it has been killed
  int jobs = 1;              // threads
  std::string source;        // see simulator::Module::load
  std::function<void(std::size_t done, std::size_t total)> progress;  // called from any thread
};

struct CampaignResult {
  simulator::Mutations mutations;
  std::vector<simulator::RunOptions> schedules;
  std::string entry;                  // as in the options
  std::vector<bool> reached;          // by site: whether some run comes there
  std::vector<MutantResult> results;  // of mutants at reached sites, in order
  std::vector<std::string> compared;  // buffers whose bytes are the same on every schedule
};

/// Errors: kInvalidArgument for a PTX that does not load; kInternal, with the report in detail(), if the
/// kernel as it is fails on a schedule.
Result<CampaignResult> run_campaign(const std::string& ptx, const simulator::Recording& recording,
                                    const CampaignOptions& options);

/// Eager, lazy, and random with seeds from 1.
std::vector<simulator::RunOptions> usual_schedules(int random_seeds);

/// "eager", "random, seed 3".
std::string describe(const simulator::RunOptions& schedule);

}  // namespace jfa::sim
