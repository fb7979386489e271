#include "simulator/checkers/mbarrier_checks.h"

#include <fmt/format.h>

#include "simulator/async/mbarrier.h"

namespace jfa::simulator {

// PTX asks for one successful wait between two phases' arrivals; without one, nobody could tell the phases
// apart.
void MbarrierChecks::check_observed(const Mbarrier& barrier, const ProgramPoint& point) const {
  const std::uint64_t phase = barrier.phase();
  if (observed_ < phase && barrier.pending() == barrier.expected())
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrival for phase {} of {} before any thread has observed that phase {} completed",
                     phase, barrier.where(), phase - 1),
         barrier.describe());
}

void MbarrierChecks::arrive(const Mbarrier& barrier, std::uint32_t count, bool completes,
                            const ProgramPoint& point) {
  check_observed(barrier, point);
  if (!completes && count == barrier.pending() && barrier.transaction_bytes() == 0)
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrive.noComplete completes phase {} of {}", barrier.phase(), barrier.where()),
         barrier.describe());
}

void MbarrierChecks::expect(const Mbarrier& barrier, const ProgramPoint& point) {
  check_observed(barrier, point);
}

void MbarrierChecks::arrivals_in(const Mbarrier& barrier, const ProgramPoint& point) {
  const std::int64_t bytes = barrier.transaction_bytes();
  if (bytes < 0)
    fail(ErrorKind::kTransaction, point,
         fmt::format(
             "{} bytes more than expected have arrived in phase {} of {}, and every arrival is in: it can "
             "never complete",
             -bytes, barrier.phase(), barrier.where()),
         barrier.describe());
  if (bytes == 0 && barrier.is_owed())
    fail(
        ErrorKind::kTransaction, point,
        fmt::format("phase {} of {} completes while {} still owes it {} bytes: fewer were expected than were "
                    "issued",
                    barrier.phase(), barrier.where(), barrier.first_owed().what, barrier.first_owed().bytes),
        barrier.describe());
}

void MbarrierChecks::commit(const Mbarrier& barrier, const ProgramPoint& point) {
  last_commit_ = {point, barrier.phase() + 1};
}

void MbarrierChecks::observe(const Mbarrier& barrier, bool done, std::uint64_t wanted, int warp,
                             const ProgramPoint& point) {
  const std::uint64_t phase = barrier.phase();
  Watcher& watcher = watchers_[static_cast<std::size_t>(warp)];
  if (wanted != 0 && phase > wanted)
    fail(
        ErrorKind::kBarrier, point,
        fmt::format("warp {} waits for phase {} of {} after phase {} has completed too: it is {} phases late",
                    warp, wanted - 1, barrier.where(), phase - 1, phase - wanted + 1),
        barrier.describe());
  if (!done) {
    watcher.awaited = phase + 1;
    return;
  }
  watcher = {phase, 0, true};
  observed_ = phase;
}

void MbarrierChecks::await_parity(const Mbarrier& barrier, std::uint32_t parity, int warp,
                                  const ProgramPoint& point) {
  const Watcher& watcher = watchers_[static_cast<std::size_t>(warp)];
  // Which completion the warp must mean: the one it has been waiting for, or the one after its last. A wait
  // with the parity of its last is a second look, or deliberately skips a phase.
  std::uint64_t wanted = watcher.awaited;
  if (wanted != 0 && (wanted & 1) == (parity & 1)) wanted = 0;  // it gave up and asks for the other parity
  if (wanted == 0 && watcher.has_observed && ((watcher.observed + 1) & 1) != (parity & 1))
    wanted = watcher.observed + 1;
  observe(barrier, barrier.parity_done(parity), wanted, warp, point);
}

void MbarrierChecks::await_state(const Mbarrier& barrier, std::uint64_t token, int warp,
                                 const ProgramPoint& point) {
  observe(barrier, barrier.state_done(token), Mbarrier::phase_of(token) + 1, warp, point);
}

void MbarrierChecks::check_bytes(const Mbarrier& barrier, const char* when, const ProgramPoint& point) const {
  if (barrier.transaction_bytes() != 0)
    fail(ErrorKind::kTransaction, point,
         fmt::format("{}, and the transaction count of {} is {}", when, barrier.where(),
                     barrier.transaction_bytes()),
         barrier.describe());
}

void MbarrierChecks::invalidate(const Mbarrier& barrier, const ProgramPoint& point) {
  check_bytes(barrier, "mbarrier.inval", point);
}

void MbarrierChecks::exit(const Mbarrier& barrier) {
  constexpr const char* kWhen = "the CTA has exited";
  barrier.check_not_owed(kWhen);
  if (exit_bytes_) check_bytes(barrier, kWhen, {nullptr, barrier.owner(), -1, -1});
  // Who counts on commits to come in order leaves the earlier ones to the last.
  if (!commit_waits_ || last_commit_.completed <= observed_) return;
  fail(
      ErrorKind::kInFlight, last_commit_.point,
      fmt::format("the CTA has exited, and no thread has waited for the arrival of this commit at {}: it may "
                  "come after the exit",
                  barrier.where()),
      barrier.describe());
}

}  // namespace jfa::simulator
