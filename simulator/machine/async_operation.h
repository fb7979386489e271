// A piece of work that runs beside the warps: a TMA copy, a tensor-core product, a commit's arrival.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/machine/report.h"
#include "simulator/machine/trace.h"

namespace jfa::simulator {

class Machine;

/// Operations are posted with Machine::post and then belong to the scheduler, which calls advance() once for
/// each step, at times the schedule chooses, until it returns true:
///   eager   all steps at the end of the instruction that posted it (as far as order allows);
///   lazy    one step whenever no warp can go on;
///   others  steps interleave with warps as Schedule says.
/// Steps are typically: read the source; write the destination (perhaps in pieces); complete (arrive,
/// complete_tx). What is in flight between them is the operation's own to mark in the shadow memory, from its
/// constructor on.
class AsyncOperation {
 public:
  explicit AsyncOperation(ProgramPoint issue, std::uint64_t queue = 0) : issue_(issue), queue_(queue) {}
  virtual ~AsyncOperation() = default;
  AsyncOperation(const AsyncOperation&) = delete;
  AsyncOperation& operator=(const AsyncOperation&) = delete;

  /// Does the next step; true when there is none left. May throw SimulationError.
  virtual bool advance(Machine& machine) = 0;
  /// False while something outside the queue's order holds the next step back.
  virtual bool ready() const { return true; }
  /// "TMA load of 16384 bytes to shared 0x400" for reports.
  virtual std::string describe() const = 0;

  /// Operations with the same non-zero key run one after another in the order they were posted; 0: no order.
  std::uint64_t queue() const { return queue_; }
  /// The instruction and thread that posted it.
  const ProgramPoint& issue() const { return issue_; }
  /// Serial number, given by Machine::post, from 1.
  std::uint64_t id() const { return id_; }

 private:
  friend class Scheduler;
  ProgramPoint issue_;
  std::uint64_t queue_ = 0;
  std::uint64_t id_ = 0;
  Engine engine_ = Engine::kCopy;
  int steps_ = 0;                // that it has done
  std::uint64_t posted_at_ = 0;  // in warp instructions
};

}  // namespace jfa::simulator
